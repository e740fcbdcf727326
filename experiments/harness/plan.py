"""The plan of a run: complete results, missing results, and the cost of measuring the missing ones.

It reads the store and the tables, and writes nothing.
"""

from collections.abc import Sequence
from pathlib import Path

from experiments.harness.config import Config
from experiments.harness.experiment import MEASURED, load_experiment
from experiments.harness.grid import Sweep
from experiments.harness.paths import STORE, csv_name
from experiments.harness.run import Workers
from experiments.harness.store import Store
from experiments.harness.tables import TableError, check_sound, is_current
from experiments.harness.work import Work, find_chunks, find_pilots

_SIZES = ("d_k", "n_keys")  # the axes of which a divisor is a function
_WORKER_BASE = 50 * 2**20  # interpreter, NumPy and the library


def plan_lines(config: Config, sweeps: Sequence[Sweep], results: Path, workers: Workers) -> list[str]:
    """One line per sweep and a total; then the divisors of its rules in the smallest and the largest cell.

    Times are rough estimates from counts of draws, products and exponentials.
    A sweep with a precision counts its pilots until all are measured: only then are its trials known.

    Args:
        config: the whole config.
        sweeps: the sweeps of the plan.
        results: the folder of the tables and the store.
        workers: would measure; the time is divided by their slots.
    """
    store = Store(results / STORE, config.seed)
    pilots = find_pilots(store, sweeps)
    piloted = [sweep for sweep in sweeps if not pilots.missing()[sweep.name]]
    work = find_chunks(store, piloted)
    lines = [
        f"{'sweep':<16} {'experiment':<12} {'cells':>6} {'trials':>9} {'to measure':>20} {'per worker':>11}  table"
    ]
    for sweep in sweeps:
        cells = sweep.cells()
        memory = max(load_experiment(sweep.experiment).memory(cell) for cell in cells) + _WORKER_BASE
        part, kind = (work, "chunks") if sweep in piloted else (pilots, "pilots")
        chunks = f"{part.missing()[sweep.name]} of {part.chunks[sweep.name]} {kind}"
        trials = "by pilot" if sweep.precision else sweep.trials
        lines.append(
            f"{sweep.name:<16} {sweep.experiment:<12} {len(cells):>6} {trials:>9}"
            f" {chunks:>20} {memory / 2**20:>7.0f} MiB  {_state(config, sweep, results, part, kind)}"
        )
    total = f"{_duration((pilots.seconds + work.seconds) / workers.slots)} with {workers}"
    if len(piloted) < len(sweeps):
        total += ", plus the trials that the pilots will request"
    lines.append(f"total to measure: about {total}; tables go to {results}")
    return [*lines, *_divisor_lines(sweeps)]


def _divisor_lines(sweeps: Sequence[Sweep]) -> list[str]:
    """A line per sweep with the smallest and the largest value of each size, and of the divisor of each rule."""
    lines = []
    for sweep in sweeps:
        cells, divisors = sweep.cells(), load_experiment(sweep.experiment).divisors
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
        without = f", but without records of {left} of {chunks} {kind}; a run measures these again"
        return f"complete{without if left else ''}"
    begun = f"partial ({chunks - left} of {chunks} {kind} measured)" if left < chunks else "missing"
    begun = begun if left else "measured, table not yet written"
    if not (results / csv_name(sweep.name, MEASURED)).exists():
        return begun
    try:
        check_sound(results, config, sweep)
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
