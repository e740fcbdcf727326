"""Bands of learning rates as Markdown: the tables on training in the docs."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.analysis.bands import BANDS
from experiments.figures.axes import other_axes, plain
from experiments.harness.paths import csv_name

_NO_BANDS = "No sweep here has bands of learning rates."


def band_table(results: Path, sweeps: Sequence[str]) -> str:
    """One row per combination of the varied axes, one column per rule: steps at the best rate, and width of the band.

    Args:
        results: the folder of the sweeps.
        sweeps: their names; those without bands do not count.
    """
    paths = [results / csv_name(sweep, BANDS) for sweep in sweeps]
    tables = [pd.read_csv(path) for path in paths if path.exists()]
    if not tables:
        return _NO_BANDS
    table = pd.concat(tables)
    axes = [*other_axes(table, "d_k"), "d_k"]
    rules = list(table["scaling"].unique())
    lines = [
        f"| {' | '.join([*axes, *(f'`{rule}`' for rule in rules)])} |",
        f"|{'---|' * len(axes)}{'---:|' * len(rules)}",
    ]
    for key, rows in table.groupby(axes, sort=False):
        by_rule = rows.set_index("scaling")
        fields = [_field(by_rule.loc[rule]) if rule in by_rule.index else "" for rule in rules]
        lines.append(f"| {' | '.join([*map(plain, key), *fields])} |")
    return "\n".join(lines)


def _field(band: pd.Series) -> str:
    """`23; 2.6`, steps and decades, of one rule; else the share of runs that solve at its best rate, and their loss.

    >>> _field(pd.Series({"steps_to_solve": 23.0, "band_decades": 2.614, "solved": 1.0, "final_loss": 0.02}))
    '23; 2.6'
    >>> _field(pd.Series({"steps_to_solve": float("nan"), "band_decades": 0.2, "solved": 0.4, "final_loss": 1.716}))
    '40% solve (loss 1.72)'
    """
    if band["steps_to_solve"] > 0:
        return f"{band['steps_to_solve']:.0f}; {band['band_decades']:.1f}"
    solving = f"{band['solved']:.0%} solve" if band["solved"] else "–"
    return f"{solving} (loss {band['final_loss']:.2f})"
