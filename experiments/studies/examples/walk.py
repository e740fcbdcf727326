"""The worked examples as files and on the terminal; and the same steps for matrices of a user, in
CSV files with optional names.
"""

import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.config.errors import UsageError
from experiments.config.paths import EXAMPLE_FOLDER, SHIPPED_RESULTS
from experiments.running.files import write_atomically
from experiments.studies.examples.examples import EXAMPLES
from experiments.studies.examples.steps import Example, Step, attention, long_table, numbered
from experiments.tables.layout import csv_bytes
from experiments.tables.products import Product, build
from experiments.tables.reporter import WIDTH, Reporter, tell, wrapped
from sdpa import trace

_MOST = 12  # rows and columns
_LARGEST = 1e100  # so that no product overflows


class ExampleError(UsageError):
    """A missing example, or matrices that are not valid inputs of attention."""


def write_examples(folder: Path, report: Reporter) -> None:
    """Write examples.csv and the picture of each example, unless they are up to date."""
    products = [Product((folder / EXAMPLE_FOLDER / "examples.csv",), _numbers)]
    for name in EXAMPLES:
        path = example_path(folder, name)
        products.append(Product((path,), partial(_drawn, path)))
    build(folder, products, report, phase="tables")


def example_path(folder: Path, name: str) -> Path:
    """The file of the picture of an example."""
    return folder / EXAMPLE_FOLDER / f"{name}.png"


def _numbers() -> list[bytes]:
    tables = [long_table(name, EXAMPLES[name].steps()) for name in sorted(EXAMPLES)]
    return [csv_bytes(pd.concat(tables, ignore_index=True))]


def _drawn(path: Path) -> list[bytes]:
    from experiments.studies.examples.picture import picture_of  # takes a second to load

    return picture_of(EXAMPLES[path.stem], path).render()


def list_all() -> None:
    """Print the names of all examples as commands, each with its title."""
    commands = {f"EXAMPLE={spelled(name)}": EXAMPLES[name].title for name in sorted(EXAMPLES)}
    commands["Q=q.csv K=k.csv V=v.csv"] = "Your own matrices, as CSV files; V= is optional"
    lines = [f"{'make walk ' + words:<34}  {title}" for words, title in commands.items()]
    tell("\n".join(lines))


def walk(typed: str) -> None:
    """Print an example step by step, and name its picture."""
    name = typed.replace("-", "_")
    if name not in EXAMPLES:
        names = ", ".join(map(spelled, sorted(EXAMPLES)))
        raise ExampleError(f"got the example {typed}, expected one of {names}")
    example = EXAMPLES[name]
    picture = example_path(SHIPPED_RESULTS, name)
    tell(f"{text(example, example.steps())}\n\nfigure: {picture}")


def walk_own(
    paths: Sequence[Path | None],
    scaling: str,
    mask: str,
    out: Path,
) -> None:
    """Print attention of the q, k and v in these files; write walk.csv and walk.png."""
    from experiments.studies.examples.picture import picture_of

    given = [*filter(None, paths)]
    steps = own_steps(*given, scaling=scaling, mask=mask)
    title = "Attention of your own matrices"
    draws = "scores undivided_weights weights output"
    example = Example(title, _listed(given), draws, lambda: steps)
    tell(f"{text(example, steps)}\n")
    table, drawn = out / "walk.csv", out / "walk.png"
    write_atomically(table, csv_bytes(long_table("walk", steps)))
    write_atomically(drawn, *picture_of(example, drawn).render())
    tell(f"wrote {table}\ndrew {drawn}")


def spelled(name: str) -> str:
    """A name as users type it in a command, with hyphens."""
    return name.replace("_", "-")


def text(example: Example, steps: Sequence[Step]) -> str:
    """A whole example in at most 100 columns: its steps, numbered from 1, with numbers of four
    significant digits.
    """
    lines = [example.title, f"From: {example.source}"]
    for place, (_, says, table) in enumerate(steps, start=1):
        height, width = table.shape
        numbers = table.map("{:.4g}".format).to_string(line_width=WIDTH - 3)
        lines += ["", wrapped(f"{place}. {says} ({height} x {width})")]
        lines.append(textwrap.indent(numbers, "   "))
    return "\n".join(lines)


def own_steps(
    *paths: Path,
    scaling: str,
    mask: str,
) -> list[Step]:
    """Every step of attention on the q, k and v in these files; without v, up to the weights.

    Raises:
        ExampleError: a file holds no matrix, shapes do not match, or the rule or the mask is
            unknown.
    """
    matrices = [read_matrix(path, letter) for path, letter in zip(paths, "qkv", strict=False)]
    try:
        traced = trace(*matrices, scaling=scaling, mask=mask)
    except ValueError as error:
        raise ExampleError(f"{_listed(paths)}: {error}") from None
    q, k, *_ = matrices
    steps = attention(
        traced,
        [*q.index],
        [*k.index],
        rule=scaling,
        widths=[*q.columns],
        outputs=[*matrices[-1].columns],
    )
    return [*steps.values()]


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))


def read_matrix(path: Path, letter: str) -> pd.DataFrame:
    """The matrix in a UTF-8 file, of at most 12 rows and columns, so that all can be printed.

    A first line without any number has names, and so has a first column without numbers below it.
    Rows without names get the letter and their number.

    Raises:
        ExampleError: the file holds no matrix.
    """
    try:
        cells = pd.read_csv(path, header=None, dtype=str, na_filter=False, skipinitialspace=True)
    except (OSError, ValueError) as error:
        raise ExampleError(f"{path}: expected comma-separated numbers, got {error}") from None
    numbers = cells.apply(pd.to_numeric, errors="coerce")
    # One number makes names of none: a wrong cell is refused, and drops no row or column.
    top = int(numbers.iloc[0].isna().all())  # lines with names
    left = int(numbers[0][top:].isna().all())  # columns with names
    values = numbers.iloc[top:, left:]
    bad = np.argwhere(~(values.abs() <= _LARGEST).to_numpy(bool))
    height, width = values.shape
    if len(bad) or not (0 < height <= _MOST and 0 < width <= _MOST):
        got = f"{height} x {width}"
        if len(bad):
            row, column = bad[0] + (top, left)
            got = f"{cells.iloc[row, column]!r} in row {row + 1}"
        expected = f"1 to {_MOST} rows and columns of numbers within ±{_LARGEST:g}"
        raise ExampleError(f"{path}: expected {expected}, got {got}")
    rows = cells[0][top:] if left else numbered(height, letter)
    columns = cells.iloc[0, left:] if top else numbered(width)
    return pd.DataFrame(values.to_numpy(float), [*rows], [*columns])
