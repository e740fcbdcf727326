"""What a run would do: its cells, its time and memory, and what of it is there already."""

from collections.abc import Sequence
from pathlib import Path

from experiments.harness.config import Config
from experiments.harness.experiment import load_experiment
from experiments.harness.grid import Sweep
from experiments.harness.run import estimated_seconds
from experiments.harness.tables import TableError, csv_name, read_sweep

_WORKER_BASE = 90 * 2**20  # interpreter, NumPy and the library


def plan_lines(config: Config, sweeps: Sequence[Sweep], results: Path, jobs: int) -> list[str]:
    """A line per sweep and a line in all; times are rough, from the counts of draws, products and exponentials."""
    lines = [f"{'sweep':<16} {'experiment':<12} {'cells':>6} {'trials':>9} {'about':>9} {'per worker':>11}  table"]
    for sweep in sweeps:
        cells = sweep.cells()
        memory = max(load_experiment(sweep.experiment).memory(cell) for cell in cells) + _WORKER_BASE
        duration = _duration(estimated_seconds(sweep) / jobs)
        lines.append(
            f"{sweep.name:<16} {sweep.experiment:<12} {len(cells):>6} {sweep.trials:>9}"
            f" {duration:>9} {memory / 2**20:>7.0f} MiB  {_state(config, sweep, results)}"
        )
    total = _duration(sum(map(estimated_seconds, sweeps)) / jobs)
    return [*lines, f"in all about {total} with {jobs} worker{'s' if jobs > 1 else ''}; tables go to {results}"]


def _state(config: Config, sweep: Sweep, results: Path) -> str:
    path = results / csv_name(sweep.name, "measured")
    if not path.exists():
        return "missing"
    try:
        read_sweep(results, config, sweep)
    except TableError as error:
        return f"to be measured again: {error}"
    return "complete"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
