"""`diagnose` against plain loops over rows with explicit softmax and Jacobian, and against
Gaussian rows.
"""

import tracemalloc
from math import log, nan, sqrt

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from sdpa import compare, diagnose, diagnose_scores
from sdpa.masks import allowed_keys
from sdpa.theory.gaussian_rows import gaussian_rows
from sdpa.tools.diagnosis.quantities import VECTOR_QUANTITIES
from tests.numerics import Tensor, normals
from tests.plain_attention import dot, softmax_of_row
from tests.plain_rows import of_row
from tests.tools.command import sdpa

D_K = 5


def plain_diagnosis(sequences, divisor):
    """All quantities of one head, from (q, k, visible) of each sequence; rows of two keys and more."""
    rows, lengths, used_q, used_k, places, received, of_first = [], [], [], [], [], 0.0, 0.0
    for q, k, visible in sequences:
        counts = visible.sum(axis=1) >= 2
        used = visible[counts].any(axis=0)
        of_keys = np.zeros(len(k))
        for query, sees in zip(q[counts], visible[counts], strict=True):
            rows.append(k[sees] @ query / divisor)
            lengths.append(dot(query, query) * (k[sees] ** 2).sum(axis=1).mean())
            of_keys[sees] += softmax_of_row(rows[-1])
        of_keys = of_keys[used.argmax() :]
        places.append(int(of_keys.argmax()))
        received += of_keys.max()
        of_first += of_keys[0]
        used_q.append(q[counts])
        used_k.append(k[used])
    q, k, d_k = np.concatenate(used_q), np.concatenate(used_k), q.shape[1]
    spread, length = np.mean([row.var(ddof=1) for row in rows]), np.mean(lengths)
    of_entries = d_k * q.var() * k.var()
    metrics = pd.DataFrame([of_row(row.tolist())[0] for row in rows])
    means = metrics.mean()
    unit_divisor = divisor * sqrt(means["row_variance"])
    agreed = [place for place in places if 2 * places.count(place) > len(places)]
    plain = "row_variance", "max_weight", "entropy", "saturated_rows"
    return {name: means[name] for name in plain} | {
        "spread": sqrt(means["row_variance"]),
        "q_std": q.std(),
        "k_std": k.std(),
        "variance_ratio": spread / (of_entries / divisor**2),
        "length_effect": length / (d_k * of_entries),
        "alignment_effect": spread / (length / d_k / divisor**2),
        "largest_absolute_score": max(abs(row).max() for row in rows),
        "entropy_share": (metrics["entropy"] / np.log([*map(len, rows)])).mean(),
        "jacobian_norm": sqrt(means["jacobian_norm"]),
        "jacobian_norm_median": (metrics["jacobian_norm"] ** 0.5).median(),
        "first_key_weight": of_first / len(rows),
        "most_attended_key": float(agreed[0]) if agreed else nan,
        "most_attended_share": received / len(rows),
        "unit_divisor": unit_divisor,
        "unit_exponent": log(unit_divisor) / log(d_k),
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
    monkeypatch.setattr("sdpa.tools.diagnosis.head_rows._TILE", 2**5)
    shape_q, shape_k, mask, scaling, scale = CASES[name]
    q, k = inputs(shape_q, shape_k, scale)
    if mask is PADDED:
        k[..., ~PADDED.any(axis=0), :] = nan
    actual = diagnose(q, k, scaling, mask)
    of_q = q.reshape(actual.sequences, -1, *q.shape[-2:])
    of_k = k.reshape(actual.sequences, -1, *k.shape[-2:])
    group = of_q.shape[1] // of_k.shape[1]
    visible = allowed_keys(mask, (q.shape[-2], k.shape[-2]))
    for head in range(of_q.shape[1]):
        pairs = zip(of_q[:, head], of_k[:, head // group], strict=True)
        expected = plain_diagnosis([(*pair, visible) for pair in pairs], actual.divisor)
        got = {name: estimate.value.ravel()[head] for name, estimate in actual.estimates.items()}
        assert got == pytest.approx(expected, rel=1e-10, abs=1e-10, nan_ok=True)


def test_rounding_noise_is_no_variance():
    q, k = inputs((3, 7, D_K), (3, 11, D_K))
    for keys in (np.repeat(k[:, :1], 11, axis=1), np.full_like(k, 0.3)):
        same = diagnose(q, keys, exact=False)
        assert (same["row_variance"].value == 0).all()
        for name in ("variance_ratio", "unit_divisor"):
            assert np.isnan(same[name].value).all()


def test_tensors_of_bfloat16_and_with_gradients_are_read():
    q, k = inputs((3, 7, D_K), (3, 11, D_K))
    actual = diagnose(*(Tensor(array.astype("f4")) for array in (q, k)))
    assert_allclose(actual["q_std"].value, q.std((1, 2)), rtol=1e-6)


def test_a_result_prints_as_the_command_does_and_is_a_table():
    q, k = inputs((2, 3, 12, D_K), (2, 3, 12, D_K))
    for name, keys in {"a": k, "b": k.round()}.items():
        np.savez(f"{name}.npz", q=q, k=keys)
    actual, other = diagnose(q, k), compare((q, k), (q, k.round()))
    for result, words in (actual, "diagnose a.npz"), (other, "compare a.npz b.npz"):
        assert str(result) in sdpa(*words.split()).stdout
        table = result.to_pandas()
        assert table["head"].tolist() == [0, 1, 2]
        for name in result.estimates:
            assert_allclose(table[name], result[name].value)
    assert f"{actual['entropy_share'].value.min():.2f} (–)" in str(diagnose(q, k, exact=False))
    with pytest.raises(KeyError, match=r"expected one of divergence, .* got 'spread_rat'; did you"):
        other["spread_rat"]


def test_shapes_and_axes_that_do_not_fit_are_refused():
    for shape, message in {
        (
            4,
            3,
            4,
        ): r"as many heads in q as .*, got q \(head, n, d_k\) = \(4, 3, 4\) and k \(3",
        (3, 4): r"got q \(n, d_k\) = \(3, 4\) and k \(3, 5, 4\)$",
    }.items():
        with pytest.raises(ValueError, match=message):
            diagnose(np.zeros(shape), np.zeros((3, 5, 4)))
    with pytest.raises(
        ValueError, match=r"expected 0 different names, .* q \(3, 4\) .*, got head$"
    ):
        diagnose(np.zeros((3, 4)), np.zeros((5, 4)), axes=["head"])


SOME = np.ones((8, 8), bool)
SOME[:, :2] = SOME[6, 1:] = False
CAUSAL = np.tri(8, dtype=bool)


@pytest.mark.parametrize(
    "visible, hidden, mask",
    [(CAUSAL, np.nan, "causal"), (SOME, 0, SOME), (SOME, -np.inf, None), (CAUSAL, -1e4, None)],
)
def test_scores_have_the_diagnosis_of_q_and_k(visible, hidden, mask):
    q, k = 2 * normals(2, 9, 3, 8, D_K, seed=3)  # 9 sequences, 3 heads
    scores = q @ k.swapaxes(-1, -2) / 3
    actual = diagnose_scores(np.where(visible, scores, hidden), mask)
    expected = diagnose(q, k, 3.0, visible)
    assert set(expected.estimates) - set(actual.estimates) == VECTOR_QUANTITIES
    assert actual.rows.tolist() == expected.rows.tolist()
    for name, (value, error, _) in actual.estimates.items():
        unit = 3.0 if name == "unit_divisor" else 1.0  # of these scores, beyond 3
        assert_allclose(value * unit, expected[name].value, rtol=1e-12)
        assert_allclose(error * unit, expected[name].error, rtol=1e-9)


def test_gaussian_rows_vary_as_the_squared_lengths():
    """Of q alone where all keys have one length; those of scores have one spread."""
    q, k = inputs((6, D_K), (9, D_K))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    scores = q @ k.T / sqrt(D_K)
    squares = (q**2).sum(axis=-1)
    variance = scores.var(axis=-1, ddof=1).mean()
    padded = np.pad(k, ((2, 0), (0, 0)), constant_values=np.nan)
    for actual, variances in (
        (diagnose(q, padded, mask=np.arange(11) >= 2), variance * squares / squares.mean()),
        (diagnose_scores(scores), [variance]),
    ):
        rows = gaussian_rows(np.sqrt(variances), np.full(len(variances), 9))
        largest, nats, square, saturated = rows.mean(axis=0)
        exact = {
            "max_weight": largest,
            "entropy": nats,
            "entropy_share": nats / log(9),
            "jacobian_norm": sqrt(square),
            "saturated_rows": saturated,
        }
        gaussian = {name: actual[name].gaussian for name in exact}
        assert gaussian == pytest.approx(exact, rel=5e-5)


def test_memory_is_a_few_bytes_a_pair_100_a_query_and_40_mib():
    n = 4096
    q = np.ones((n, 1), np.float32)
    tracemalloc.start()
    diagnose(q, q, mask="causal", exact=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 42 * 2**20 + 4 * n**2 + 100 * n
