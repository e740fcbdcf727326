"""`compare`: how far the attention of two runs is apart, in each head.

With w the weights of a row of run a and v those of run b, the divergence of Kullback and Leibler
(1951, Ann. Math. Statist. 22:79) is

    KL(a||b) = sum_j w_j ln(w_j / v_j) = sum_j (v_j - w_j - w_j r_j),   r_j = ln(v_j / w_j)

No term of the second sum is below 0: small divergences and those of saturated rows keep their
digits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from sdpa._arrays import FloatArray
from sdpa.diagnosis.estimates import (
    BATCH,
    Estimate,
    Estimates,
    counted,
    with_error,
)
from sdpa.diagnosis.head_rows import Heads, Mask, label
from sdpa.diagnosis.quantities import Quantity, Sums, ratio, row_mean
from sdpa.diagnostics import row_diagnostics
from sdpa.scaling import Rule, resolve_divisor

# With s and t the scaled scores of a row of a and of b, and w and v their softmax.
COMPARED = (
    row_mean("divergence", "divergence of the weights", "E KL(a||b)", "nats"),
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


def compare(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    scaling: Rule = "d_k^1/2",
    mask: Mask | None = None,
    *,
    scaling_b: Rule | None = None,
    axes: Sequence[str] | None = None,
) -> Estimates:
    """The differences in each head between the attention of two runs on the same input.

    `sdpa.diagnosis.COMPARED` has the meaning and the formula of every quantity. One run may have
    quantised keys, another kernel, checkpoint or divisor. Rows of a query that sees fewer than two
    keys do not count, and neither do hidden keys. Standard errors are those of the jackknife
    between sequences, and NaN for a single one.

    Args:
        a, b: a tuple or list of q and k, as in `diagnose`, or an array of scores, as in
            `diagnose_scores`, with the same batch, heads, queries and keys; `a` is the reference.
        scaling, mask: as in `diagnose`. A scaling does not apply to scores.
        scaling_b: that of b, if it differs.
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
    of_b, divisor_b = _heads("b", b, scaling_b or scaling, mask, axes)
    if of_a.mask.shape != of_b.mask.shape:
        raise ValueError(
            f"expected scores of the same shape, got {of_a.mask.shape} in a and {of_b.mask.shape} "
            "in b"
        )
    found: dict[str, FloatArray] = defaultdict(lambda: np.zeros(of_a.shape))
    for index in np.ndindex(of_a.shape):
        heads = of_a.head(index), of_b.head(index)
        if not np.array_equal(heads[0].visible, heads[1].visible):
            raise ValueError(
                "expected a and b to hide the same keys, got one that is hidden in a or b "
                f"alone, where a divergence is infinite{label(of_a.axes, index)}"
            )
        for (_, s), (_, t) in zip(*(head.tiles() for head in heads), strict=True):
            for name, values in _values(s / divisor_a, t / divisor_b).items():
                found[name][index] += values.sum()
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
    of_a, of_b = (row_diagnostics(scores, 1.0, with_variance=True) for scores in (s, t))
    return {
        "rows": np.ones(len(s)),
        "divergence": divergence(s, t),
        "variance_a": of_a.row_variance,
        "variance_b": of_b.row_variance,
        "same_largest_key": s.argmax(axis=-1) == t.argmax(axis=-1),
        "entropy_change": of_b.entropy - of_a.entropy,
    }


def divergence(s: FloatArray, t: FloatArray) -> FloatArray:
    """KL(w||v) of rows in nats, (rows,), for w = softmax(s) and v = softmax(t) of scores (rows,
    n_keys) that are -inf for the same keys.
    """
    log_w, log_v = (log_softmax(scores, axis=-1) for scores in (s, t))
    w, v = np.exp(log_w), np.exp(log_v)
    r = np.subtract(log_v, log_w, out=np.zeros_like(w), where=s > -np.inf)
    difference = (v + w) * np.tanh(r / 2)  # v - w, with the digits of a small r
    # rounding may leave a term just below 0
    return np.asarray(np.maximum(difference - w * r, 0.0).sum(axis=-1))


def _comparison(found: dict[str, FloatArray], axes: tuple[str, ...]) -> Estimates:
    """From sums over the rows of each sequence and head, by name."""
    sequences_first = (
        np.moveaxis(values, axes.index(BATCH), 0) if BATCH in axes else values[None]
        for values in found.values()
    )
    sums = Sums(dict(zip(found, sequences_first, strict=True)))
    kept = tuple(name for name in axes if name != BATCH)
    rows = counted(sums.together(), kept, sums.by_name["rows"].shape[1:])
    unknown = np.full(rows.shape, np.nan)
    estimates = {
        each.name: Estimate(*with_error(each.of, sums), unknown) for each in COMPARED if each.of
    }
    return Estimates(kept, len(sums.by_name["rows"]), rows, estimates)
