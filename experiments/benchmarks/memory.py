"""The peak of a process that measures one way, above what its imports take."""

import contextlib
import multiprocessing
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
_PROCESS = Path("/proc/self")


def peak_of(size: tuple[int, int, int], way: str) -> int:
    """Bytes, from a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_peak, size, way).result()


def _peak(size: tuple[int, int, int], way: str) -> int:
    from threadpoolctl import threadpool_limits

    from experiments.benchmarks.sizes import cell_of
    from experiments.benchmarks.ways import ways
    from experiments.draws import block_trials, chunk_trials
    from experiments.harness.memory import keep_freed_memory

    threadpool_limits(limits=1)
    keep_freed_memory()
    run = ways()[way]
    run(cell_of(2, 2, 2), 2, True)  # what is loaded on first use
    cell = cell_of(*size)
    trials = {"suite": chunk_trials(cell), "pytorch": block_trials(cell)}.get(way, 2)
    before = _resident()
    run(cell, trials, True)
    return _largest() - before


def _resident() -> int:
    """Bytes in memory now, from where on the peak is counted; where that cannot be said the peak so far."""
    with contextlib.suppress(OSError):  # where there is no such file, or it may not be written
        (_PROCESS / "clear_refs").write_text("5")
    return _largest()


def _largest() -> int:
    """Bytes in memory at the peak."""
    if not _PROCESS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
    lines = (_PROCESS / "status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
