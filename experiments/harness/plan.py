"""The plan of a run: complete results, missing results, and the cost of measuring the missing ones.

It reads the store and the tables, and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.harness.config import Config
from experiments.harness.experiment import MEASURED
from experiments.harness.files import csv_name
from experiments.harness.grid import Sweep
from experiments.harness.problems import LongRunError
from experiments.harness.run import Work, Workers, find_chunks, find_pilots
from experiments.harness.store import Store
from experiments.harness.tables import TableError, is_current, sound_contents

_WORKER_BASE = 50 * 2**20  # interpreter, NumPy and the library
LONGEST = 3600.0  # estimated seconds of a run that starts without consent
_PLUS_WAITING = ", plus the trials that the pilots will request"


@dataclass(frozen=True)
class Known:
    """The work of a run as far as it is known before anything is measured."""

    pilots: Work
    chunks: Work
    waiting: tuple[str, ...]  # sweeps whose trials follow from pilots that are still to measure

    @property
    def seconds(self) -> float:
        """Rough time in seconds that one worker needs."""
        return self.pilots.seconds + self.chunks.seconds

    def exceeds(self, limit: float | None, workers: Workers) -> bool:
        """True if the estimate exceeds a limit in seconds; None is no limit."""
        return limit is not None and self.seconds / workers.slots > limit

    def refuse_beyond(self, limit: float | None, workers: Workers) -> None:
        """Raise `LongRunError` if the estimate exceeds a limit in seconds; None is no limit."""
        if self.exceeds(limit, workers):
            needed = _duration(self.seconds / workers.slots)
            raise LongRunError(
                f"expected an estimate of at most {_duration(limit or 0)}, got {needed} with {workers}"
                f"{_PLUS_WAITING if self.waiting else ''}; no chunk was measured"
            )


def known_work(store: Store, sweeps: Sequence[Sweep]) -> Known:
    """The pilots and chunks of sweeps, in the store and still to measure."""
    pilots = find_pilots(store, sweeps)
    chunks = find_chunks(store, [sweep for sweep in sweeps if not pilots.left[sweep.name]])
    return Known(pilots, chunks, tuple(sweep.name for sweep in sweeps if pilots.left[sweep.name]))


def plan_lines(
    config: Config, sweeps: Sequence[Sweep], results: Path, known: Known, workers: Workers, limit: float | None = None
) -> list[str]:
    """One line per sweep, and a total.

    Times are rough estimates from counts of draws, products and exponentials.
    A sweep with a precision counts its pilots until all are measured: only then are its trials known.
    """
    lines = [
        f"{'sweep':<16} {'experiment':<14} {'cells':>6} {'trials':>9} {'to measure':>18} {'per worker':>10}  table"
    ]
    for sweep in sweeps:
        cells = sweep.cells()
        memory = max(sweep.experiment.memory(cell) for cell in cells) + _WORKER_BASE
        part, kind = (known.pilots, "pilots") if sweep.name in known.waiting else (known.chunks, "chunks")
        chunks = f"{part.left[sweep.name]} of {part.states[sweep.name].total()} {kind}"
        trials = "by pilot" if sweep.precision else sweep.trials
        lines.append(
            f"{sweep.name:<16} {sweep.experiment.name:<14} {len(cells):>6} {trials:>9}"
            f" {chunks:>18} {memory / 2**20:>6.0f} MiB  {_state(config, sweep, results, part, kind)}"
        )
    total = f"{_duration(known.seconds / workers.slots)} with {workers}{_PLUS_WAITING if known.waiting else ''}"
    lines.append(f"total to measure: about {total}; tables go to {results}")
    if known.exceeds(limit, workers):
        lines.append(f"A run of more than {_duration(limit or 0)} starts only with YES=1 (--yes).")
    return lines


def _state(config: Config, sweep: Sweep, results: Path, work: Work, kind: str) -> str:
    """The state of a sweep, from its table and the store: complete, stale (with the reason), partial or missing."""
    left, states = work.left[sweep.name], work.states[sweep.name]
    if is_current(results, config, sweep):
        return "complete, chunks missing" if left else "complete"
    if not (results / csv_name(sweep.name, MEASURED)).exists():
        if not left:
            return "measured, table not yet written"
        begun = states.total() - left
        return f"partial ({begun} of {states.total()} {kind} measured)" if begun else "missing"
    try:
        sound_contents(results, config, sweep)
    except TableError as error:
        return f"stale: {error}"
    others = f", {states['stale']} {kind} too" if states["stale"] else ""
    return f"stale: another version of the source or of the libraries made it{others}"


def _duration(seconds: float) -> str:
    """A time in words, in seconds below 90 s, in minutes below 90 min, else in hours.

    >>> _duration(75), _duration(600), _duration(9000)
    ('75 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
