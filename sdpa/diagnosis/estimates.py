"""`diagnose`: the diagnosis of every head of a model, from queries and keys or scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.diagnosis.head_rows import HeadRows, Heads, Mask
from sdpa.diagnosis.quantities import OF_VECTORS, QUANTITIES, Quantity, Sums, values_of
from sdpa.scaling import Rule, resolve_divisor
from sdpa.theory.gaussian_rows import gaussian_rows

# rows of a larger deviation are one-hot within 1e-5, and integrals over them lose digits
LARGEST_SIGMA = 1e6


class Estimate(NamedTuple):
    """A quantity of every head, in arrays with the axes of the heads; NaN where an error or exact
    value is unknown.
    """

    value: FloatArray  # over all sequences
    error: FloatArray  # its standard error, from 2 sequences
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
        return (
            f"{type(self).__name__}: {self.rows.size} heads, {self.sequences} sequences; columns() "
            f"has the values of each head: {', '.join(self.estimates)}"
        )

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """A table with one row per head: its indices, then each quantity as NAME, NAME_se and
        NAME_exact.

        NAME_se and NAME_exact are there where some are known.
        `pandas.DataFrame` takes it.
        """
        places = np.indices(self.rows.shape).reshape(len(self.axes), self.rows.size)
        found: dict[str, npt.NDArray[Any]] = dict(zip(self.axes, places, strict=True))
        found["rows"] = self.rows.ravel()
        for name, estimate in self.estimates.items():
            found[name] = estimate.value.ravel()
            for end, values in (("se", estimate.error), ("exact", estimate.gaussian)):
                if not np.isnan(values).all():
                    found[f"{name}_{end}"] = values.ravel()
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
    exact: bool = True,
) -> Diagnosis:
    """The effect of a scale on each head, and how far its q and k are from independent Gaussian
    entries.

    `sdpa.diagnosis.QUANTITIES` has the meaning and the formula of every quantity. Rows of a query
    that sees fewer than two keys do not count: their softmax has nothing to choose. Memory is that
    of the arguments; of one head of one sequence in double precision, with a few bytes for each
    pair of a query and a key; of 100 bytes for each query of all heads; and 40 MiB for tiles of a
    million scores.

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
    divisor = resolve_divisor(scaling, heads.q.shape[-1], heads.mask.shape[-1], mask)
    return diagnosis_of([heads], divisor, has_exact=exact)


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
    return diagnosis_of([Heads.of(scores, None, mask, axes)], 1.0)


def diagnosis_of(parts: Sequence[Heads], divisor: float, *, has_exact: bool = True) -> Diagnosis:
    """The diagnosis of heads, whose scores are divided by the divisor, over the sequences of all
    parts.
    """
    first = parts[0]
    found = [
        [one.rows(divisor) for heads in parts for one in heads.of_head(head)]
        for head in np.ndindex(first.shape)
    ]
    sums = Sums.of([[one.sums for one in rows] for rows in found], first.d_k or 1, divisor)
    counts = counted(sums, first)
    exact: list[dict[str, float]] = [{} for _ in found]
    if has_exact:
        variances = sums.together().mean("unbiased_variance").tolist()
        exact = [gaussian_values(*each) for each in zip(found, variances, strict=True)]
    known = [one for one in QUANTITIES if first.k is not None or one.name not in OF_VECTORS]
    estimates = estimates_of(known, sums, counts.shape, found, exact)
    n_queries, n_keys = np.max([heads.mask.shape[-2:] for heads in parts], axis=0).tolist()
    return Diagnosis(
        first.axes, len(found[0]), counts, estimates, first.d_k, n_queries, n_keys, divisor
    )


def counted(sums: Sums, heads: Heads) -> npt.NDArray[np.int64]:
    """The number of rows of each head; ValueError for a head without rows."""
    counts = sums.together().by_name["rows"].astype(np.int64).reshape(heads.shape)
    if not counts.all():
        raise ValueError(
            "mask: expected a query that sees two keys or more in each head, got none in "
            f"{counts.size - np.count_nonzero(counts)} of {counts.size}"
        )
    return counts


def estimates_of(
    quantities: Sequence[Quantity],
    sums: Sums,
    shape: tuple[int, ...],
    found: Sequence[Sequence[HeadRows]] = (),
    exact: Sequence[Mapping[str, float]] = (),
) -> dict[str, Estimate]:
    """Quantities of heads, of that shape; those of sums have standard errors from 2 sequences, by
    the jackknife (Efron and Stein 1981, Ann. Statist. 9:586).
    """
    sequences, count = sums.by_name["rows"].shape
    estimates = {}
    for each in quantities:
        error = np.full(count, np.nan)
        if each.of is None:
            value = np.array([each.of_head(rows) for rows in found])
        else:
            value = each.of(sums.together())
            if sequences > 1:
                variance = each.of(sums.without_each()).var(axis=0)
                error = np.sqrt((sequences - 1) * variance)
        gaussian = np.array([one.get(each.name, np.nan) for one in exact or [{}] * count])
        by_place = (values.reshape(shape) for values in (value, error, gaussian))
        estimates[each.name] = Estimate(*by_place)
    return estimates


def gaussian_values(sequences: Sequence[HeadRows], variance: float) -> dict[str, float]:
    """Means over rows of independent normal scores of variances proportional to
    `independent_variance`, with a given mean; by name.

    The variance found
    in a row would be no better: among few keys it varies by chance, and rows in which it is large
    are also those with a large weight.
    """
    n, independent = (values_of(sequences, name) for name in ("n_visible", "independent_variance"))
    sigma = np.sqrt(variance * independent / (independent.mean() or 1.0))
    of_rows = gaussian_rows(np.minimum(sigma, LARGEST_SIGMA), n.astype(int))
    max_weight, entropy, square, saturated = of_rows.T
    return {
        "max_weight": max_weight.mean(),
        "entropy": entropy.mean(),
        "entropy_share": (entropy / np.log(n)).mean(),
        "saturated_rows": saturated.mean(),
        "jacobian_norm": np.sqrt(square.mean()),
    }
