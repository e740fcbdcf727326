"""A process keeps the memory that it frees, because in the measuring loop new pages cost as much as exponentials."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_KEPT, _FROM_THE_HEAP = 128 * 2**20, 32 * 2**20


def keep_freed_memory() -> None:
    """Let the C library keep freed arrays of up to 32 MiB each, and up to 128 MiB in total, for the next arrays.

    By default, glibc returns the memory that NumPy frees to the system, a block of scores at a time, and the system
    zeroes it page by page for the next block. Other C libraries keep their settings.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
        mallopt(_M_MMAP_THRESHOLD, _FROM_THE_HEAP)
