"""`compare`: how far the attention of two runs is apart, in each head.

With w the weights of a row of run a and v those of run b, the divergence of Kullback and Leibler
(1951, Ann. Math. Statist. 22:79) is

    KL(a||b) = sum_j w_j ln(w_j / v_j) = sum_j (v_j - w_j - w_j r_j),   r_j = ln(v_j / w_j)

No term of the second sum is below 0: small divergences and those of saturated rows keep their
digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from sdpa._arrays import FloatArray
from sdpa.diagnosis.estimates import BATCH, Estimate, Estimates, of_sums
from sdpa.diagnosis.heads import Heads, Mask, label
from sdpa.diagnosis.quantities import Quantity, Sums, ratio, row_mean
from sdpa.diagnostics import row_diagnostics
from sdpa.metrics import row_variance
from sdpa.scaling import Rule, resolve_divisor

# With s and t the scaled scores of a row of a and of b, and w and v their softmax. Correlation and
# ratio are NaN where the scores of each row are equal.
COMPARED = (
    row_mean("divergence", "divergence of the weights", "E KL(a||b)", "nats"),
    row_mean("reverse_divergence", "that in the other direction", "E KL(b||a)", "nats"),
    Quantity(
        "score_correlation",
        "correlation of scores within rows",
        "E cov(s, t) / sqrt(E var(s) E var(t))",
        lambda sums: ratio(
            sums.mean("covariance"),
            np.sqrt(sums.mean("variance_a") * sums.mean("variance_b")),
        ),
    ),
    row_mean(
        "same_largest_key",
        "1 if the first of the largest scores is that of the same key",
        "P(argmax s = argmax t)",
    ),
    Quantity(
        "spread_ratio",
        "root mean square deviation of scores within rows, in b over that in a",
        "sqrt(E var(t) / E var(s))",
        lambda sums: np.sqrt(ratio(sums.mean("variance_b"), sums.mean("variance_a"))),
    ),
    row_mean("entropy_change", "entropy in b less that in a", "E[H(v) - H(w)]", "nats"),
)


@dataclass(frozen=True, repr=False)
class Comparison(Estimates):
    """The quantities of `COMPARED` for each head; `str` has at most three sentences."""

    def __str__(self) -> str:
        value, error, _ = self["divergence"]
        form = "{:.3g} ± {:.1g}{}" if self.sequences > 1 else "{0:.3g}{2}"
        worst = sorted(np.ndindex(value.shape), key=lambda index: -value[index])[:3]
        heads = [form.format(value[at], error[at], label(self.axes, at)) for at in worst]
        mean = partial(np.average, weights=self.rows)
        # small differences stay visible: no share or correlation rounds to 100%
        return (
            f"The mean divergence of rows KL(a||b) is {mean(value):.3g} nats, and that of the worst "
            f"heads {'; '.join(heads)}{' (no errors: one sequence)' * (self.sequences == 1)}. The "
            f"largest key differs in {100 * (1 - mean(self['same_largest_key'].value)):.3g}% of "
            "rows, and the correlation of scores within rows is "
            f"{abs(1 - mean(self['score_correlation'].value)):.2g} below 1. From a to b, the spread "
            f"of scores changes by {100 * (mean(self['spread_ratio'].value) - 1):+.3g}% and the "
            f"entropy by {mean(self['entropy_change'].value):+.2g} nats."
        )


def compare(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    scaling: Rule = "d_k^1/2",
    mask: Mask | None = None,
    *,
    scaling_b: Rule | None = None,
    mask_b: Mask | None = None,
    axes: Sequence[str] | None = None,
) -> Comparison:
    """The differences in each head between the attention of two runs on the same input.

    `sdpa.diagnosis.COMPARED` has the meaning and the formula of every quantity. One run may have
    quantised keys, another kernel, checkpoint or divisor. Rows of a query that sees fewer than two
    keys do not count, and neither do hidden keys. Standard errors are those of the jackknife
    between sequences, and NaN for a single one. Memory is that of the arguments, of one head of
    both in double precision, and of tiles of a million scores, which take 160 MB.

    Args:
        a, b: a tuple or list of q and k, as in `diagnose`, or an array of scores, as in
            `diagnose_scores`, with the same batch, heads, queries and keys; `a` is the reference.
        scaling, mask: as in `diagnose`. A scaling does not apply to scores.
        scaling_b, mask_b: those of b, if they differ; `none` for no mask.
        axes: as in `diagnose`.

    Raises:
        ValueError: `diagnose` or `diagnose_scores` refuses a or b, their scores have different
            shapes, or one of them hides a key that the other shows, which makes a divergence
            infinite.

    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.standard_normal((2, 5, 3, 32, 64))  # 5 sequences, 3 heads
    >>> found = compare((q, k), (q, k.round()))
    >>> found["divergence"].value.round(3), found["same_largest_key"].value.round(2)
    (array([0.039, 0.038, 0.038]), array([0.69, 0.7 , 0.71]))
    """
    of_a, divisor_a = _heads("a", a, scaling, mask, axes)
    scaling_b = scaling if scaling_b is None else scaling_b
    of_b, divisor_b = _heads("b", b, scaling_b, mask if mask_b is None else mask_b, axes)
    shape, other = ((*heads.q.shape[:-1], heads.n_keys) for heads in (of_a, of_b))
    if shape != other:
        raise ValueError(f"expected scores of the same shape, got {shape} in a and {other} in b")
    found: dict[str, FloatArray] = {}
    for index in of_a.indices():
        for s, t in zip(of_a.scores(index, divisor_a), of_b.scores(index, divisor_b), strict=True):
            visible = s > -np.inf
            if not np.array_equal(visible, t > -np.inf):
                raise ValueError(
                    "expected a and b to hide the same keys, got one that is hidden in a or b "
                    f"alone, where a divergence is infinite{label(of_a.axes, index)}"
                )
            counted = visible.any(axis=-1)
            for name, values in _values(s[counted], t[counted]).items():
                total = found.setdefault(name, np.zeros(of_a.shape))
                total[index] += values.sum()
    return _comparison(found, of_a.axes)


def _heads(
    name: str,
    run: npt.ArrayLike,
    scaling: Rule,
    mask: Mask | None,
    axes: Sequence[str] | None,
) -> tuple[Heads, float]:
    """The heads of a run and its divisor; errors begin with its name."""
    if isinstance(run, tuple | list) and len(run) != 2:
        raise ValueError(f"{name}: expected q and k, or an array of scores, got {len(run)} arrays")
    try:
        if not isinstance(run, tuple | list):
            return Heads.of_scores(run, mask, axes), 1.0
        q, k = run
        heads = Heads.of(q, k, mask, axes)
        return heads, resolve_divisor(scaling, heads.q.shape[-1], heads.n_keys, mask)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _values(s: FloatArray, t: FloatArray) -> dict[str, FloatArray]:
    """The values of rows whose sums count, by name, from scaled scores of a and b."""
    of_a = row_diagnostics(s, 1.0, with_variance=True)
    of_b = row_diagnostics(t, 1.0, with_variance=True)
    forward, backward = divergences(s, t)
    return {
        "rows": np.ones(len(s)),
        "divergence": forward,
        "reverse_divergence": backward,
        "variance_a": of_a.row_variance,
        "variance_b": of_b.row_variance,
        "covariance": (row_variance(s + t) - of_a.row_variance - of_b.row_variance) / 2,
        "same_largest_key": s.argmax(axis=-1) == t.argmax(axis=-1),
        "entropy_change": of_b.entropy - of_a.entropy,
    }


def divergences(s: FloatArray, t: FloatArray) -> FloatArray:
    """KL(w||v) and KL(v||w) of rows in nats, (2, rows), for w = softmax(s) and v = softmax(t) of
    scores (rows, n_keys) that are -inf for the same keys.
    """
    log_w = log_softmax(s, axis=-1)
    log_v = log_softmax(t, axis=-1)
    w = np.exp(log_w)
    v = np.exp(log_v)
    r = np.subtract(log_v, log_w, out=np.zeros_like(w), where=s > -np.inf)
    difference = (v + w) * np.tanh(r / 2)  # v - w, with the digits of a small r
    terms = [difference - w * r, v * r - difference]
    # rounding may leave a term just below 0
    return np.asarray(np.maximum(terms, 0.0).sum(axis=-1))


def _comparison(sums: dict[str, FloatArray], axes: tuple[str, ...]) -> Comparison:
    """From sums over the rows of each sequence and head, by name."""
    by_name = {
        name: np.moveaxis(values, axes.index(BATCH), 0) if BATCH in axes else values[None]
        for name, values in sums.items()
    }
    rows = np.asarray(by_name["rows"].sum(axis=0), int)
    kept = tuple(name for name in axes if name != BATCH)
    if not rows.all():
        raise ValueError(
            "mask: expected a query that sees two keys or more, got none"
            f"{label(kept, np.argwhere(rows == 0)[0])}"
        )
    totals = Sums(by_name, {}, 1, 1.0)
    unknown = np.full(rows.shape, np.nan)
    estimates = {
        each.name: Estimate(*of_sums(each.of, totals), unknown) for each in COMPARED if each.of
    }
    return Comparison(kept, len(by_name["rows"]), rows, estimates)
