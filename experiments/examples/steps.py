"""What worked examples share: named matrices as steps, the steps of attention, and a user's own matrices."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from sdpa import Trace, entropy, softmax, trace

Floats = npt.NDArray[np.floating]
Names = Sequence[str]

_SAYS = {
    "q": "Queries Q: one row per query.",
    "k": "Keys K: one row per key.",
    "v": "Values V: one row per key.",
    "scores": "Scores S = Q Kᵀ: dot products of queries (rows) and keys.",
    "divisor": "The divisor of each score.",
    "scaled_scores": "Scores over the divisor; −∞: hidden by the mask.",
    "exponentials": "Softmax: exp(scaled score − largest of the row).",
    "weights": "Weights W: each exponential over the sum of its row.",
    "output": "Output W V: values, blended by weights.",
    "undivided_weights": "The softmax of the undivided scores.",
    "divisor_effect": "Largest weights, and entropies in nats: 0 to ln n.",
}
MOST = 64  # rows and columns of own matrices
_LARGEST = 1e100  # own number, so that no product overflows
_EFFECT = ("largest without", "largest with", "entropy without", "entropy with")


class ExampleError(ValueError):
    """A missing example, or matrices that are not valid inputs of attention; the message names the expectation."""


class Step(NamedTuple):
    """A named matrix of an example, a sentence about it, and the decimals to print."""

    name: str
    says: str
    table: pd.DataFrame
    digits: int


class Example(NamedTuple):
    """A worked example: title, source of its numbers, names of the steps in its picture, and what computes all steps.

    Names in `draws` are separated by spaces. A name alone is drawn as a heat map, `rows:name` as a line for each row,
    `bars:name` as groups of bars, `lines:name:quantity` as the columns of a quantity over d_k or the divisor, and
    `arrows:q` as the queries and keys in two dimensions.
    """

    title: str
    source: str
    draws: str
    steps: Callable[[], list[Step]]


def numbered(count: int, letter: str = "") -> tuple[str, ...]:
    """Names for what has none: 1, 2, 3."""
    return tuple(f"{letter}{i + 1}" for i in range(count))


def step(name: str, says: str, values: npt.ArrayLike, rows: Names = (), columns: Names = (), digits: int = 4) -> Step:
    """A step with numbers for names where these are missing."""
    values = np.asarray(values, dtype=float)
    table = pd.DataFrame(values, rows or numbered(len(values)), columns or numbered(values.shape[1]))
    return Step(name, says, table, digits)


def attention(
    found: Trace,
    queries: Names,
    keys: Names,
    *,
    rule: str = "d_k^1/2",
    digits: int = 4,
    widths: Names = (),
    outputs: Names = (),
) -> dict[str, Step]:
    """The steps of attention on two axes by name, in their order; those of values only if there are values.

    Queries and keys have one name each, and columns of q and k (`widths`) and of the output one or numbers. `rule` is
    the scaling rule that gave the divisor, `digits` the decimals of q, k, v, scores and output.
    """
    # Without the divisor; hidden keys stay hidden.
    undivided = softmax(np.where(np.isinf(found.scaled_scores), -np.inf, found.scores))
    both = undivided, found.weights
    effect = np.transpose([*(weights.max(axis=-1) for weights in both), *map(entropy, both)])
    exponentials = np.column_stack([found.exponentials, found.sums])
    parts: list[tuple[Any, ...]] = [
        ("q", found.q, queries, widths, digits),
        ("k", found.k, keys, widths, digits),
        ("v", found.v, keys, outputs, digits),
        ("scores", found.scores, queries, keys, digits),
        ("divisor", [[found.divisor]], (rule,), ("divisor",), 4),
        ("scaled_scores", found.scaled_scores, queries, keys, digits),
        ("exponentials", exponentials, queries, (*keys, "sum"), 4),
        ("weights", found.weights, queries, keys, 4),
        ("output", found.output, queries, outputs, digits),
        ("undivided_weights", undivided, queries, keys, 4),
        ("divisor_effect", effect, queries, _EFFECT, 4),
    ]
    return {name: step(name, _SAYS[name], *rest) for name, *rest in parts if rest[0] is not None}


def chosen(steps: dict[str, Step], names: str) -> list[Step]:
    """The steps of these names, separated by spaces."""
    return [steps[name] for name in names.split()]


def from_scores(scaled: npt.ArrayLike, v: npt.ArrayLike | None = None, divisor: float = 1.0) -> Trace:
    """The trace of attention from known scaled scores, with the unit matrix as keys.

    >>> from_scores([[1.0, 2.0]], divisor=3.0).scores
    array([[3., 6.]])
    """
    scores = np.asarray(scaled, dtype=float) * divisor
    return trace(scores, np.eye(scores.shape[-1]), v, scaling=divisor)


def blend(found: Trace, name: str, row: int, keys: Names, outputs: Names) -> Step:
    """The output of one query, term by term: its weights, and each key's values times its weight."""
    weights = found.weights[row]
    terms = np.column_stack([weights, weights[:, None] * np.asarray(found.v)])
    says = f"The output of {name}, term by term: weights, and values times weights."
    sums = np.vstack([terms, [weights.sum(), *terms[:, 1:].sum(axis=0)]])
    return step(f"blend_{name}", says, sums, (*keys, "sum"), ("weight", *outputs))


