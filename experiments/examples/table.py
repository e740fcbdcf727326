"""The numbers of examples as one long table: example, step, row, column, value.

The long form holds matrices of any shape in one CSV file. Figures of examples get the matrices back (`matrices`).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.examples import example_names, load_example
from experiments.examples.example import Step

COLUMNS = ("example", "step", "row", "column", "value")

Entry = tuple[str, str, str, str, float]


def examples() -> pd.DataFrame:
    """Every number of every example."""
    return pd.concat([long_table(name, load_example(name).steps()) for name in example_names()], ignore_index=True)


def long_table(example: str, steps: Sequence[Step]) -> pd.DataFrame:
    """The numbers of one example; ValueError if two of its steps share a name."""
    names = [step.name for step in steps]
    if len(set(names)) < len(names):
        raise ValueError(f"{example}: expected steps with unique names, got {', '.join(names)}")
    return pd.DataFrame(_entries(example, steps), columns=list(COLUMNS))


def read_table(path: Path) -> pd.DataFrame:
    """A table of examples from its file; names are always text, even if they look like numbers."""
    names = dict.fromkeys(COLUMNS[:-1], str)
    table: pd.DataFrame = pd.read_csv(path, dtype={**names, "value": float}, keep_default_na=False)
    return table


def matrices(table: pd.DataFrame, example: str) -> dict[str, pd.DataFrame]:
    """The matrix of each step of an example, with rows and columns in order.

    Args:
        table: from `examples`, `long_table` or `read_table`.
        example: its name.

    Returns:
        By step, a data frame whose index and columns are the names; steps without numbers are missing.

    >>> from experiments.examples.example import table as matrix
    >>> one = Step("scores", "Scores", "", matrix([[3, 4]], ["query"], ["k2", "k1"]))
    >>> list(matrices(long_table("mine", [one]), "mine")["scores"])
    ['k2', 'k1']
    """
    steps = table[table["example"] == example].groupby("step", sort=False)
    return {str(step): _matrix(entries) for step, entries in steps}


def _matrix(entries: pd.DataFrame) -> pd.DataFrame:
    """The matrix of a step; rows and columns keep the order of their first appearance."""
    wide = entries.pivot_table(index="row", columns="column", values="value", sort=False)
    return wide.loc[entries["row"].unique(), entries["column"].unique()]


def _entries(example: str, steps: Sequence[Step]) -> Iterator[Entry]:
    for step in steps:
        if step.matrix:
            for (i, j), value in np.ndenumerate(step.matrix.values):
                yield example, step.name, step.matrix.rows[i], step.matrix.columns[j], float(value)
