"""`diagnose` against plain loops over rows with explicit softmax and Jacobian, and against
Gaussian rows.
"""

import math
import tracemalloc
from statistics import fmean, median, pstdev, pvariance, variance

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sdpa import diagnose, diagnose_scores, theory
from sdpa.diagnosis.quantities import OF_VECTORS
from sdpa.masks import allowed_keys
from tests.numerics import normals
from tests.plain_attention import dot, softmax_of_row
from tests.plain_rows import of_row

D_K = 5


def only(values, seen):
    return [value for value, is_seen in zip(values, seen, strict=True) if is_seen]


def plain_row(query, keys, sees, divisor):
    """The scores of the visible keys, the weights of all keys, and |q|^2 times the mean of |k|^2."""
    visible = only(keys, sees)
    scores = [dot(query, key) / divisor for key in visible]
    weights = np.zeros(len(keys))
    weights[np.array(sees)] = softmax_of_row(scores)
    return scores, weights, dot(query, query) * fmean(dot(key, key) for key in visible)


def plain_diagnosis(sequences, divisor):
    """All quantities of one head, from (q, k, visible) of each sequence as nested lists."""
    rows, q, k, places, received, of_first = [], [], [], [], 0.0, 0.0
    for queries, keys, visible in sequences:
        counts = [sum(sees) >= 2 for sees in visible]
        pairs = only(list(zip(queries, visible, strict=True)), counts)
        of_sequence = [plain_row(query, keys, sees, divisor) for query, sees in pairs]
        rows += of_sequence
        used = [any(column) for column in zip(*(sees for _, sees in pairs), strict=True)]
        first = used.index(True)
        of_keys = sum(weights[first:] for _, weights, _ in of_sequence)
        places.append(int(of_keys.argmax()))
        received += of_keys.max()
        of_first += of_keys[0]
        q += [x for query, _ in pairs for x in query]
        k += [x for key in only(keys, used) for x in key]
    scores, _, lengths = zip(*rows, strict=True)
    d_k, count = len(sequences[0][0][0]), len(rows)
    spread = fmean(map(variance, scores))
    of_entries = d_k * pvariance(q) * pvariance(k)
    of_rows = [of_row(row)[0] for row in scores]
    metrics = {name: [row[name] for row in of_rows] for name in of_rows[0]}
    means = {name: fmean(values) for name, values in metrics.items()}
    unit_divisor = divisor * math.sqrt(means["row_variance"])
    shares = [h / math.log(len(s)) for h, s in zip(metrics["entropy"], scores, strict=True)]
    agreed = [place for place in places if 2 * places.count(place) > len(places)]
    plain = "row_variance", "max_weight", "entropy", "saturated_rows"
    return {name: means[name] for name in plain} | {
        "q_std": pstdev(q),
        "k_std": pstdev(k),
        "variance_ratio": spread / (of_entries / divisor**2),
        "length_effect": fmean(lengths) / (d_k * of_entries),
        "alignment_effect": spread / (fmean(lengths) / d_k / divisor**2),
        "largest_absolute_score": max(abs(s) for row in scores for s in row),
        "entropy_share": fmean(shares),
        "jacobian_norm": math.sqrt(means["jacobian_norm"]),
        "jacobian_norm_median": median(map(math.sqrt, metrics["jacobian_norm"])),
        "first_key_weight": of_first / count,
        "most_attended_key": float(agreed[0]) if agreed else math.nan,
        "most_attended_share": received / count,
        "unit_divisor": unit_divisor,
        "unit_exponent": math.log(unit_divisor) / math.log(d_k),
    }


def inputs(shape_q, shape_k, scale=1.0):
    return scale * normals(*shape_q), 0.3 + normals(*shape_k, seed=1)


PADDED = np.ones((7, 11), bool)  # padding on both sides, and query 1 sees a single key
PADDED[:, [0, 1, -1]] = PADDED[1, 3:] = PADDED[2, 2] = False


def case(shape_q, shape_k, mask, scaling="d_k^1/2", scale=1.0):
    return shape_q, shape_k, mask, scaling, scale


CASES = {
    "grouped": case((2, 4, 7, D_K), (2, 2, 7, D_K), "none"),
    "one head with cached keys": case((3, D_K), (11, D_K), "causal", 2.5),
    "padding": case((2, 7, D_K), (2, 11, D_K), PADDED),
    "saturated": case((2, 1, 13, D_K), (2, 1, 13, D_K), "window-5", "unscaled", 40.0),
    "nearly uniform": case((2, 7, D_K), (2, 13, D_K), "local-6", "d_k^1", 1e-9),
}


