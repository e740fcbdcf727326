"""The tables and figures of laws as files, made again where they are out of date."""

from functools import partial
from pathlib import Path

import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.output.products import Product, build
from experiments.output.reporter import Reporter
from experiments.paths import DRAWN, THEORY
from experiments.theory.tables import TABLES


def write_theory(results: Path, report: Reporter) -> None:
    """Write the tables of laws and draw their figures, unless they are up to date.

    Raises:
        FindingError: a table does not support the title of its figure.
    """
    written = []
    drawn = []
    for name in TABLES:
        table = results / THEORY / f"{name}.csv"
        pictures = tuple(table.with_suffix(suffix) for suffix in DRAWN)
        written.append(Product((table,), partial(_written, name)))
        drawn.append(Product(pictures, partial(_drawn, name, table), (table,)))
    build(results, written, report, are_slow=True)
    build(results, drawn, report)


def _written(name: str) -> list[bytes]:
    return [csv_bytes(TABLES[name]())]


def _drawn(name: str, path: Path) -> list[bytes]:
    from experiments.theory.figures import render_law  # takes a second to load

    return render_law(name, pd.read_csv(path))
