"""The quantities of a diagnosis, each declared once: its name, its meaning and how it follows from sums.

With s the scaled scores of a row over the n keys that its query sees, w their softmax and J its Jacobian, means are
over all rows with n of at least 2. Independent q and k with independent entries of mean 0 give the scores of a row the
variance d_k Var[q_a] Var[k_a] / c^2 under the divisor c, and

    variance_ratio = mean of 1/(n-1) sum_j (s_j - mean)^2, over that
                   = length_effect alignment_effect
    length_effect = mean of |q|^2 (mean of |k|^2 over the keys of the row), over d_k^2 Var[q_a] Var[k_a]

length_effect alone is the ratio for vectors of the same lengths in independent, uniformly distributed directions; what
is left is due to directions. A key's part that all keys share shifts all scores of a row alike, so that it makes
alignment_effect smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.diagnosis.sums import ALL, REST, Sums


@dataclass(frozen=True)
class Setting:
    """What is the same for all heads: d_k and the divisor."""

    d_k: int
    divisor: float


_NOISE = 1e-13  # relative rounding errors of sums of up to thousands of numbers
Of = Callable[[Sums, Setting], FloatArray]


@dataclass(frozen=True)
class Quantity:
    """A number of each head.

    Attributes:
        name: its name in a `Diagnosis`.
        unit, meaning, formula: for its description.
        of: from sums to its value; None for a value of single rows.
        row: for a value of single rows, which: the largest score, the largest absolute one, or |J|_F.
        share: the probability of a quantile of `row`; None for its largest value.
        part: with every key, or without the first one.
        gaussian: its name in `gaussian_values`; empty where no exact value is known.
    """

    name: str
    unit: str
    meaning: str
    formula: str = ""
    of: Of | None = None
    row: Literal["largest", "largest_absolute", "jacobian_norm"] | None = None
    share: float | None = None
    part: str = ALL
    gaussian: str = ""


def _mean(name: str, part: str = ALL) -> Of:
    return lambda sums, _: sums.mean(name, part)


def _root(name: str, part: str = ALL) -> Of:
    return lambda sums, _: np.sqrt(sums.mean(name, part))


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """NaN where the denominator is 0."""
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)


def _variance(sums: Sums, name: str) -> FloatArray:
    """Variance of the entries of q or k; 0 where it is rounding noise beside their mean."""
    variance, mean = sums.variance(name), sums.centre(name)
    return np.where(variance > (_NOISE * mean) ** 2, variance, 0.0)


def _within_rows(sums: Sums, setting: Setting, name: str, part: str = ALL) -> FloatArray:
    """A mean variance within rows; 0 where it is rounding noise beside the squares of scores."""
    variance, squares = sums.mean(name, part), sums.mean("lengths", part) / setting.divisor**2
    return np.where(variance > _NOISE**2 * squares, variance, 0.0)


def _variance_ratio(sums: Sums, setting: Setting) -> FloatArray:
    predicted = setting.d_k * _variance(sums, "q") * _variance(sums, "k") / setting.divisor**2
    return _ratio(_within_rows(sums, setting, "unbiased_variance"), predicted)


def _length_effect(sums: Sums, setting: Setting) -> FloatArray:
    return _ratio(sums.mean("lengths"), setting.d_k**2 * _variance(sums, "q") * _variance(sums, "k"))


def _alignment_effect(sums: Sums, setting: Setting) -> FloatArray:
    expected = sums.mean("lengths") / (setting.d_k * setting.divisor**2)
    return _ratio(_within_rows(sums, setting, "unbiased_variance"), expected)


def _unit_divisor(sums: Sums, setting: Setting) -> FloatArray:
    found = setting.divisor * np.sqrt(_within_rows(sums, setting, "row_variance"))
    return np.where(found > 0, found, np.nan)


def _unit_exponent(sums: Sums, setting: Setting) -> FloatArray:
    divisor = _unit_divisor(sums, setting)
    return np.log(divisor) / np.log(setting.d_k) if setting.d_k > 1 else np.full_like(divisor, np.nan)


def _of_softmax(part: str) -> Sequence[Quantity]:
    """What the softmax makes of rows, with every key or without the first one."""
    without = " without the first key" if part else ""

    def mean(name: str, unit: str, meaning: str, formula: str, *, exact: bool = True) -> Quantity:
        gaussian = name if exact else ""
        return Quantity(
            f"{name}{part}", unit, meaning + without, formula, _mean(name, part), part=part, gaussian=gaussian
        )

    def quantile(name: str, words: str, share: float) -> Quantity:
        meaning = f"{words} of |J|_F over rows{without}"
        return Quantity(f"jacobian_norm_{name}{part}", "", meaning, row="jacobian_norm", share=share, part=part)

    return (
        Quantity(
            f"row_variance{part}",
            "",
            f"variance of the scaled scores within a row{without}, mean over rows",
            "E (1/n) sum_j (s_j - mean)^2",
            lambda sums, setting: _within_rows(sums, setting, "row_variance", part),
            part=part,
        ),
        mean("max_weight", "", "largest weight of a row, mean over rows", "E max_j w_j"),
        mean("entropy", "nats", "entropy of a row, mean over rows", "E H = E[-sum_j w_j ln w_j]"),
        mean("entropy_share", "", "entropy of a row over its largest value, mean over rows", "E[H / ln n]"),
        mean("effective_keys", "", "number of equal weights of the same entropy, mean over rows", "E e^H", exact=False),
        mean("saturated_rows", "", "share of rows with a weight above 0.99", "P(max_j w_j > 0.99)"),
        Quantity(
            f"jacobian_norm{part}",
            "",
            f"Frobenius norm of the Jacobian of the softmax, root mean square over rows{without}",
            "sqrt(E |J|_F^2)",
            _root("jacobian_square", part),
            part=part,
            gaussian="jacobian_norm",
        ),
        quantile("p10", "10% quantile", 0.1),
        quantile("median", "median", 0.5),
        quantile("p90", "90% quantile", 0.9),
    )


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("q_mean", "", "mean of the entries of q", of=lambda sums, _: sums.centre("q")),
    Quantity("q_std", "", "standard deviation of the entries of q", of=lambda sums, _: np.sqrt(sums.variance("q"))),
    Quantity("k_mean", "", "mean of the entries of k", of=lambda sums, _: sums.centre("k")),
    Quantity("k_std", "", "standard deviation of the entries of k", of=lambda sums, _: np.sqrt(sums.variance("k"))),
    Quantity(
        "score_variance",
        "",
        "variance of all scaled scores about their mean",
        of=lambda sums, _: sums.variance("scores"),
    ),
    Quantity(
        "variance_ratio",
        "",
        "variance of the scaled scores within a row, over that for independent entries of mean 0",
        "E (1/(n-1)) sum_j (s_j - mean)^2 / (d_k Var[q_a] Var[k_a] / divisor^2)",
        _variance_ratio,
    ),
    Quantity(
        "length_effect",
        "",
        "part of variance_ratio that is due to the lengths of q and k",
        "E[|q|^2 mean |k|^2] / (d_k^2 Var[q_a] Var[k_a])",
        _length_effect,
    ),
    Quantity(
        "alignment_effect",
        "",
        "part of variance_ratio that is due to their directions",
        "variance_ratio / length_effect",
        _alignment_effect,
    ),
    Quantity("largest_score", "", "largest scaled score", "max s", row="largest"),
    Quantity("largest_absolute_score", "", "largest absolute scaled score", "max |s|", row="largest_absolute"),
    *_of_softmax(ALL),
    Quantity(
        "first_key_weight",
        "",
        "weight of the first key, mean over rows",
        "E w_1",
        _mean("first_weight"),
        gaussian="first_key_weight",
    ),
    *_of_softmax(REST),
    Quantity(
        "unit_divisor",
        "",
        "divisor at which row_variance is 1",
        "divisor sqrt(row_variance)",
        _unit_divisor,
    ),
    Quantity(
        "unit_exponent",
        "",
        "power of d_k that this divisor is",
        "ln(unit_divisor) / ln(d_k)",
        _unit_exponent,
    ),
)
