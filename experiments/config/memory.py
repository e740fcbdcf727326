"""The memory of this machine, which bounds that of its workers."""

import os

GIB = 2**30


def machine_memory() -> int:
    """Bytes of this machine, in use or not."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
