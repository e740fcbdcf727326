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

_SIZES = ("d_k", "n_keys")  # the axes of which a divisor is a function
_WORKER_BASE = 50 * 2**20  # interpreter, NumPy and the library
LONGEST = 3600.0  # estimated seconds of a run that starts without consent
_PLUS_WAITING = ", plus the trials that the pilots will request"
_ELSEWHERE = "complete, chunks missing"


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
        if limit is not None and self.exceeds(limit, workers):
            needed = _duration(self.seconds / workers.slots)
            raise LongRunError(
                f"expected an estimate of at most {_duration(limit)}, got {needed} with {workers}"
                f"{_PLUS_WAITING if self.waiting else ''}; no chunk was measured"
            )


def known_work(store: Store, sweeps: Sequence[Sweep]) -> Known:
    """The pilots and chunks of sweeps, in the store and still to measure."""
    pilots = find_pilots(store, sweeps)
    missing = pilots.missing()
    chunks = find_chunks(store, [sweep for sweep in sweeps if not missing[sweep.name]])
    return Known(pilots, chunks, tuple(sweep.name for sweep in sweeps if missing[sweep.name]))


def plan_lines(
    config: Config,
    sweeps: Sequence[Sweep],
    results: Path,
    known: Known,
    workers: Workers,
    *,
    limit: float | None = None,
    divisors: bool = False,
) -> list[str]:
    """One line per sweep, and a total; perhaps the divisors of the rules.

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
        chunks = f"{part.missing()[sweep.name]} of {part.chunks[sweep.name]} {kind}"
        trials = "by pilot" if sweep.precision else sweep.trials
        lines.append(
            f"{sweep.name:<16} {sweep.experiment.name:<14} {len(cells):>6} {trials:>9}"
            f" {chunks:>18} {memory / 2**20:>6.0f} MiB  {_state(config, sweep, results, part, kind)}"
        )
    total = f"{_duration(known.seconds / workers.slots)} with {workers}{_PLUS_WAITING if known.waiting else ''}"
    lines.append(f"total to measure: about {total}; tables go to {results}")
    if limit is not None and known.exceeds(limit, workers):
        lines.append(f"A run of more than {_duration(limit)} starts only with YES=1 (--yes).")
    return [*lines, *(_divisor_lines(sweeps) if divisors else ())]


def _divisor_lines(sweeps: Sequence[Sweep]) -> list[str]:
    """A line per sweep with the smallest and the largest value of each size, and of the divisor of each rule."""
    lines = []
    for sweep in sweeps:
        cells, divisors = sweep.cells(), sweep.experiment.divisors
        if rules := divisors(cells[0]):
            sizes = [f"{name} = {_span([getattr(cell, name) for cell in cells], 'd')}" for name in _SIZES]
            found = [divisors(cell) for cell in cells]
            of_rules = [f"{rule} = {_span([of_cell[rule] for of_cell in found], '.3g')}" for rule in rules]
            lines.append(f"{sweep.name:<16} {', '.join(sizes)}: {', '.join(of_rules)}")
    return ["divisor of the scores, smallest to largest over the cells:", *lines] if lines else []


def _span(values: Sequence[float], form: str) -> str:
    """The smallest and the largest number in that format, once if they look the same.

    >>> _span([22.627, 2.0], ".3g"), _span([64, 64], "d")
    ('2 to 22.6', '64')
    """
    return " to ".join(dict.fromkeys(f"{value:{form}}" for value in (min(values), max(values))))


def _state(config: Config, sweep: Sweep, results: Path, work: Work, kind: str) -> str:
    """The state of a sweep, from its table and the store: complete, stale (with the reason), partial or missing."""
    left, chunks, states = work.missing()[sweep.name], work.chunks[sweep.name], work.states[sweep.name]
    if is_current(results, config, sweep):
        return _ELSEWHERE if left else "complete"
    begun = f"partial ({chunks - left} of {chunks} {kind} measured)" if left < chunks else "missing"
    begun = begun if left else "measured, table not yet written"
    if not (results / csv_name(sweep.name, MEASURED)).exists():
        return begun
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
