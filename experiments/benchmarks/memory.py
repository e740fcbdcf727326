"""Peak memory: of the arrays that a task makes, and of a process that measures a cell."""

import contextlib
import resource
import sys
import tracemalloc
from pathlib import Path

from experiments.benchmarks.timing import Task
from experiments.benchmarks.ways import ways
from experiments.harness.local import worker_pool
from experiments.saturation import Cell

_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
_PROCESS = Path("/proc/self")


def peak_of_task(task: Task) -> int:
    """Peak bytes that Python and NumPy allocate during the task; arrays made before it do not count.

    >>> 8e6 <= peak_of_task(lambda: bytearray(8_000_000)) < 9e6
    True
    """
    tracemalloc.start()
    task()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def peak_of_process(cell: Cell, way: str) -> int:
    """Bytes above its imports that a separate process needs to measure a chunk of the cell in one way.

    Unlike `peak_of_task` it counts the memory of libraries too, such as BLAS buffers.

    Args:
        cell: the cell to measure, with gradients.
        way: a key of `ways()`.
    """
    with worker_pool(1) as pool:
        return pool.submit(_peak, cell, way).result()


def _peak(cell: Cell, name: str) -> int:
    """The difference of peaks in this process: after the chunk, and after a tiny cell that runs late imports."""
    way = ways()[name]
    small = Cell(d_k=2, n_keys=2, n_queries=2, scaling=cell.scaling)
    way.measure(small, 2, True)  # runs the imports that wait for first use
    before = _restart_peak()
    way.measure(cell, way.chunk(cell), True)
    return _process_peak() - before


def _restart_peak() -> int:
    """Reset the recorded peak and return the bytes in memory now; the peak so far on systems without a reset."""
    with contextlib.suppress(OSError):  # if the file does not exist or is not writable
        (_PROCESS / "clear_refs").write_text("5")
    return _process_peak()


def _process_peak() -> int:
    """Peak bytes in memory."""
    if not _PROCESS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
    lines = (_PROCESS / "status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
