"""The part of a cluster run that runs in the workers: each says what it is, and measures chunks.

A worker imports this module from its own copy of the suite. `source` follows every module that could take part in a
measurement, so the client refuses a worker whose copy differs.
"""

import math
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Self

from distributed import get_worker
from threadpoolctl import threadpool_limits

from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.fingerprint import source_fingerprint, versions
from experiments.harness.grid import Chunk
from experiments.harness.processor import arithmetic, require_fixed
from experiments.harness.store import Stamp, measure_record

_READING = threading.Lock()
Arguments = tuple[Chunk, int, Stamp]  # of `measure_record`
MeasureGroup = Callable[[Sequence[Arguments], str], tuple[list[bytes], str | None]]  # as `measure_records`


@dataclass(frozen=True)
class Copy:
    """The copy of the suite in a process, and the libraries that its numbers depend on.

    Attributes:
        source: SHA-256 of the source of all experiments and of this module.
        versions: versions of NumPy and SciPy.
        arithmetic: the C library, NumPy's SIMD level and the BLAS kernel. They can change last digits.
    """

    source: str
    versions: dict[str, str]
    arithmetic: str

    def differences(self, other: "Copy") -> list[str]:
        """Each package of another copy that differs in a way that can change numbers, with both versions.

        >>> one, two = Copy("a", {"numpy": "2.3.0"}, "AVX2"), Copy("a", {"numpy": "2.2.0"}, "AVX512")
        >>> one.differences(two)
        ['numpy: expected 2.3.0, got 2.2.0']
        >>> one.differences(Copy("a", {}, "AVX2"))  # of an older suite
        ['numpy: expected 2.3.0, got None']
        """
        mine, others = ({"source of the suite": copy.source[:12], **copy.versions} for copy in (self, other))
        return [
            f"{name}: expected {mine[name]}, got {others.get(name)}" for name in mine if mine[name] != others.get(name)
        ]


def this_copy() -> Copy:
    """The copy of the suite in this process.

    The first call imports all experiments and reads all their sources. A process therefore reports the source that it
    runs, even if the files change later.
    """
    with _READING:  # Python 3.11 cannot parse source in several threads at a time
        return _read_copy()


@cache
def _read_copy() -> Copy:
    names = experiment_names()
    for name in names:
        load_experiment(name)
    source = source_fingerprint(__name__, *(f"experiments.{name}" for name in names))
    require_fixed()
    return Copy(source, versions(), ", ".join(arithmetic()[name] for name in ("libc", "simd", "blas")))


@dataclass(frozen=True)
class WorkerDescription:
    """A worker of the cluster, as it describes itself.

    Attributes:
        copy: its copy of the suite.
        threads: number of chunks that it measures at a time.
        memory: bytes at which Dask pauses it; infinite without a limit.
    """

    copy: Copy
    threads: int
    memory: float

    @classmethod
    def rebuilt(cls, described: dict[str, Any]) -> Self:
        """The description from the answer of `describe_worker`; `TypeError` or `KeyError` if another suite gave it."""
        return cls(Copy(**described["copy"]), described["threads"], described["memory"])


def describe_worker() -> dict[str, Any]:
    """A `WorkerDescription` of the worker in which this runs, as plain values: the client can read any answer."""
    worker = get_worker()
    manager = worker.memory_manager
    limit = manager.memory_limit * (manager.memory_pause_fraction or 1) if manager.memory_limit else math.inf
    return asdict(WorkerDescription(this_copy(), worker.state.nthreads, limit))


def measure_records(tasks: Sequence[Arguments], source: str) -> tuple[list[bytes], str | None]:
    """Measure chunks and make their records, one after another, until one fails; runs in a worker.

    Args:
        tasks: the arguments of `measure_record` for each chunk.
        source: `Copy.source` of the client.

    Returns:
        The records of the leading chunks that succeeded, and the text of the error of the next one; None without an
        error. Errors travel as text, because the client may be unable to rebuild an exception.
    """
    records: list[bytes] = []
    try:
        if this_copy().source != source:
            return [], f"expected the source {source[:12]}, got {this_copy().source[:12]}"
        _use_one_thread()
        for arguments in tasks:
            records.append(measure_record(*arguments))  # one by one: those before an error count
    except (ArithmeticError, ValueError, MemoryError) as error:
        return records, f"{type(error).__name__}: {error}"
    except Exception:  # a bug: its place matters
        return records, traceback.format_exc()
    return records, None


@cache
def _use_one_thread() -> None:
    """Let BLAS use one thread in this process, for good: a limit that ends would end for other threads too."""
    threadpool_limits(limits=1)
