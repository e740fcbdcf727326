"""`compare`: how far the attention of two runs is apart, in each head.

With w the weights of a row of run a and v those of run b, the divergence of Kullback and Leibler
(1951, Ann. Math. Statist. 22:79) is

    KL(a||b) = sum_j w_j ln(w_j / v_j) = sum_j (v_j - w_j - w_j r_j),   r_j = ln(v_j / w_j)

No term of the second sum is below 0: small divergences and those of saturated rows keep their
digits.
"""

from collections.abc import Sequence
from statistics import fmean

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from sdpa._arrays import FloatArray
from sdpa.scaling import SCALED, Rule
from sdpa.tools.diagnosis.estimates import Diagnosis, estimates_of
from sdpa.tools.diagnosis.head_rows import Head, HeadRows, Heads, Mask, prefixed_errors
from sdpa.tools.diagnosis.quantities import Quantity, row_mean
from sdpa.tools.listing import Row, listed, wrapped

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
        lambda sums: np.sqrt(sums["variance_b"] / sums["variance_a"]),
    ),
    row_mean("entropy_change", "entropy in b less that in a", "E[H(v) - H(w)]", "nats"),
)


def compare(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    scaling: Rule = SCALED,
    mask: Mask | None = None,
    *,
    axes: Sequence[str] | None = None,
) -> Diagnosis:
    """The differences in each head between the attention of two runs on the same input.

    `sdpa.tools.diagnosis.COMPARED` has the meaning and the formula of every quantity. One run may have
    quantised keys, another kernel, checkpoint or divisor. Rows of a query that sees fewer than two
    keys do not count, and neither do hidden keys. Standard errors are those of the jackknife
    between sequences, and NaN for a single one.

    Args:
        a, b: a tuple or list of q and k, as in `diagnose`, or an array of scores, as in
            `diagnose_scores`, with the same batch, heads, queries and keys; `a` is the reference.
        scaling, mask: as in `diagnose`. A scaling does not apply to scores; of two runs with different
            ones, pass scores, or multiply q.
        axes: as in `diagnose`.

    Raises:
        ValueError: `diagnose` or `diagnose_scores` refuses a or b, their scores have different
            shapes, or one of them hides a key that the other shows, which makes a divergence
            infinite.

    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.standard_normal((2, 5, 3, 32, 64))  # 5 sequences, 3 heads
    >>> differences = compare((q, k), (q, k.round()))
    >>> differences["divergence"].value.round(3), differences["same_largest_key"].value.round(2)
    (array([0.039, 0.038, 0.038]), array([0.69, 0.7 , 0.71]))
    """
    return compare_heads(_heads("a", a, scaling, mask, axes), _heads("b", b, scaling, mask, axes))


def _heads(
    name: str, run: npt.ArrayLike, scaling: Rule, mask: Mask | None, axes: Sequence[str] | None
) -> Heads:
    """The heads of a run; errors begin with its name."""
    with prefixed_errors(name):
        if not isinstance(run, tuple | list):
            return Heads.of_scores(run, mask, axes)
        q, k = run
        return Heads.of(q, k, mask, axes, scaling)


def compare_heads(a: Heads, b: Heads) -> Diagnosis:
    """As `compare`, from heads; each document is a sequence, as in a diagnosis."""
    sizes_a, sizes_b = (
        f"{heads.mask.shape} (documents: {len(heads.documents)})" for heads in (a, b)
    )
    if sizes_a != sizes_b:
        raise ValueError(
            f"expected scores of the same shape, got {sizes_a} in a and {sizes_b} in b"
        )
    rows = [
        [_rows(*pair) for pair in zip(*sequences, strict=True)]
        for sequences in zip(a.by_head(), b.by_head(), strict=True)
    ]
    return estimates_of(COMPARED, a, rows, report)


def report(table: Sequence[Row]) -> str:
    """The means over heads, and the heads that differ most."""
    means = [
        f"{quantity.name} {fmean(row[quantity.name] for row in table):.4g}" for quantity in COMPARED
    ]
    first = f"Mean over {len(table)} heads: {', '.join(means)}. Heads that differ most:"
    columns = {
        quantity.name: (
            f"{{{quantity.name}:.4g}}",
            f"{quantity.meaning}{', in ' if quantity.unit else ''}{quantity.unit}",
        )
        for quantity in COMPARED
    }
    heads = sorted(table, key=lambda row: -row["divergence"])
    return f"{wrapped(first)}\n\n{listed(heads, columns)}"


def _rows(a: Head, b: Head) -> HeadRows:
    """The values of the rows of a head in a sequence."""
    if not np.array_equal(a.visible, b.visible):
        raise ValueError(
            "expected a and b to hide the same keys, got one that is hidden in a or b alone, where "
            "a divergence is infinite; if float16 rounds small weights w to 0, save np.maximum(w, 6e-8)"
        )
    tiles = []
    for tile_a, tile_b in zip(a.tiles(), b.tiles(), strict=True):
        s, t = tile_a.scores, tile_b.scores
        in_a, in_b = tile_a.values(s), tile_b.values(t)
        tiles.append(
            {
                "rows": in_a["rows"],
                "divergence": divergence(s / a.divisor, t / b.divisor),
                "variance_a": in_a["row_variance"],
                "variance_b": in_b["row_variance"],
                "same_largest_key": s.argmax(axis=-1) == t.argmax(axis=-1),
                "entropy_change": in_b["entropy"] - in_a["entropy"],
            }
        )
    return HeadRows.of(tiles)


def divergence(s: FloatArray, t: FloatArray) -> FloatArray:
    """KL(w||v) of rows in nats, (rows,), for w = softmax(s) and v = softmax(t) of scores (rows,
    n_keys) that are -inf for the same keys.
    """
    log_w, log_v = (log_softmax(scores, axis=-1) for scores in (s, t))
    w, v = np.exp(log_w), np.exp(log_v)
    r = np.subtract(log_v, log_w, out=np.zeros_like(w), where=s > -np.inf)
    difference = (v + w) * np.tanh(r / 2)  # v - w, with the digits of a small r
    # rounding may leave a term just below 0
    divergences: FloatArray = np.maximum(difference - w * r, 0.0).sum(axis=-1)
    return divergences