@pytest.mark.parametrize("name", CASES)
def test_every_quantity_is_that_of_plain_loops(name, monkeypatch):
    """In tiles of two or four rows."""
    monkeypatch.setattr("sdpa.diagnosis.head_rows._TILE", 2**5)
    shape_q, shape_k, mask, scaling, scale = CASES[name]
    q, k = inputs(shape_q, shape_k, scale)
    if mask is PADDED:
        k[..., ~PADDED.any(axis=0), :] = math.nan
    found = diagnose(q, k, scaling, mask)
    of_q = q.reshape(found.sequences, -1, *q.shape[-2:])
    of_k = k.reshape(found.sequences, -1, *k.shape[-2:])
    group = of_q.shape[1] // of_k.shape[1]
    visible = allowed_keys(mask, (q.shape[-2], k.shape[-2])).tolist()
    for head in range(of_q.shape[1]):
        queries = of_q[:, head].tolist()
        keys = of_k[:, head // group].tolist()
        sequences = [(*each, visible) for each in zip(queries, keys, strict=True)]
        expected = plain_diagnosis(sequences, found.divisor)
        got = {name: estimate.value.ravel()[head] for name, estimate in found.estimates.items()}
        assert got == pytest.approx(expected, rel=1e-10, abs=1e-10, nan_ok=True)


def test_rounding_noise_is_no_variance():
    q, k = inputs((3, 7, D_K), (3, 11, D_K))
    for keys in (np.repeat(k[:, :1], 11, axis=1), np.full_like(k, 0.3)):
        same = diagnose(q, keys, exact=False)
        assert (same["row_variance"].value == 0).all()
        for name in ("variance_ratio", "unit_divisor"):
            assert np.isnan(same[name].value).all()


def test_shapes_and_axes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="same leading axes, or as many heads in q as"):
        diagnose(np.zeros((4, 3, 4)), np.zeros((3, 5, 4)))
    with pytest.raises(ValueError, match="axes: expected a different name for each of 0 leading"):
        diagnose(np.zeros((3, 4)), np.zeros((5, 4)), axes=["head"])


SOME = np.ones((8, 8), bool)
SOME[:, :2] = SOME[6, 1:] = False
CAUSAL = np.tri(8, dtype=bool)


@pytest.mark.parametrize(
    ("visible", "hidden", "mask"),
    [(CAUSAL, np.nan, "causal"), (SOME, 0, SOME), (SOME, -np.inf, None), (CAUSAL, -1e4, None)],
)
def test_scores_have_the_diagnosis_of_q_and_k(visible, hidden, mask):
    q, k = 2 * normals(2, 9, 3, 8, D_K, seed=3)  # 9 sequences, 3 heads
    scores = q @ k.swapaxes(-1, -2) / 3
    found = diagnose_scores(np.where(visible, scores, hidden), mask)
    expected = diagnose(q, k, 3.0, visible)
    assert set(expected.estimates) - set(found.estimates) == OF_VECTORS
    assert found.rows.tolist() == expected.rows.tolist()
    for name, (value, error, _) in found.estimates.items():
        unit = 3.0 if name == "unit_divisor" else 1.0  # of these scores, beyond 3
        assert_allclose(value * unit, expected[name].value, rtol=1e-12)
        assert_allclose(error * unit, expected[name].error, rtol=1e-9)


def test_gaussian_rows_vary_as_the_squared_lengths():
    """Of q alone where all keys have one length; those of scores have one spread."""
    q, k = inputs((6, D_K), (9, D_K))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    scores = q @ k.T / math.sqrt(D_K)
    squares = (q**2).sum(axis=-1)
    variance = scores.var(axis=-1, ddof=1).mean()
    padded = np.pad(k, ((2, 0), (0, 0)), constant_values=np.nan)
    for found, variances in (
        (diagnose(q, padded, mask=np.arange(11) >= 2), variance * squares / squares.mean()),
        (diagnose_scores(scores), [variance]),
    ):
        rows = [theory.GaussianRow(math.sqrt(one), 9) for one in variances]
        nats = fmean(row.entropy() for row in rows)
        exact = {
            "max_weight": fmean(row.max_weight() for row in rows),
            "entropy": nats,
            "entropy_share": nats / math.log(9),
            "jacobian_norm": math.sqrt(fmean(row.jacobian_square() for row in rows)),
            "saturated_rows": fmean(row.remainder_below(math.log(0.01)) for row in rows),
        }
        gaussian = {name: found[name].gaussian for name in exact}
        assert gaussian == pytest.approx(exact, rel=5e-5)


def test_memory_is_a_few_bytes_a_pair_100_a_query_and_40_mib():
    n = 4096
    q = np.ones((n, 1), np.float32)
    tracemalloc.start()
    diagnose(q, q, mask="causal", exact=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 42 * 2**20 + 4 * n**2 + 100 * n
