"""Timings on this machine, which no two runs have alike: the cost of attention, and the suite's speed."""

from functools import partial
from pathlib import Path

from experiments.harness.config import Config
from experiments.harness.files import write_whole
from experiments.harness.paths import BENCHMARKS, figure_path
from experiments.harness.tables import csv_bytes
from experiments.steps import record, sweeps


def measure_growth(results: Path) -> str:
    """Write cost.csv, time and memory of attention on this machine; how both grow."""
    from experiments.analysis.growth import exponents
    from experiments.record.cost import measure_cost

    cost = measure_cost()
    write_whole(results / "cost.csv", csv_bytes(cost))
    lines = [cost.to_string(index=False)]
    for _, row in exponents(cost).iterrows():
        name = row["swept"]
        lines.append(f"time grows as {name}^{row['seconds']:.2f}, memory as {name}^{row['peak_bytes']:z.2f}")
    return "\n".join(lines)


def bench(config: Config, results: Path) -> str:
    """Write benchmarks.csv, draw its figures, and report the ratios."""
    from experiments.bench.eager import is_there
    from experiments.bench.measure import benchmark
    from experiments.bench.profile import Step
    from experiments.bench.summary import growth_rows, over_floor, report
    from experiments.figures.figure import load_figure
    from experiments.figures.rendering import render
    from experiments.harness.figures import figures_of

    if not is_there():
        print("PyTorch is not installed: without it")
    later: dict[str, Step] = {
        "tables": lambda folder: sweeps.measure(config, config.sweeps, folder, jobs=1),
        "figures": partial(sweeps.draw, config, config.sweeps),
        "check": partial(sweeps.check, config, config.sweeps),
        "record": lambda folder: record.update_record(folder, jobs=1),
    }
    found = benchmark(config, later, print)
    write_whole(results / f"{BENCHMARKS}.csv", csv_bytes(found))
    tables = {"ratios": over_floor(found), "growth": growth_rows(found)}
    for figure in figures_of(BENCHMARKS):
        render(load_figure(figure), tables, figure_path(results, BENCHMARKS, figure, ""))
    return report(found)
