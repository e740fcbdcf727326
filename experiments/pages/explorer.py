"""The data of the page's explorer: sizes to choose from, and what theory and the tables say about
them.

Given |q|, the scaled scores are independent N(0, sigma^2) with sigma = |q| / divisor. So curves
over sigma, for each n_keys, are enough for every d_k and every divisor: attention.js interpolates
them and averages over |q|.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.analysis.crossings import EQUAL, LAWS
from experiments.analysis.results import Results
from experiments.figures.words import values_of
from experiments.measuring.columns import axis_values
from experiments.measuring.experiment import MEASURED
from sdpa.theory import GaussianRow

LAW = (
    "independent standard normal q and k without a mask"  # of every number but those of `own_laws`
)
POSITIONS = 120  # steps of the slider, including thirds, halves and quarters of the way
CURVES = ("max_weight", "entropy", "jacobian_square", "score_gradient_square")
# of the interpolated expectations up to 65,536 keys; tested against `attention_expectations`
RELATIVE_ERROR = 1e-5
_MOST_WIDTHS, _MOST_LENGTHS = 9, 6  # choices; each length takes a second and 3 kB
_USUAL_SIZE = (64, 64)  # where no sweep has rows of keys
_MOST_KEYS = 100_000  # of which a browser draws a row without a wait
_DIGITS = 4  # of measured values
_MEDIANS = ("jacobian_norm_median", "query_gradient_norm_median")
_NORMS = [norm for norm, statistic in LAWS if statistic == "median"]
_SHORTEST_OF_LAWS = 8
_LONGEST = 8.0  # |q| above sqrt(d_k) + 8 has a probability below 1e-14
_SHARPER = 2.0  # sigma reaches this multiple of the largest of unscaled rows, for divisors below 1
_LOG_DECIMALS = 9  # fewer than in a double, so that machines agree


def explorer(sweeps: Collection[Results]) -> dict[str, Any]:
    """Everything that the explorer shows, as JSON values.

    These are the choices `d_k` and `n_keys`, the pair `start` of most cells of the sweeps, `rows`,
    exact expectations (`row_means`), and `medians` and `crossings` as in the functions of these
    names.
    """
    counts = _sizes(sweeps)
    widths = _most_common((d_k for d_k, _ in counts.elements()), _MOST_WIDTHS)
    lengths = _most_common((n_keys for _, n_keys in counts.elements()), _MOST_LENGTHS)
    of_choices = {
        size: count for size, count in counts.items() if size[0] in widths and size[1] in lengths
    }
    start = (
        max(of_choices, key=lambda size: of_choices[size])
        if of_choices
        else (widths[0], lengths[0])
    )
    return {
        "d_k": widths,
        "n_keys": lengths,
        "start": start,
        "rows": row_means(widths, lengths),
        "medians": list(_medians(sweeps, widths, lengths)),
        "crossings": _crossings(sweeps, lengths),
    }


def row_means(widths: list[int], lengths: list[int]) -> dict[str, Any]:
    """ln E max w, ln E H, ln E |J|_F^2 and ln E |J z|^2 of Gaussian rows at Chebyshev points of s =
    ln(1 + sigma).

    The points are s_i = (1 - cos(pi i / N)) / 2 times the largest s, i = 0..N. Longer rows turn
    from spread to saturated within a narrower range of s, so that they have more of them.

    Returns:
        JSON values: `sigma`, the largest, for the largest of `widths`; `of`, by n_keys as text: for
        each of `CURVES` the values at all points.
    """
    largest = _SHARPER * (math.sqrt(max(widths)) + _LONGEST)
    return {
        "sigma": largest,
        "of": {str(n_keys): _curves(n_keys, math.log1p(largest)) for n_keys in lengths},
    }


def _curves(n_keys: int, largest: float) -> dict[str, list[float]]:
    """The values of each curve at the points from 0 to the largest s."""
    degree = math.ceil(largest * (5 + 0.6 * math.log2(n_keys)))
    points = largest * (1 - np.cos(np.pi * np.arange(degree + 1) / degree)) / 2
    rows = [GaussianRow(math.expm1(s), n_keys) for s in points]
    values = np.array([[getattr(row, name)() for name in CURVES] for row in rows])
    return dict(zip(CURVES, np.log(values).round(_LOG_DECIMALS).T.tolist(), strict=True))


def _sizes(sweeps: Iterable[Results]) -> Counter[tuple[int, int]]:
    """The number of cells by (d_k, n_keys); only those with rows that a softmax changes."""
    cells = [axis_values(cell) for sweep in sweeps for cell in sweep.cells()]
    sizes = [(cell["d_k"], cell["n_keys"]) for cell in cells if "d_k" in cell and "n_keys" in cell]
    return Counter(size for size in sizes if 2 <= size[1] <= _MOST_KEYS) or Counter([_USUAL_SIZE])


def _most_common(values: Iterable[int], most: int) -> list[int]:
    """The most common values, in rising order; of equally common ones the smaller."""
    return sorted(value for value, _ in Counter(sorted(values)).most_common(most))


def _usual(results: Results, kind: str) -> pd.DataFrame:
    """The rows of a table whose entries are independent standard normal numbers."""
    table, axes = results[kind], results.axes
    return table[[not axes.changed(row) for _, row in table.iterrows()]]


def _medians(
    sweeps: Iterable[Results], widths: Sequence[int], lengths: Sequence[int]
) -> Iterator[list[Any]]:
    """d_k, n_keys, divisor and measured medians of usual rows: for each cell those from the largest
    number of rows.
    """
    cell, sizes = ["d_k", "n_keys", "divisor"], ["trials", "n_queries"]
    usual = [
        _usual(each, MEASURED)
        for each in sweeps
        if {*cell, *sizes, *_MEDIANS} <= set(each.measured)
    ]
    if usual:
        rows = pd.concat(usual)
        rows = rows[rows["d_k"].isin(widths) & rows["n_keys"].isin(lengths)]
        order = (rows["trials"] * rows["n_queries"]).argsort(kind="stable")[::-1]
        most = rows.iloc[order].drop_duplicates(cell).sort_values(cell)
        for d_k, n_keys, divisor, *medians in (
            most[[*cell, *_MEDIANS]].to_numpy(dtype=float).tolist()
        ):
            yield [int(d_k), int(n_keys), divisor, *map(_short, medians)]


def own_laws(sweeps: Iterable[Results]) -> list[list[Any]]:
    """d_k, n_keys, divisor, inputs in words and measured mean largest weight of every row with
    unusual inputs.
    """
    found = []
    for results in sweeps:
        if {"d_k", "n_keys", "divisor", "max_weight"} <= set(results.measured):
            for _, row in results.measured.iterrows():
                if changed := results.axes.changed(row):
                    law, weight = values_of(row, changed), _short(row["max_weight"])
                    found.append(
                        [int(row["d_k"]), int(row["n_keys"]), float(row["divisor"]), law, weight]
                    )
    return found


def _crossings(
    sweeps: Iterable[Results], lengths: Sequence[int]
) -> dict[str, list[list[float | None]]]:
    """n_keys, the law's d_k of equal medians, the measured one and the ends of its interval, by
    norm.

    The first table with several n_keys counts, or else the first one. Lengths without measured
    crossings have the law's alone: a line between distant neighbours would miss it by a third.
    """
    columns = ["n_keys", "law", "crossing", "crossing_low", "crossing_high"]
    empty = pd.DataFrame(columns=["norm", "statistic", "level", *columns])
    usual = [_usual(each, "crossings") for each in sweeps if "crossings" in each]
    table = max(usual, key=lambda rows: len(rows["n_keys"].unique()) > 1, default=empty)
    equal = table[(table["statistic"] == "median") & (table["level"] == EQUAL)].drop_duplicates(
        ["norm", "n_keys"]
    )
    points = {}
    for norm in _NORMS:
        measured = equal.loc[equal["norm"] == norm, columns].to_numpy(dtype=float).tolist()
        others = {n_keys for n_keys in lengths if n_keys >= _SHORTEST_OF_LAWS} - {
            int(row[0]) for row in measured
        }
        laws = [[n_keys, LAWS[norm, "median"](n_keys), *[math.nan] * 3] for n_keys in others]
        points[norm] = [
            [int(n_keys), *map(_short, row)] for n_keys, *row in sorted(measured + laws)
        ]
    return points


def _short(value: float) -> float | None:
    """A value with the digits that the page needs; None for an unknown one."""
    return None if math.isnan(value) else float(f"{value:.{_DIGITS}g}")
