"""The quantities of a diagnosis, each declared once: its name, its meaning and how it follows from
the rows of a head.

With s the scaled scores of a row over the n keys that its query sees, w their softmax and J its
Jacobian, means are over all rows with n of at least 2. Independent q and k with independent entries
of mean 0 give the scores of a row the variance d_k Var[q_a] Var[k_a] / c^2 with the divisor c, and

    variance_ratio = mean of 1/(n-1) sum_j (s_j - mean)^2, over that
                   = length_effect alignment_effect
    length_effect = mean of |q|^2 (mean of |k|^2 over the keys of the row), over d_k^2 Var[q_a]
    Var[k_a]

length_effect alone is the ratio for vectors of the same lengths in independent, uniformly
distributed directions. What all keys share shifts all scores of a row alike, so that it makes
alignment_effect smaller.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import mode
from typing import NamedTuple

import numpy as np

from sdpa._arrays import Array, FloatArray
from sdpa.tools.diagnosis.head_rows import HeadRows

Sums = Mapping[str, FloatArray]  # by name, (sequences, heads), or (heads,) for all sequences


class Quantity(NamedTuple):
    """A number of each head, by its name in a `Diagnosis`: a function of sums, with a standard
    error, or of the sequences of a head.
    """

    name: str
    meaning: str
    formula: str = ""
    of: Callable[[Sums], FloatArray] | None = None
    unit: str = ""
    head_value: Callable[[Sequence[HeadRows]], float] = lambda _: np.nan


def mean(sums: Sums, name: str) -> FloatArray:
    """Sum over rows of a value, over the number of rows; NaN without rows."""
    return sums[name] / sums["rows"]


def row_mean(name: str, meaning: str, formula: str, unit: str = "") -> Quantity:
    """A mean over rows."""
    return Quantity(
        name, f"{meaning}, mean over rows", formula, lambda sums: mean(sums, name), unit
    )


def _variance(sums: Sums, name: str) -> FloatArray:
    """Variance with 1/n of the entries of q or k."""
    count = sums[f"{name}_count"]
    average = sums[f"{name}_sum"] / count
    return np.maximum(sums[f"{name}_squares"] / count - average**2, 0.0)


def _entries(sums: Sums) -> FloatArray:
    """d_k Var[q_a] Var[k_a]; NaN where the scores of each row are equal."""
    d_k = mean(sums, "q_count")
    product = d_k * _variance(sums, "q") * _variance(sums, "k")
    return np.where(product * sums["score_variance"] > 0, product, np.nan)


def _std(name: str) -> Quantity:
    return Quantity(
        f"{name}_std",
        f"standard deviation of the entries of {name}",
        of=lambda sums: np.sqrt(_variance(sums, name)),
    )


def _unit_divisor(sums: Sums) -> FloatArray:
    deviation = np.sqrt(mean(sums, "score_variance"))
    return np.where(deviation > 0, deviation, np.nan)


def values_of(sequences: Sequence[HeadRows], name: str) -> Array:
    """A value of all rows of a head."""
    return np.concatenate([sequence.rows[name] for sequence in sequences])


def _most_attended_key(sequences: Sequence[HeadRows]) -> float:
    """The place that is the same in more than half of the sequences; NaN without one."""
    places = [sequence.top_key for sequence in sequences if sequence.sums["rows"]]
    place = mode(places)
    return float(place) if 2 * places.count(place) > len(places) else np.nan


QUANTITIES: tuple[Quantity, ...] = (
    _std("q"),
    _std("k"),
    Quantity(
        "variance_ratio",
        "variance of the scaled scores within a row, over that for independent entries of mean 0",
        "E (1/(n-1)) sum_j (s_j - mean)^2 / (d_k Var[q_a] Var[k_a] / divisor^2)",
        lambda sums: mean(sums, "unbiased_variance") / _entries(sums),
    ),
    Quantity(
        "length_effect",
        "part of variance_ratio that is due to the lengths of q and k",
        "E[|q|^2 mean |k|^2] / (d_k^2 Var[q_a] Var[k_a])",
        lambda sums: mean(sums, "independent_variance") / _entries(sums),
    ),
    Quantity(
        "alignment_effect",
        "part of variance_ratio that is due to their directions",
        "variance_ratio / length_effect",
        lambda sums: sums["unbiased_variance"] / sums["independent_variance"],
    ),
    Quantity(
        "largest_absolute_score",
        "largest absolute scaled score",
        "max |s|",
        head_value=lambda sequences: float(values_of(sequences, "largest_absolute_score").max()),
    ),
    row_mean(
        "row_variance",
        "variance of the scaled scores within a row",
        "E (1/n) sum_j (s_j - mean)^2",
    ),
    Quantity(
        "spread",
        "root of row_variance",
        "sqrt(row_variance)",
        lambda sums: np.sqrt(mean(sums, "row_variance")),
    ),
    row_mean("max_weight", "largest weight of a row", "E max_j w_j"),
    row_mean("entropy", "entropy of a row", "E H = E[-sum_j w_j ln w_j]", "nats"),
    row_mean("entropy_share", "entropy of a row over its largest value", "E[H / ln n]"),
    row_mean("saturated_rows", "1 if a weight is above 0.99", "P(max_j w_j > 0.99)"),
    Quantity(
        "jacobian_norm",
        "Frobenius norm of the Jacobian of the softmax, root mean square over rows",
        "sqrt(E |J|_F^2)",
        lambda sums: np.sqrt(mean(sums, "jacobian_square")),
    ),
    Quantity(
        "jacobian_norm_median",
        "median of this norm over rows",
        "median |J|_F",
        head_value=lambda sequences: float(np.median(values_of(sequences, "jacobian_norm"))),
    ),
    row_mean("first_key_weight", "weight of the first key", "E w_1"),
    Quantity(
        "most_attended_key",
        "place of the key that gets the most weight from all rows of its sequence, from 0 for the "
        "first; empty if no place is that of most sequences",
        "argmax_j E w_j",
        head_value=_most_attended_key,
    ),
    row_mean("most_attended_share", "weight of this key", "max_j E w_j"),
    Quantity(
        "unit_divisor",
        "divisor at which row_variance is 1",
        "divisor sqrt(row_variance)",
        _unit_divisor,
    ),
    Quantity(
        "unit_exponent",
        "power of d_k that unit_divisor is",
        "ln(unit_divisor) / ln(d_k)",
        lambda sums: np.log(_unit_divisor(sums)) / np.log(mean(sums, "q_count")),
    ),
)
# The names of those that scores alone do not have.
VECTOR_QUANTITIES = {
    "q_std",
    "k_std",
    "variance_ratio",
    "length_effect",
    "alignment_effect",
    "unit_exponent",
}
OUTSIDE_DOCUMENT = Quantity(
    "outside_document",
    "share of the weight on keys of another document than the query's, of packed documents, "
    "where the mask alone hides keys",
    "sum over rows of sum_j w_j [document of j is another], over their number",
)
