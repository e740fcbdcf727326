"""The data of the page's explorer: the d_k and n_keys to choose from, with their exact and measured
values.

Given |q|, the scaled scores are independent N(0, sigma^2) with sigma = |q| / divisor. So curves
over sigma, for each n_keys, are enough for every d_k and every divisor: attention.js interpolates
them and averages over |q|.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from statistics import median_high, multimode

import numpy as np
import pandas as pd

from experiments.kinds.support import exact_or_measured, significant
from experiments.measuring.columns import axis_values
from experiments.measuring.experiment import MEASURED
from experiments.measuring.sampling import SampledCell
from experiments.tables.crossings import EQUAL
from experiments.tables.results import Results
from sdpa import PairLaw
from sdpa.theory import GaussianRow, limits

# The law of every number.
LAW = "the entries of queries and keys are independent and standard normal, without a mask"
POSITIONS = 120  # steps of the slider, including thirds, halves and quarters of the way
CURVES = ("max_weight", "entropy", "jacobian_square", "score_gradient_square")
# of the interpolated expectations up to 65,536 keys; tested against `attention_expectations`
RELATIVE_ERROR = 1e-5
_MOST_WIDTHS = 9  # choices of d_k
_MOST_LENGTHS = 6  # of n_keys, each of which takes a second and 3 kB
_MOST_KEYS = 100_000  # of which a browser draws a row without a wait
_DIGITS = 4  # of measured values
_MEDIANS = ("jacobian_norm_median", "query_gradient_norm_median")
# The d_k of equal medians by norm, from n_keys; each takes a second.
EXACT_CROSSINGS = {
    "jacobian": partial(limits.median_crossing, "jacobian_norm"),
    "query_gradient": partial(limits.median_crossing, "query_gradient_norm"),
}
_SHORTEST_OF_CROSSINGS = 8
_LONGEST = 8.0  # |q| above sqrt(d_k) + 8 has a probability below 1e-14
_SHARPER = 2.0  # sigma reaches this multiple of the largest of unscaled rows, for divisors below 1
Point = list[float | None]  # an array of JSON
_LOG_DECIMALS = 9  # fewer than in a double, so that machines agree


def explorer(sweeps: Collection[Results]) -> dict[str, object]:
    """Everything that the explorer shows, as JSON values.

    These are the choices `d_k` and `n_keys`, the pair `start` of most cells of the sweeps, of
    several the middle one, `rows`, exact expectations (`row_means`), and `medians` and `crossings`
    as in the functions of these names. Empty without rows of several keys.
    """
    cells = [cell for results in sweeps for cell in _cells_of_law(results)]
    # those of rows that a softmax changes
    sizes = [(c.d_k, c.n_keys) for c in cells if 2 <= c.n_keys <= _MOST_KEYS]
    if not sizes:
        return {}
    every = zip(*sizes, strict=True)
    widths, lengths = map(_most_common, every, (_MOST_WIDTHS, _MOST_LENGTHS))
    shown = [size for size in sizes if size[0] in widths and size[1] in lengths]
    smallest = widths[0], lengths[0]
    return {
        "d_k": widths,
        "n_keys": lengths,
        "start": median_high(multimode(shown) or [smallest]),
        "rows": row_means(widths, lengths),
        "medians": _medians(sweeps, widths, lengths),
        "crossings": _crossings(sweeps, lengths),
    }


def row_means(widths: list[int], lengths: list[int]) -> dict[str, object]:
    """ln E max w, ln E H, ln E |J|_F^2 and ln E |J z|^2 of Gaussian rows at Chebyshev points of s =
    ln(1 + sigma).

    The points are s_i = (1 - cos(pi i / N)) / 2 times the largest s, i = 0..N. Longer rows turn
    from spread to saturated within a narrower range of s, so that they have more of them.

    Returns:
        JSON values: `sigma`, the largest, for the largest of `widths`; `of`, by n_keys as text: for
        each of `CURVES` the values at all points.
    """
    largest = _SHARPER * (math.sqrt(max(widths)) + _LONGEST)
    of = {}
    for n_keys in lengths:
        points = math.log1p(largest)
        degree = math.ceil(points * (5 + 0.6 * math.log2(n_keys)))
        angles = np.pi * np.arange(degree + 1) / degree
        places = (1 - np.cos(angles)) / 2
        rows = [GaussianRow(math.expm1(s), n_keys) for s in points * places]
        curves = {}
        for name in CURVES:
            values = [getattr(row, name)() for row in rows]
            curves[name] = np.log(values).round(_LOG_DECIMALS).tolist()
        of[str(n_keys)] = curves
    return {"sigma": largest, "of": of}


def _most_common(values: Iterable[int], most: int) -> list[int]:
    """The most common values, in rising order; of equally common ones the smaller."""
    return sorted(value for value, _ in Counter(sorted(values)).most_common(most))


def _medians(
    sweeps: Iterable[Results], widths: Sequence[int], lengths: Sequence[int]
) -> list[Point]:
    """d_k, n_keys, divisor and medians of usual rows: exact where they are known, and else measured
    in the largest number of rows.
    """
    cell = ["d_k", "n_keys", "divisor"]
    needs = {*cell, *_MEDIANS, "trials", "n_queries"}
    usual = [_rows_of_law(results, MEASURED) for results in sweeps if needs <= {*results.measured}]
    if not usual:
        return []
    rows = pd.concat(usual).copy()  # columns beside each other, whatever the first table is
    for name in _MEDIANS:
        rows[name] = exact_or_measured(rows, name)
    rows["number"] = rows["trials"] * rows["n_queries"]
    rows = rows[rows["d_k"].isin(widths) & rows["n_keys"].isin(lengths)]
    rows = rows.sort_values("number", kind="stable")
    most = rows.drop_duplicates(cell, keep="last").sort_values(cell)
    points = most[[*cell, *_MEDIANS]].itertuples(index=False)
    return [
        [int(d_k), int(n_keys), divisor, *map(_short, medians)]
        for d_k, n_keys, divisor, *medians in points
    ]


def _cells_of_law(results: Results) -> list[SampledCell]:
    """The cells whose rows follow `LAW`: softmax rows of `saturation`, as no default value of an
    axis tells what another experiment draws.
    """
    if results.experiment.name != "saturation":
        return []
    sampled = [cell for cell in results.sweep.cells if isinstance(cell, SampledCell)]
    return [cell for cell in sampled if cell.law == PairLaw() and not cell.has_mask]


def follow_law(sweeps: Iterable[Results]) -> bool:
    """True if the rows of all cells of sweeps follow `LAW`."""
    return all(len(_cells_of_law(results)) == len(results.sweep.cells) for results in sweeps)


def _rows_of_law(results: Results, kind: str) -> pd.DataFrame:
    """The rows of a table of a sweep whose cells follow `LAW`."""
    table = results[kind]
    axes = results.axes.among(table)
    cells = map(axis_values, _cells_of_law(results))
    known = {tuple(cell[axis] for axis in axes) for cell in cells}
    points = table[axes].itertuples(index=False, name=None)
    return table[[point in known for point in points]]


def _crossings(sweeps: Iterable[Results], lengths: Sequence[int]) -> dict[str, list[Point]]:
    """n_keys and the exact d_k of equal medians, by norm, if a sweep has crossings.

    Those of lengths that its table lacks are computed: a line between distant neighbours would miss
    them by a third.
    """
    tables = [_rows_of_law(results, "crossings") for results in sweeps if "crossings" in results]
    points: dict[str, list[Point]] = {norm: [] for norm in EXACT_CROSSINGS}
    if not any(map(len, tables)):
        return points
    rows = pd.concat(tables)
    equal = rows[(rows["statistic"] == "median") & (rows["level"] == EQUAL)]
    equal = equal.dropna(subset="crossing_exact")
    for norm, exact_crossing in EXACT_CROSSINGS.items():
        known = equal[equal["norm"] == norm]
        crossings = dict(zip(known["n_keys"], known["crossing_exact"], strict=True))
        for n in lengths:
            if n >= _SHORTEST_OF_CROSSINGS and n not in crossings:
                crossings[n] = exact_crossing(n)
        points[norm] = [[int(n), _short(crossings[n])] for n in sorted(crossings)]
    return points


def _short(value: float) -> float | None:
    """A value with the digits that the page needs; None for an unknown one."""
    return None if math.isnan(value) else significant(value, _DIGITS)
