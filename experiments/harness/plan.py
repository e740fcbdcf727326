"""The plan of a run: what is complete, what is missing, and the cost of measuring it. It writes nothing."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.harness.config import Config
from experiments.harness.experiment import MEASURED
from experiments.harness.files import csv_name
from experiments.harness.grid import Sweep
from experiments.harness.problems import LongRunError
from experiments.harness.run import Work, Workers
from experiments.harness.tables import TableError, is_current, sound_contents

_WORKER_BASE = 50 * 2**20  # interpreter, NumPy and the library
LONGEST = 3600.0  # estimated seconds of a run that starts without consent


def exceeds(limit: float | None, work: Work, workers: Workers) -> bool:
    """True if the estimate exceeds a limit in seconds; None is no limit."""
    return limit is not None and work.seconds / workers.slots > limit


def refuse_beyond(limit: float | None, work: Work, workers: Workers) -> None:
    """Raise `LongRunError` if the estimate exceeds a limit in seconds; None is no limit."""
    if exceeds(limit, work, workers):
        expected = f"expected an estimate of at most {_duration(limit or 0)}"
        raise LongRunError(f"{expected}, got {_estimate(work, workers)}; no further chunk was measured")


def _estimate(work: Work, workers: Workers) -> str:
    plus = ", plus the trials that the pilots will request" if work.waiting else ""
    return f"{_duration(work.seconds / workers.slots)} with {workers}{plus}"


def plan_lines(
    config: Config, sweeps: Sequence[Sweep], results: Path, work: Work, workers: Workers, limit: float | None
) -> Iterator[str]:
    """One line per sweep, and a total.

    Times are rough estimates from counts of draws, products and exponentials.
    """
    yield f"{'sweep':<16} {'experiment':<14} {'cells':>6} {'trials':>9} {'to measure':>18} {'per worker':>10}  table"
    for sweep in sweeps:
        cells, kind = sweep.cells(), "pilots" if sweep.name in work.waiting else "chunks"
        memory = max(sweep.experiment.memory(cell) for cell in cells) + _WORKER_BASE
        chunks = f"{work.left[sweep.name]} of {work.total[sweep.name]} {kind}"
        trials = "by pilot" if sweep.precision else sweep.trials
        yield (
            f"{sweep.name:<16} {sweep.experiment.name:<14} {len(cells):>6} {trials:>9}"
            f" {chunks:>18} {memory / 2**20:>6.0f} MiB  {_state(config, sweep, results, work)}"
        )
    yield f"total to measure: about {_estimate(work, workers)}; tables go to {results}"
    if exceeds(limit, work, workers):
        yield f"A run of more than {_duration(limit or 0)} starts only with YES=1 (--yes)."


def _state(config: Config, sweep: Sweep, results: Path, work: Work) -> str:
    """The state of the tables of a sweep."""
    if is_current(results, config, sweep):
        return "complete" if work.is_complete(sweep) else "complete, chunks missing"
    if not (results / csv_name(sweep.name, MEASURED)).exists():
        return "missing"
    try:
        sound_contents(results, config, sweep)
    except TableError as error:
        return f"stale: {error}"
    return "stale: another version of the source or of the libraries made it"


def _duration(seconds: float) -> str:
    """A time in words, in seconds below 90 s, in minutes below 90 min, else in hours.

    >>> _duration(75), _duration(600), _duration(9000)
    ('75 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
