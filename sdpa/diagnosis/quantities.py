"""The quantities of a diagnosis, each declared once: its name, its meaning and how it follows from
sums over rows.

With s the scaled scores of a row over the n keys that its query sees, w their softmax and J its
Jacobian, means are over all rows with n of at least 2. Independent q and k with independent entries
of mean 0 give the scores of a row the variance d_k Var[q_a] Var[k_a] / c^2 under the divisor c, and

    variance_ratio = mean of 1/(n-1) sum_j (s_j - mean)^2, over that
                   = length_effect alignment_effect
    length_effect = mean of |q|^2 (mean of |k|^2 over the keys of the row), over d_k^2 Var[q_a]
    Var[k_a]

length_effect alone is the ratio for vectors of the same lengths in independent, uniformly
distributed directions. What all keys share shifts all scores of a row alike, so that it makes
alignment_effect smaller.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Self

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.diagnosis.heads import ALL, REST, HeadRows, Rows
from sdpa.metrics import SATURATED

_NOISE = 1e-13  # relative rounding errors of sums of up to thousands of numbers


@dataclass(frozen=True)
class Sums:
    """Sums by name, (sequences, heads), or (heads,) for all sequences together.

    Those of the entries of q and k and of the scores are of deviations from references, (heads,),
    in which little cancels, and of their squares.
    """

    by_name: Mapping[str, FloatArray]
    references: Mapping[str, FloatArray]
    d_k: int
    divisor: float

    @classmethod
    def of(cls, by_head: Sequence[Sequence[HeadRows]], part: str, d_k: int, divisor: float) -> Self:
        """From the sequences of each head, for a part of their rows."""
        # by sequence, whose sums are added one after the other
        found = list(zip(*by_head, strict=True))
        rows = [[values_of_rows(one.part(part)) for one in each] for each in found]
        sums = {}
        for name in rows[0][0]:
            of_heads = [[one[name].sum() for one in each] for each in rows]
            sums[name] = np.array(of_heads)
        attended = np.array([[one.most_attended for one in each] for each in found])
        _, weights, rows_of_key = np.moveaxis(attended, -1, 0)
        sums["most_attended_share"] = weights
        sums["most_attended_rows"] = rows_of_key
        references = {}
        moments = [[(one.q, one.k, one.scores(part)) for one in each] for each in found]
        by_kind = np.moveaxis(np.array(moments), 2, 0)
        for name, each in zip(("q", "k", "scores"), by_kind, strict=True):
            count, mean, variance = np.moveaxis(each, -1, 0)
            references[name] = ratio((count * mean).sum(axis=0), count.sum(axis=0))
            shift = mean - references[name]
            sums[f"{name}_count"] = count
            sums[f"{name}_shift"] = count * shift
            sums[f"{name}_squares"] = count * (variance + shift**2)
        return cls(sums, references, d_k, divisor)

    def mean(self, name: str) -> FloatArray:
        """Sum over rows of a value, over the number of rows; NaN without rows."""
        return ratio(self.by_name[name], self.by_name["rows"])

    def variance(self, name: str) -> FloatArray:
        """Variance with 1/n of the n numbers called so: entries of q or k, or scores."""
        n = self.by_name[f"{name}_count"]
        shift = self.by_name[f"{name}_shift"]
        squares = self.by_name[f"{name}_squares"]
        return np.asarray(np.maximum(squares / n - (shift / n) ** 2, 0.0))

    def centre(self, name: str) -> FloatArray:
        """Mean of the numbers called so."""
        shift = self.by_name[f"{name}_shift"] / self.by_name[f"{name}_count"]
        return np.asarray(self.references[name] + shift)

    def within_rows(self, name: str) -> FloatArray:
        """A mean variance within rows; 0 where it is rounding noise beside the squares of
        scores.
        """
        variance = self.mean(name)
        squares = self.mean("lengths") / self.divisor**2
        return np.where(variance > _NOISE**2 * squares, variance, 0.0)

    def entries(self, factor: int) -> FloatArray:
        """A factor times Var[q_a] Var[k_a]; each is 0 where it is rounding noise beside its
        mean.
        """
        product = np.asarray(factor)
        for name in "qk":
            variance = self.variance(name)
            noise = (_NOISE * self.centre(name)) ** 2
            product = product * np.where(variance > noise, variance, 0.0)
        return product

    def together(self) -> Self:
        """The sums over all sequences."""
        totals = {name: values.sum(axis=0) for name, values in self.by_name.items()}
        return replace(self, by_name=totals)

    def without_each(self) -> Self:
        """The sums without each of the sequences, (sequences, heads)."""
        rest = {name: values.sum(axis=0) - values for name, values in self.by_name.items()}
        return replace(self, by_name=rest)


def values_of_rows(rows: Rows) -> dict[str, FloatArray]:
    """The values of each row whose sums count, by name."""
    n = rows.n_visible
    return {
        "rows": np.ones(len(n)),
        "row_variance": rows.variance,
        "unbiased_variance": rows.variance * n / (n - 1),
        "lengths": rows.lengths,
        "max_weight": rows.max_weight,
        "entropy": rows.entropy,
        "entropy_share": rows.entropy / np.log(n),
        "effective_keys": np.exp(rows.entropy),
        "saturated_rows": (rows.max_weight > SATURATED).astype(np.float64),
        "jacobian_square": rows.jacobian_norm**2,
        "first_key_weight": rows.first_weight,
        "visible_mass": rows.visible_mass,
    }


def ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """NaN where the denominator is 0."""
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)


@dataclass(frozen=True)
class Quantity:
    """A number of each head, by its name in a `Diagnosis`: a function of sums, of the sequences of
    a head, or of the values of single rows.
    """

    name: str
    meaning: str
    formula: str = ""
    of: Callable[[Sums], FloatArray] | None = None
    unit: str = ""
    of_head: Callable[[Sequence[HeadRows]], float] | None = None
    # the value of single rows, if both are None
    row: Callable[[Rows], FloatArray] = lambda rows: rows.largest
    share: float | None = None  # the probability of a quantile of `row`; None for its largest value
    part: str = ALL
    gaussian: str = ""  # its name in `gaussian_values`, if an exact value is known

    @property
    def has_error(self) -> bool:
        """True unless its value is that of a head, or the largest of single rows."""
        return self.of is not None or self.share is not None


def row_mean(name: str, meaning: str, formula: str, unit: str = "") -> Quantity:
    """A mean over rows, with the exact value of this name, if there is one."""
    of = partial(Sums.mean, name=name)
    return Quantity(name, f"{meaning}, mean over rows", formula, of, unit, gaussian=name)


def _quantile(name: str, words: str, share: float) -> Quantity:
    row = attrgetter("jacobian_norm")
    return Quantity(f"jacobian_norm_{name}", f"{words} of |J|_F over rows", row=row, share=share)


def _of_entries(name: str) -> Sequence[Quantity]:
    return (
        Quantity(
            f"{name}_mean", f"mean of the entries of {name}", of=partial(Sums.centre, name=name)
        ),
        Quantity(
            f"{name}_std",
            f"standard deviation of the entries of {name}",
            of=lambda sums: np.sqrt(sums.variance(name)),
        ),
    )


def _most_attended_key(of_head: Sequence[HeadRows]) -> float:
    """The place that is the same in more than half of the sequences; NaN without one."""
    places = [one.most_attended.place for one in of_head if len(one.rows.n_visible)]
    found, counts = np.unique(places, return_counts=True)
    return float(found[counts.argmax()]) if 2 * counts.max() > len(places) else np.nan


def _unit_divisor(sums: Sums) -> FloatArray:
    found = sums.divisor * np.sqrt(sums.within_rows("row_variance"))
    return np.where(found > 0, found, np.nan)


def _unit_exponent(sums: Sums) -> FloatArray:
    divisor = _unit_divisor(sums)
    return np.log(divisor) / np.log(sums.d_k) if sums.d_k > 1 else np.full_like(divisor, np.nan)


_OF_SOFTMAX = (
    Quantity(
        "row_variance",
        "variance of the scaled scores within a row, mean over rows",
        "E (1/n) sum_j (s_j - mean)^2",
        partial(Sums.within_rows, name="row_variance"),
    ),
    row_mean("max_weight", "largest weight of a row", "E max_j w_j"),
    row_mean("entropy", "entropy of a row", "E H = E[-sum_j w_j ln w_j]", "nats"),
    row_mean("entropy_share", "entropy of a row over its largest value", "E[H / ln n]"),
    row_mean("effective_keys", "number of equal weights of the same entropy", "E e^H"),
    Quantity(
        "saturated_rows",
        "share of rows with a weight above 0.99",
        "P(max_j w_j > 0.99)",
        partial(Sums.mean, name="saturated_rows"),
        gaussian="saturated_rows",
    ),
    Quantity(
        "jacobian_norm",
        "Frobenius norm of the Jacobian of the softmax, root mean square over rows",
        "sqrt(E |J|_F^2)",
        lambda sums: np.sqrt(sums.mean("jacobian_square")),
        gaussian="jacobian_norm",
    ),
    _quantile("p10", "10% quantile", 0.1),
    _quantile("median", "median", 0.5),
    _quantile("p90", "90% quantile", 0.9),
)
QUANTITIES: tuple[Quantity, ...] = (
    *_of_entries("q"),
    *_of_entries("k"),
    Quantity(
        "score_variance",
        "variance of all scaled scores about their mean",
        of=partial(Sums.variance, name="scores"),
    ),
    Quantity(
        "variance_ratio",
        "variance of the scaled scores within a row, over that for independent entries of mean 0",
        "E (1/(n-1)) sum_j (s_j - mean)^2 / (d_k Var[q_a] Var[k_a] / divisor^2)",
        lambda sums: ratio(
            sums.within_rows("unbiased_variance"), sums.entries(sums.d_k) / sums.divisor**2
        ),
    ),
    Quantity(
        "length_effect",
        "part of variance_ratio that is due to the lengths of q and k",
        "E[|q|^2 mean |k|^2] / (d_k^2 Var[q_a] Var[k_a])",
        lambda sums: ratio(sums.mean("lengths"), sums.entries(sums.d_k**2)),
    ),
    Quantity(
        "alignment_effect",
        "part of variance_ratio that is due to their directions",
        "variance_ratio / length_effect",
        lambda sums: ratio(
            sums.within_rows("unbiased_variance"),
            sums.mean("lengths") / (sums.d_k * sums.divisor**2),
        ),
    ),
    Quantity("largest_score", "largest scaled score", "max s"),
    Quantity(
        "largest_absolute_score",
        "largest absolute scaled score",
        "max |s|",
        row=lambda rows: np.maximum(rows.largest, -rows.smallest),
    ),
    *_OF_SOFTMAX,
    row_mean("first_key_weight", "weight of the first key", "E w_1"),
    Quantity(
        "most_attended_key",
        "place of the key that gets the most weight from all rows of its sequence, from 0 for the "
        "first; empty if no place is that of most sequences",
        "argmax_j E w_j",
        of_head=_most_attended_key,
    ),
    row_mean("most_attended_share", "weight of this key", "max_j E w_j"),
    row_mean(
        "most_attended_rows",
        "1 if this key has the largest weight",
        "P(argmax_i w_i = argmax_j E w_j)",
    ),
    *(
        replace(
            each, name=each.name + REST, meaning=f"{each.meaning} without the first key", part=REST
        )
        for each in _OF_SOFTMAX
    ),
    Quantity(
        "unit_divisor",
        "divisor at which row_variance is 1",
        "divisor sqrt(row_variance)",
        _unit_divisor,
    ),
    Quantity(
        "unit_exponent",
        "power of d_k that this divisor is",
        "ln(unit_divisor) / ln(d_k)",
        _unit_exponent,
    ),
)
VISIBLE_MASS = row_mean("visible_mass", "sum of the weights of a row beside a sink", "E sum_j w_j")
# The names of those that scores alone do not have.
OF_VECTORS = {
    "q_mean",
    "q_std",
    "k_mean",
    "k_std",
    "variance_ratio",
    "length_effect",
    "alignment_effect",
    "unit_exponent",
}
