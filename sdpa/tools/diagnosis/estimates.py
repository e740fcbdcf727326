"""`diagnose`: the diagnosis of every head of a model, from queries and keys or scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdpa._arrays import Array, FloatArray
from sdpa._names import not_among
from sdpa.scaling import SCALED, Rule
from sdpa.theory.gaussian_rows import gaussian_rows
from sdpa.tools.diagnosis.advice import report
from sdpa.tools.diagnosis.head_rows import HeadRows, Heads, Mask
from sdpa.tools.diagnosis.quantities import QUANTITIES, VECTOR_QUANTITIES, Quantity, values_of
from sdpa.tools.listing import Row, rows_of

# rows of a larger deviation are one-hot within 1e-5, and integrals over them lose digits
LARGEST_SIGMA = 1e6


class Estimate(NamedTuple):
    """A quantity of every head, in arrays with the axes of the heads; NaN where an error or exact
    value is unknown.
    """

    value: FloatArray  # over all sequences
    error: FloatArray  # its standard error, from 2 sequences
    gaussian: FloatArray  # its exact value for Gaussian rows of the same lengths and mean variance


@dataclass(frozen=True)
class Diagnosis:
    """Quantities of each head, by name: those of one run, or of the differences between two.

    It prints as `sdpa diagnose` or `sdpa compare` does, but its advice is for the mask that was given
    alone: the command leaves out what a causal mask would change.
    """

    # names of the axes of the heads: those of q without `batch`, n_queries and d_k
    axes: tuple[str, ...]
    sequences: int  # number of independent ones with rows
    # by head, number of rows that see two keys or more, over all sequences
    rows: npt.NDArray[np.int64]
    divisor: float  # of the scores, in the first run; 1 for given scores
    n_keys: int  # of the longest sequence
    estimates: Mapping[str, Estimate]
    report: Callable[[Sequence[Row]], str]  # the text of a table of the heads

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.estimates:
            raise KeyError(not_among(name, self.estimates))
        return self.estimates[name]

    def __str__(self) -> str:
        sizes = {"sequences": self.sequences, "n_keys": self.n_keys}
        return self.report([{**sizes, **head} for head in rows_of(self.columns())])

    def to_pandas(self) -> Any:
        """`columns` as a DataFrame of pandas, which is no dependency."""
        import pandas

        return pandas.DataFrame(self.columns())

    def columns(self) -> dict[str, Array]:
        """A table with one row per head: its indices, then each quantity as NAME, NAME_se and
        NAME_exact.

        NAME_se and NAME_exact are there where some are known.
        """
        places = zip(self.axes, np.indices(self.rows.shape), strict=True)
        columns: dict[str, Array] = {name: index.ravel() for name, index in places}
        columns["rows"] = self.rows.ravel()
        for name, estimate in self.estimates.items():
            for end, values in zip(("", "_se", "_exact"), estimate, strict=True):
                if not (end and np.isnan(values).all()):
                    columns[f"{name}{end}"] = values.ravel()
        return columns


def diagnose(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    scaling: Rule = SCALED,
    mask: Mask | None = None,
    *,
    axes: Sequence[str] | None = None,
    exact: bool = True,
) -> Diagnosis:
    """The effect of a scale on each head, and how far q and k are from independent normal entries.

    `sdpa.tools.diagnosis.QUANTITIES` has the meaning and the formula of every quantity. Rows of a query
    that sees fewer than two keys do not count. Memory beside the arguments: one head of one
    sequence in double precision, a few bytes for each pair of a query and a key, 100 bytes for each
    query of all heads, and 40 MiB.

    Args:
        q: queries, (..., n_queries, d_k), before any scale; any real type.
        k: keys, (..., n_keys, d_k). The axis `head` may be shorter than that of q by a whole factor:
            consecutive heads of q share one of k, as in grouped-query attention.
        scaling: a rule such as `d_k^1/2`, or the divisor itself.
        mask: a name of `sdpa.masks`, such as `causal`, where the last query sees every key; or an
            array, broadcast to (..., n_queries, n_keys), of booleans (True: may attend) or of 0 and
            -10,000 or less. Queries and keys that no counted row uses may be any padding.
        axes: names of the leading axes of q. By default `head`; `batch`, `head`; or `layer`,
            `batch`, `head`. Standard errors come from the independent sequences along `batch`.
        exact: False leaves out the Gaussian values, which take most of the time of many heads.

    Raises:
        ValueError: shapes, names or the mask do not fit, or a number that counts is beyond 1e70.

    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.standard_normal((2, 5, 3, 32, 64))  # 5 sequences, 3 heads
    >>> diagnosis = diagnose(q, k)
    >>> diagnosis.axes, diagnosis["max_weight"].value.round(2), diagnosis["max_weight"].gaussian.round(2)
    (('head',), array([0.18, 0.17, 0.17]), array([0.17, 0.17, 0.16]))
    >>> diagnosis["variance_ratio"].value.round(1)
    array([1., 1., 1.])
    """
    return diagnosis_of(Heads.of(q, k, mask, axes, scaling), has_exact=exact)


def diagnose_scores(
    scores: npt.ArrayLike, mask: Mask | None = None, *, axes: Sequence[str] | None = None
) -> Diagnosis:
    """The diagnosis of scores as they reach the softmax, (..., n_queries, n_keys), after every
    divisor, bias and cap.

    It lacks the quantities that need q and k. Gaussian rows beside it have one spread for all rows
    of a head. A score of -inf hides its key, as a mask does; other arguments and errors as in
    `diagnose`.

    >>> scores = np.random.default_rng(0).standard_normal((3, 32, 32))  # 3 heads
    >>> result = diagnose_scores(scores)
    >>> result["max_weight"].value.round(2), result["max_weight"].gaussian.round(2), "q_std" in result.estimates
    (array([0.16, 0.16, 0.16]), array([0.16, 0.17, 0.16]), False)
    """
    return diagnosis_of(Heads.of_scores(scores, mask, axes))


def diagnosis_of(heads: Heads, *, has_exact: bool = True) -> Diagnosis:
    """The diagnosis of heads, where each document is a sequence."""
    known = [
        quantity
        for quantity in QUANTITIES
        if heads.k is not None or quantity.name not in VECTOR_QUANTITIES
    ]
    rows = [[sequence.measured() for sequence in sequences] for sequences in heads.by_head()]
    return estimates_of(known, heads, rows, report, has_exact=has_exact)


def estimates_of(
    quantities: Sequence[Quantity],
    heads: Heads,
    measured: Sequence[Sequence[HeadRows]],
    report: Callable[[Sequence[Row]], str],
    *,
    has_exact: bool = False,
) -> Diagnosis:
    """The quantities of heads from the rows of the sequences of each; ValueError for a head without
    rows.

    Quantities of sums have standard errors from 2 sequences, by the jackknife (Efron and Stein
    1981, Ann. Statist. 9:586).
    """

    def of(name: str) -> FloatArray:
        """By sequence and head."""
        return np.transpose(
            [[sequence.sums[name] for sequence in sequences] for sequences in measured]
        )

    has_rows = of("rows").any(axis=1)
    sums = {}  # of all sequences with rows first, then without each of them
    for name in measured[0][0].sums:
        by_sequence = of(name)[has_rows]
        total = by_sequence.sum(axis=0)
        sums[name] = np.array([total, *(total - by_sequence)])
    shape = tuple(heads.shape.values())
    rows = sums["rows"][0].reshape(shape)
    if not rows.all():
        first = np.argwhere(rows == 0)[0].tolist()
        hint = (
            "; if float16 rounds weights w to 0, np.maximum(w, 6e-8) shows their keys, for a lower "
            "spread"
        )
        raise ValueError(
            "expected a query that sees two keys or more in each head, got none in "
            f"{np.count_nonzero(rows == 0)} of {rows.size}, the first {', '.join(heads.shape)} {first}"
            f"{hint if heads.k is None else ''}"
        )
    exact = [gaussian_values(head) if has_exact else {} for head in measured]
    estimates = {}
    for quantity in quantities:
        by_head = np.array([quantity.head_value(head) for head in measured])
        with np.errstate(divide="ignore", invalid="ignore"):  # a sequence may have no rows
            value, *others = quantity.of(sums) if quantity.of else (by_head, by_head * np.nan)
            error = np.sqrt((len(others) - 1) * np.var(others, axis=0))
        gaussian = np.array([values.get(quantity.name, np.nan) for values in exact])
        estimates[quantity.name] = Estimate(*(x.reshape(shape) for x in (value, error, gaussian)))
    sequences, n_keys = int(has_rows.sum()), heads.longest[-1]
    return Diagnosis(tuple(heads.shape), sequences, rows, heads.divisor, n_keys, estimates, report)


def gaussian_values(sequences: Sequence[HeadRows]) -> dict[str, float]:
    """Means over rows of independent normal scores of variances proportional to
    `independent_variance`, with a given mean; by name.

    The variance found
    in a row would be no better: among few keys it varies by chance, and rows in which it is large
    are also those with a large weight.
    """
    n, independent, variances = (
        values_of(sequences, name) for name in ("n_visible", "independent_variance", "row_variance")
    )
    variance = (variances * n / (n - 1)).mean()
    sigma = np.sqrt(variance * independent / (independent.mean() or 1.0))
    row_values = gaussian_rows(np.minimum(sigma, LARGEST_SIGMA), n)
    max_weight, entropy, square, saturated = row_values.T
    return {
        "max_weight": max_weight.mean(),
        "entropy": entropy.mean(),
        "entropy_share": (entropy / np.log(n)).mean(),
        "saturated_rows": saturated.mean(),
        "jacobian_norm": np.sqrt(square.mean()),
    }
