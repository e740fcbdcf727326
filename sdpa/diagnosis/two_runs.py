"""`compare`: how far the attention of two runs is apart, in each head.

With w the weights of a row of run a and v those of run b, the divergence of Kullback and Leibler
(1951, Ann. Math. Statist. 22:79) is

    KL(a||b) = sum_j w_j ln(w_j / v_j) = sum_j (v_j - w_j - w_j r_j),   r_j = ln(v_j / w_j)

No term of the second sum is below 0: small divergences and those of saturated rows keep their
digits.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from sdpa._arrays import FloatArray
from sdpa.diagnosis.estimates import Estimates, counted, estimates_of
from sdpa.diagnosis.head_rows import Head, Heads, Mask
from sdpa.diagnosis.quantities import Quantity, Sums, ratio, row_mean
from sdpa.metrics import row_variance
from sdpa.scaling import Rule, resolve_divisor
from sdpa.softmax_rows import row_diagnostics

# With s and t the scaled scores of a row of a and of b, and w and v their softmax.
COMPARED = (
    row_mean(
        "divergence",
        "Kullback-Leibler divergence of the weights of b from those of a, 0 for equal ones",
        "E KL(a||b)",
        "nats",
    ),
    row_mean(
        "same_largest_key",
        "1 if the first of the largest scores is that of the same key",
        "P(argmax s = argmax t)",
    ),
    Quantity(
        "spread_ratio",
        "standard deviation of the divided scores of a row, in b over that in a",
        "sqrt(E var(t) / E var(s))",
        lambda sums: np.sqrt(ratio(sums.mean("variance_b"), sums.mean("variance_a"))),
    ),
    row_mean("entropy_change", "entropy in b less that in a", "E[H(v) - H(w)]", "nats"),
)

_SUMMED = ("rows", "divergence", "variance_a", "variance_b", "same_largest_key", "entropy_change")


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
    of_a = _heads("a", a, scaling, mask, axes)
    of_b = _heads("b", b, scaling if scaling_b is None else scaling_b, mask, axes)
    return compare_heads([of_a[0]], of_a[1], [of_b[0]], of_b[1])


def _heads(
    name: str, run: npt.ArrayLike, scaling: Rule, mask: Mask | None, axes: Sequence[str] | None
) -> tuple[Heads, float]:
    """The heads of a run and their divisor; errors begin with its name."""
    arrays = run if isinstance(run, tuple | list) else (run, None)
    if len(arrays) != 2:
        raise ValueError(
            f"{name}: expected q and k, or an array of scores, got {len(arrays)} arrays"
        )
    try:
        heads = Heads.of(arrays[0], arrays[1], mask, axes)
        if heads.d_k is None:
            return heads, 1.0
        return heads, resolve_divisor(scaling, heads.d_k, heads.mask.shape[-1], mask)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def compare_heads(
    a: Sequence[Heads], divisor_a: float, b: Sequence[Heads], divisor_b: float
) -> Estimates:
    """As `compare`, from heads and their divisors; documents are parts, as in a diagnosis."""
    shapes = [[heads.mask.shape for heads in run] for run in (a, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            "expected scores of the same shape, got {} in a and {} in b".format(
                *(", ".join(map(str, one)) for one in shapes)
            )
        )
    found = []
    for head in np.ndindex(a[0].shape):
        of_a, of_b = ([one for part in run for one in part.of_head(head)] for run in (a, b))
        found.append([_sums(*pair, divisor_a, divisor_b) for pair in zip(of_a, of_b, strict=True)])
    sums = Sums.of(found)
    rows = counted(sums, a[0])
    return Estimates(a[0].axes, len(found[0]), rows, estimates_of(COMPARED, sums, rows.shape))


def _sums(a: Head, b: Head, divisor_a: float, divisor_b: float) -> dict[str, float]:
    """The sums over the rows of a head in a sequence, by name."""
    if not np.array_equal(a.visible, b.visible):
        raise ValueError(
            "expected a and b to hide the same keys, got one that is hidden in a or b alone, where "
            "a divergence is infinite"
        )
    total = dict.fromkeys(_SUMMED, 0.0)
    for (_, of_a), (_, of_b) in zip(a.tiles(), b.tiles(), strict=True):
        s, t = of_a / divisor_a, of_b / divisor_b
        in_a, in_b = (row_diagnostics(scores, 1.0) for scores in (s, t))
        of_rows = (
            np.ones(len(s)),
            divergence(s, t),
            row_variance(s),
            row_variance(t),
            s.argmax(axis=-1) == t.argmax(axis=-1),
            in_b.entropy - in_a.entropy,
        )
        for name, values in zip(_SUMMED, of_rows, strict=True):
            total[name] += float(values.sum())
    return total


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
