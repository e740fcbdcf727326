"""`diagnose` and `divisor_for`: the diagnosis of every head of a model, and its inverse, from
queries and keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.diagnosis.heads import ALL, REST, HeadRows, Heads, Mask, Rows, label
from sdpa.diagnosis.quantities import (
    OF_VECTORS,
    QUANTITIES,
    VISIBLE_MASS,
    Quantity,
    Sums,
    values_of_rows,
)
from sdpa.row_maps import PLAIN, RowMap
from sdpa.scaling import Rule, resolve_divisor
from sdpa.theory.attention import Target, divisor_with
from sdpa.theory.gaussian_rows import gaussian_rows

BATCH = "batch"
# sequences; with fewer, the error of a quantile is often far too small, or 0
_FEWEST_FOR_QUANTILES = 8
# rows of a larger deviation are one-hot within 1e-5, and integrals over them lose digits
_LARGEST_SIGMA = 1e6


class Estimate(NamedTuple):
    """A quantity of every head, in arrays with the axes of the heads; NaN where an error or exact
    value is unknown.
    """

    value: FloatArray  # over all sequences
    error: FloatArray  # its standard error, from 2 sequences, and from 8 for quantiles
    gaussian: FloatArray  # its exact value for Gaussian rows of the same lengths and mean variance


@dataclass(frozen=True, repr=False)
class Estimates:
    """Quantities of each head, by name."""

    # names of the axes of the heads: those of q without `batch`, n_queries and d_k
    axes: tuple[str, ...]
    sequences: int  # number of independent ones
    # by head, number of rows that see two keys or more, over all sequences
    rows: npt.NDArray[np.int64]
    estimates: Mapping[str, Estimate]

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def __repr__(self) -> str:
        """A line for each quantity: its smallest and its largest known value over the heads."""
        lines = [
            f"{type(self).__name__}: {self.rows.size} heads, {self.sequences} sequences; "
            "columns() has the values of each head"
        ]
        for name, estimate in self.estimates.items():
            known = estimate.value[~np.isnan(estimate.value)]
            ends = f"{known.min():10.4g} to {known.max():10.4g}" if known.size else "unknown"
            lines.append(f"{name:36} {ends}")
        return "\n".join(lines)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """A table with one row per head: its indices, then each quantity as NAME, NAME_se and
        NAME_exact.

        NAME_se is there with several sequences, NAME_exact where an exact value is known.
        `pandas.DataFrame` takes it.
        """
        places = np.indices(self.rows.shape).reshape(len(self.axes), self.rows.size)
        found: dict[str, npt.NDArray[Any]] = dict(zip(self.axes, places, strict=True))
        found["rows"] = self.rows.ravel()
        for name, estimate in self.estimates.items():
            found[name] = estimate.value.ravel()
            if self.sequences > 1:
                found[f"{name}_se"] = estimate.error.ravel()
            if not np.isnan(estimate.gaussian).all():
                found[f"{name}_exact"] = estimate.gaussian.ravel()
        return found


@dataclass(frozen=True, repr=False)
class Diagnosis(Estimates):
    """The effect of the scale on the attention of each head: the quantities of `QUANTITIES`."""

    d_k: int | None  # None for scores
    n_queries: int
    n_keys: int
    divisor: float


def diagnose(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    scaling: Rule = "d_k^1/2",
    mask: Mask | None = None,
    *,
    axes: Sequence[str] | None = None,
    softcap: float = 0.0,
    sink: npt.ArrayLike | None = None,
    exact: bool = True,
) -> Diagnosis:
    """The effect of a scale on each head, and how far its q and k are from independent Gaussian
    entries.

    `sdpa.diagnosis.QUANTITIES` has the meaning and the formula of every quantity. Rows of a query
    that sees fewer than two keys do not count: their softmax has nothing to choose. Memory is that
    of the arguments, of one head in double precision, of tiles of a million scores, and of 176
    bytes for each row.

    Args:
        q: queries, (..., n_queries, d_k), before any scale; any real type.
        k: keys, (..., n_keys, d_k), n_keys at least 2. The axis `head` may be shorter than that of
            q by a whole factor: as in grouped-query attention, consecutive heads of q share one of
            k.
        scaling: a rule such as `d_k^1/2`, or the divisor itself.
        mask: `none`; `causal`, where the last query sees every key; `window-512`, causal and of at
            most 512 keys; `local-64`, the own key and 64 on both sides; or an array, broadcast to
            (..., n_queries, n_keys), of booleans (True where the query may attend to the key) or of
            0 and -10,000 or less. Queries and keys that no counted row uses may be any padding.
        axes: names of the leading axes of q. By default `head`; `batch`, `head`; or `layer`,
            `batch`, `head`, by their number. The axis `batch` has independent sequences, from which
            standard errors come.
        softcap, sink: as in `sdpa.row_maps.RowMap`, with a sink for each index of the axis `head`
            of q, or for all. Quantities of scores are those before the cap, the entropy is that of
            the weights over their sum, the Jacobian that of the weights to the scores before the
            cap, and no Gaussian values are known. A sink adds the quantity `visible_mass`, the mean
            sum of the weights.
        exact: False leaves out the Gaussian values, which take most of the time of many heads.

    Raises:
        ValueError: shapes, names or the mask do not fit, or an entry that counts is not finite or
            beyond 1e70.

    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.standard_normal((2, 5, 3, 32, 64))  # 5 sequences, 3 heads
    >>> found = diagnose(q, k)
    >>> found.axes, found["max_weight"].value.round(2), found["max_weight"].gaussian.round(2)
    (('head',), array([0.18, 0.17, 0.17]), array([0.17, 0.17, 0.16]))
    >>> found["variance_ratio"].value.round(1)
    array([1., 1., 1.])
    """
    heads = Heads.of(q, k, mask, axes)
    divisor = resolve_divisor(scaling, heads.q.shape[-1], heads.n_keys, mask)
    row_map = RowMap.of(softcap, sink)
    return _diagnosis(heads, divisor, row_map, has_exact=exact and row_map.is_plain)


def diagnose_scores(
    scores: npt.ArrayLike, mask: Mask | None = None, *, axes: Sequence[str] | None = None
) -> Diagnosis:
    """The diagnosis of scores as they reach the softmax, (..., n_queries, n_keys), after every
    divisor, bias and cap.

    It lacks the quantities that need q and k. Gaussian rows beside it have one spread for all rows
    of a head. A score of -inf hides its key, as a mask does; other arguments and errors as in
    `diagnose`.

    >>> scores = np.random.default_rng(0).standard_normal((3, 32, 32))  # 3 heads
    >>> found = diagnose_scores(scores)
    >>> found["max_weight"].value.round(2), found["max_weight"].gaussian.round(2), "q_std" in found.estimates
    (array([0.16, 0.16, 0.16]), array([0.16, 0.17, 0.16]), False)
    """
    return _diagnosis(Heads.of_scores(scores, mask, axes), 1.0, PLAIN, has_exact=True)


def _diagnosis(heads: Heads, divisor: float, row_map: RowMap, *, has_exact: bool) -> Diagnosis:
    """The diagnosis of heads, whose scores are divided by the divisor."""
    for name in heads.axes:
        if name == "rows" or any(quantity.name == name for quantity in QUANTITIES):
            raise ValueError(f"axes: expected names that no quantity has, got {name!r}")
    d_k = None if heads.k is None else heads.q.shape[-1]
    kept = [place for place, name in enumerate(heads.axes) if name != BATCH]
    axes = tuple(heads.axes[place] for place in kept)
    shape = tuple(heads.shape[place] for place in kept)
    by_head: dict[tuple[int, ...], list[HeadRows]] = {}  # the sequences of each head
    for index in heads.indices():
        head = tuple(index[place] for place in kept)
        rows_of_head = heads.rows(index, divisor, row_map)
        by_head.setdefault(head, []).append(rows_of_head)
    for index, of_head in by_head.items():
        if not any(len(one.rows.n_visible) for one in of_head):
            raise ValueError(
                f"mask: expected a query that sees two keys or more, got none{label(axes, index)}"
            )
    found = list(by_head.values())
    sums = {part: Sums.of(found, part, d_k or 1, divisor) for part in (ALL, REST)}
    exact = {}
    for part in (ALL, REST):
        rows_of = (Rows.joined(one.part(part) for one in of_head) for of_head in found)
        variances = sums[part].together().mean("unbiased_variance").tolist()
        pairs = zip(rows_of, variances, strict=True)
        exact[part] = [gaussian_values(*each) if has_exact else {} for each in pairs]
    estimates = {}
    quantities = QUANTITIES if row_map.sink is None else (*QUANTITIES, VISIBLE_MASS)
    for quantity in (each for each in quantities if d_k or each.name not in OF_VECTORS):
        if quantity.of:
            value, error = of_sums(quantity.of, sums[quantity.part])
        else:
            value, error = np.transpose([_of_rows(quantity, each) for each in found])
        known = [each.get(quantity.gaussian, np.nan) for each in exact[quantity.part]]
        by_place = (values.reshape(shape) for values in (value, error, np.array(known)))
        estimates[quantity.name] = Estimate(*by_place)
    rows = sums[ALL].together().by_name["rows"].astype(np.int64).reshape(shape)
    return Diagnosis(
        axes, len(found[0]), rows, estimates, d_k, heads.q.shape[-2], heads.n_keys, divisor
    )


def of_sums(of: Callable[[Sums], FloatArray], sums: Sums) -> tuple[FloatArray, FloatArray]:
    """A function of sums, with its standard error by the jackknife (Efron and Stein 1981, Ann.
    Statist. 9:586).
    """
    value = of(sums.together())
    sequences = len(sums.by_name["rows"])
    if sequences == 1:
        return value, np.full_like(value, np.nan)
    variance = of(sums.without_each()).var(axis=0)
    return value, np.sqrt((sequences - 1) * variance)


def _of_rows(quantity: Quantity, of_head: list[HeadRows]) -> tuple[float, float]:
    """The value of a quantity of one head and its standard error, NaN unless it is a quantile.

    The value is that of the head, the largest of its rows, or a quantile of them. The share of rows
    up to the quantile is a ratio of sums over sequences, with a standard error. The quantiles at
    that share plus and minus its error lie two errors of the quantile apart (Woodruff 1952, JASA
    47:635).
    """
    if quantity.of_head:
        return quantity.of_head(of_head), np.nan
    sequences = [quantity.row(one.part(quantity.part)) for one in of_head]
    values = np.concatenate(sequences)
    if not len(values):
        return np.nan, np.nan
    if quantity.share is None:
        return values.max(), np.nan
    value = np.quantile(values, quantity.share)
    if len(sequences) < _FEWEST_FOR_QUANTILES:
        return value, np.nan
    below = np.array([np.count_nonzero(rows <= value) for rows in sequences])
    lengths = np.array([len(rows) for rows in sequences])
    excess = below - below.sum() / len(values) * lengths
    count = len(sequences)
    square = count / (count - 1) * (excess**2).sum()
    error = np.sqrt(square) / len(values)
    shares = np.clip([quantity.share - error, quantity.share + error], 0, 1)
    low, high = np.quantile(values, shares)
    return value, (high - low) / 2


def gaussian_values(rows: Rows, variance: float) -> dict[str, float]:
    """Means over rows of independent normal scores of variances proportional to `lengths`, with a
    given mean; by name.

    That is the variance of scores if keys lie in independent random directions. The variance found
    in a row would be no better: among few keys it varies by chance, and rows in which it is large
    are also those with a large weight.
    """
    if not len(rows.n_visible):
        return {}
    mean = rows.lengths.mean()
    sigma = np.zeros_like(rows.lengths)
    if mean > 0:
        sigma = np.sqrt(variance * (rows.lengths / mean))
    sigma = np.minimum(sigma, _LARGEST_SIGMA)
    of_rows = gaussian_rows(np.asarray(sigma, np.float64), rows.n_visible.astype(int))
    max_weight, entropy, square, saturated = of_rows.T
    return {
        "max_weight": max_weight.mean(),
        "entropy": entropy.mean(),
        "entropy_share": (entropy / np.log(rows.n_visible)).mean(),
        "saturated_rows": saturated.mean(),
        "jacobian_norm": np.sqrt(square.mean()),
        "first_key_weight": (rows.sees_first / rows.n_visible).mean(),
    }


def divisor_for(
    target: Target, value: float, q: npt.ArrayLike, k: npt.ArrayLike, mask: Mask | None = None
) -> float:
    """The divisor c at which a quantity of a head has a wanted value, computed from the scores of
    the head itself.

    `theory.divisor_for` is for rows of a law; this one takes rows as they are, with their spread
    and structure.

    Args:
        target: `entropy`, `entropy_share`, `max_weight` or `row_variance`, as in `QUANTITIES`.
        value: that it should have, as a mean over rows.
        q, k, mask: as in `diagnose`, of one head: (n, d_k) or (batch, n, d_k).

    Raises:
        ValueError: no divisor gives the value, the scores of each row are equal, or `diagnose`
            refuses the arrays.

    >>> q, k = 2 * np.random.default_rng(0).standard_normal((2, 5, 32, 64))  # 5 sequences
    >>> c = divisor_for("entropy_share", 0.9, q, k)
    >>> round(float(diagnose(q, k, c, axes=["batch"])["entropy_share"].value), 9)
    0.9
    """
    if target not in get_args(Target):
        raise ValueError(f"target: expected one of {', '.join(get_args(Target))}, got {target!r}")
    axes = (BATCH,)[: np.ndim(q) - 2]
    unit = float(diagnose(q, k, mask=mask, axes=axes, exact=False)["unit_divisor"].value)
    if math.isnan(unit):
        raise ValueError("q and k: expected rows of different scores, got equal ones in each row")
    heads = Heads.of(q, k, mask, axes)

    def mean(divisor: float) -> float:
        rows = Rows.joined(heads.rows(index, divisor).rows for index in heads.indices())
        return float(values_of_rows(rows)[target].mean())

    return divisor_with(target, value, unit, mean)