def spread(weights: npt.ArrayLike, rows: Names) -> Step:
    """The largest weight and the entropy of each row."""
    values = np.column_stack([np.max(weights, axis=-1), entropy(weights)])
    return step("spread", "Largest weight of each row, and entropy in nats.", values, rows, ("largest", "entropy"))


def long_table(example: str, steps: Sequence[Step]) -> pd.DataFrame:
    """The numbers of an example: example, step, row, column, value."""
    cells = [
        (example, each.name, row, column, value)
        for each in steps
        for row, values in each.table.iterrows()
        for column, value in values.items()
    ]
    return pd.DataFrame(cells, columns=["example", "step", "row", "column", "value"])


# A user's own matrices, from CSV files of numbers with optional names.


class Matrix(NamedTuple):
    """Numbers with the names of their rows and columns, which are empty in a file without names."""

    values: Floats
    rows: Names
    columns: Names


def own_steps(q: Path, k: Path, v: Path | None, *, scaling: str, mask: str) -> list[Step]:
    """Every step of attention on the matrices in these files; without values the steps end at the weights.

    Raises:
        ExampleError: a file holds no matrix, shapes do not match, or the rule or the mask is unknown.
    """
    queries, keys, values = read_matrix(q), read_matrix(k), read_matrix(v) if v else None
    try:
        found = trace(queries.values, keys.values, values and values.values, scaling=scaling, mask=mask)
    except ValueError as error:
        raise ExampleError(f"{', '.join(str(path) for path in (q, k, v) if path)}: {error}") from None
    steps = attention(
        found,
        queries.rows or numbered(len(queries.values), "q"),
        keys.rows or numbered(len(keys.values), "k"),
        rule=scaling,
        widths=queries.columns or keys.columns,
        outputs=values.columns if values else (),
    )
    return list(steps.values())


def read_matrix(path: Path) -> Matrix:
    """The matrix in a UTF-8 file, of at most 64 rows and columns, so that all can be printed.

    A first line with names, or after an empty cell, is a header. A first column without numbers, or below an empty cell
    of a header, has the names of the rows.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, skipinitialspace=True, strict=True)
            lines = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(cells)]
    except OSError as error:
        raise ExampleError(f"{path}: cannot read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ExampleError(f"{path}: expected comma-separated numbers as UTF-8 text, got {error}") from None
    first = lines[0][1] if lines else [""]
    _expect(len(first) > 1 or ";" not in first[0], path, "commas between numbers", "semicolons")
    header = first[0] == "" or any(_number(cell) is None for cell in first[1:])
    is_mixed = header and first[0] != "" and any(_number(cell) is not None for cell in first)
    _expect(not is_mixed, path, "numbers or names in the first line", f"both: {','.join(first)}")
    body = lines[header:]
    named = (header and first[0] == "") or all(_number(cells[0]) is None for _, cells in body)
    size = f"{len(body)} x {len(first) - named}"
    _expect(0 < len(body) <= MOST and 0 < len(first) - named <= MOST, path, f"1 to {MOST} rows and columns", size)
    counts = len(first) > 2 and first == [*map(str, range(len(first)))]  # as pandas writes it
    _expect(not counts, path, "numbers or names", "a header that counts from 0; omit it")
    for line, cells in lines:
        _expect(len(cells) == len(first), f"{path}:{line}", f"{len(first)} cells, as above", len(cells))
    for line, cells in body:
        for cell in cells[named:]:
            small = abs(_number(cell) or 0) <= _LARGEST
            _expect(_number(cell) is not None and small, f"{path}:{line}", f"a number within ±{_LARGEST:g}", repr(cell))
    values = np.array([[float(cell) for cell in cells[named:]] for _, cells in body])
    return Matrix(values, _unique([cells[0] for _, cells in body] * named), _unique(first[named:] * header))


def _number(cell: str) -> float | None:
    """The number in a cell; None if it holds none. Python's 1_000 is no number here."""
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None


def _unique(names: Names) -> Names:
    """The names; a repeated one, or the reserved name `sum`, gets a number."""
    unique: list[str] = []
    for name in names:
        shown = (name, *(f"{name} ({count})" for count in range(2, MOST + 2)))
        unique.append(next(one for one in shown if one not in unique and one != "sum"))
    return unique


def _expect(true: object, where: Path | str, expected: str, got: object) -> None:
    """ExampleError unless a condition is true."""
    if not true:
        raise ExampleError(f"{where}: expected {expected}, got {got}")
