"""The measuring kernel against the plain definition, row by row, and against hand-solved saturated
rows.
"""

import math

import numpy as np
import pytest

from sdpa import (
    causal_mask,
    diagnostics,
    row_diagnostics,
    row_tiles,
    row_variance,
    softmax,
    softmax_jacobian,
)

METRICS = ("max_weight", "entropy", "jacobian_trace", "jacobian_norm", "query_gradient_norm")


def plain(scores, keys, divisor):
    """The definitions of the design, with no thought for speed or saturation."""
    w = softmax(scores / divisor)
    jacobian = softmax_jacobian(w)
    return {
        "max_weight": w.max(),
        "entropy": -sum(x * math.log(x) for x in w if x > 0),
        "jacobian_trace": 1 - sum(w**2),
        "jacobian_norm": np.linalg.norm(jacobian),
        "query_gradient_norm": np.linalg.norm(keys.T @ jacobian) / divisor,
    }


def gradient_norm_in_long_double(scores, keys, divisor):
    """sqrt(sum w_i^2 |k_i - m|^2) / divisor of one row; keys from the one of the largest weight, so
    nothing cancels.
    """
    s, k = scores.astype(np.longdouble) / np.longdouble(divisor), keys.astype(np.longdouble)
    w = np.exp(s - s.max())
    w /= w.sum()
    k -= k[w.argmax()]
    return np.sqrt((w**2 * ((k - w @ k) ** 2).sum(axis=-1)).sum()) / np.longdouble(divisor)


@pytest.fixture(params=[True, False], ids=["distances", "vectors"])
def by_distances(request, monkeypatch):
    """Both ways to |dL/dq|, whichever is faster for the sizes."""
    monkeypatch.setattr(diagnostics, "takes_distances", lambda *_: request.param)


@pytest.mark.parametrize(("d_k", "spread"), [(3, 5.0), (11, 0.1)])
@pytest.mark.parametrize("tile", [5, 14, 1000])  # less than a row, two rows, everything at once
@pytest.mark.parametrize("n_keys", [7, 40])  # short rows and long ones: two routes of a dot product
@pytest.mark.usefixtures("by_distances")
def test_equals_the_plain_definition(d_k, spread, tile, n_keys, monkeypatch):
    monkeypatch.setattr(row_tiles, "_TILE_BYTES", 8 * tile)
    monkeypatch.setattr(row_tiles, "_PRODUCT_ROWS", 1)
    rng = np.random.default_rng(10)
    n_draws, n_queries = 2, 5
    scores = spread * rng.standard_normal((n_draws, n_queries, n_keys))
    keys = rng.standard_normal((n_draws, n_keys, d_k))
    divisors = [1.0, 2.5, 0.7]
    rows = row_diagnostics(scores, divisors, keys)
    assert row_diagnostics(scores, 2.5, keys).entropy.tolist() == rows.entropy[1].tolist()
    for i, draw, query in np.ndindex(len(divisors), n_draws, n_queries):
        expected = plain(scores[draw, query], keys[draw], divisors[i])
        got = {name: getattr(rows, name)[i, draw, query] for name in METRICS}
        assert got == pytest.approx(expected, rel=1e-10, abs=0)


@pytest.mark.parametrize(("n_keys", "d_k"), [(2, 1), (7, 11), (40, 11)])
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0, 300.0])
@pytest.mark.usefixtures("by_distances")
def test_the_gradient_norm_keeps_its_digits_in_any_row(n_keys, d_k, spread):
    """Rows with two equal scores at the top, or with the largest score hundreds of divisors above,
    too.
    """
    rng = np.random.default_rng(17)
    scores = spread * rng.standard_normal((2, 6, n_keys))
    keys = 5 + rng.standard_normal((2, n_keys, d_k))
    scores[:, 0, :2] = scores[:, 0].max(axis=-1, keepdims=True)
    scores[:, 1, -1] = scores[:, 1].max(axis=-1) + 680 - 2 * spread
    rows = row_diagnostics(scores, [1.0, 3.0], keys)
    for i, draw, query in np.ndindex(2, 2, 6):
        expected = gradient_norm_in_long_double(scores[draw, query], keys[draw], (1.0, 3.0)[i])
        if expected > 1e-300:  # rounding of the scores over the divisor costs up to three digits
            assert rows.query_gradient_norm[i, draw, query] == pytest.approx(
                float(expected), rel=2e-13, abs=0
            )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_saturated_rows_keep_their_digits(masked, dtype):
    """Two draws of 6 rows of 700 keys, of which few have weight, summed in double precision."""
    rng = np.random.default_rng(3)
    queries, keys = rng.standard_normal((2, 6, 900)), rng.standard_normal((2, 700, 900))
    scores = (queries @ keys.swapaxes(-1, -2)).astype(dtype)
    if masked:
        scores = np.where(rng.random(scores.shape) < 0.5, scores, -np.inf)
    rows = row_diagnostics(scores, [0.4, 30.0], keys.astype(dtype))
    for i, divisor in enumerate((0.4, 30.0)):
        for draw, query in np.ndindex(2, 6):
            seen = np.isfinite(scores[draw, query])
            of_keys = keys.astype(dtype)[draw, seen]
            of_row = scores[draw, query, seen]
            expected = gradient_norm_in_long_double(of_row, of_keys, divisor)
            assert rows.query_gradient_norm[i, draw, query] == pytest.approx(
                float(expected), rel=1e-12, abs=0
            )


@pytest.mark.parametrize("gap", [1.0, 50.0, 300.0, 700.0])
@pytest.mark.usefixtures("by_distances")
def test_two_keys_are_solved_by_hand_however_saturated(gap):
    """J has the eigenvalue 2 r (1 - r) along (1, -1) / sqrt(2), where the keys 2 and 0 have the
    component sqrt(2).
    """
    rows = row_diagnostics([[[0.0, gap]]], [1.0], keys=[[[2.0], [0.0]]])
    r = 1 / (1 + math.exp(gap))
    assert rows.max_weight.item() == pytest.approx(1 - r, rel=1e-14, abs=0)
    # H = -ln(1 - r) + r gap, since ln r = ln(1 - r) - gap
    assert rows.entropy.item() == pytest.approx(r * gap - math.log1p(-r), rel=1e-13, abs=0)
    assert rows.jacobian_trace.item() == pytest.approx(2 * r * (1 - r), rel=1e-13, abs=0)
    assert rows.jacobian_norm.item() == pytest.approx(2 * r * (1 - r), rel=1e-13, abs=0)
    assert rows.query_gradient_norm.item() == pytest.approx(
        math.sqrt(8) * r * (1 - r), rel=1e-13, abs=0
    )


def masked_inputs(n_keys, d_k, spread=2.0):
    """Scores with masked keys, and keys, of two draws; a row with one visible key, and one with
    all.
    """
    rng = np.random.default_rng(14)
    scores = spread * rng.standard_normal((2, 5, n_keys))
    mask = rng.random(scores.shape) < 0.6
    mask[..., 2] = True
    mask[0, 1], mask[1, 4] = np.arange(n_keys) == 3, True
    return np.where(mask, scores, -np.inf), rng.standard_normal((2, n_keys, d_k))


@pytest.mark.parametrize("spread", [0.1, 2.0, 30.0])
@pytest.mark.parametrize("tile", [14, 1000])
@pytest.mark.parametrize("n_keys", [7, 40])
@pytest.mark.usefixtures("by_distances")
def test_masked_keys_are_left_out(spread, tile, n_keys, monkeypatch):
    monkeypatch.setattr(row_tiles, "_TILE_BYTES", 8 * tile)
    monkeypatch.setattr(row_tiles, "_PRODUCT_ROWS", 1)
    scores, keys = masked_inputs(n_keys, 11, spread)
    divisors = [1.0, 2.5]
    rows = row_diagnostics(scores, divisors, keys)
    for i, draw, query in np.ndindex(2, 2, 5):
        seen = np.isfinite(scores[draw, query])
        got = [getattr(rows, name)[i, draw, query] for name in METRICS]
        if seen.sum() == 1:
            assert got == [1.0, 0.0, 0.0, 0.0, 0.0]
            continue
        visible = scores[draw, query, seen][None], divisors[i], keys[draw, seen]
        alone = row_diagnostics(*visible)
        assert got == pytest.approx(
            [getattr(alone, name).item() for name in METRICS], rel=1e-12, abs=0
        )


@pytest.mark.usefixtures("by_distances")
def test_what_an_unseen_key_contains_has_no_effect():
    scores, keys = masked_inputs(7, 11)
    scores[..., 5:] = -np.inf
    other_keys = keys.copy()
    other_keys[:, 5], other_keys[:, 6] = 1e30, np.nan
    norms = [
        row_diagnostics(scores, [1.0], given).query_gradient_norm for given in (keys, other_keys)
    ]
    np.testing.assert_allclose(norms[1], norms[0], rtol=1e-13)


def test_a_boolean_mask_is_minus_infinity_in_the_scores():
    scores, keys = masked_inputs(7, 3)
    filled = np.where(np.isfinite(scores), scores, 50.0)
    by_scores = row_diagnostics(scores, [1.0, 3.0], keys)
    by_mask = row_diagnostics(filled, [1.0, 3.0], keys, mask=np.isfinite(scores))
    for name in METRICS:
        np.testing.assert_array_equal(getattr(by_mask, name), getattr(by_scores, name))
    with pytest.raises(
        ValueError, match=r"expected every query to see a key, got none in row \(1\)"
    ):
        row_diagnostics(np.zeros((2, 3)), 1.0, mask=[[True, True, False], [False] * 3])


@pytest.mark.parametrize("n_keys", [7, 40])
@pytest.mark.parametrize("spread", [0.1, 3.0])
@pytest.mark.parametrize("has_masked", [False, True])
def test_further_properties_equal_plain_loops(n_keys, spread, has_masked):
    scores = masked_inputs(n_keys, 3, spread)[0]
    if not has_masked:
        scores[np.isneginf(scores)] = 0.3
    own = np.arange(5) % n_keys
    divisors = [1.0, 2.5]
    rows = row_diagnostics(scores, divisors, with_variance=True, own_keys=own)
    for i, draw, query in np.ndindex(2, 2, 5):
        scaled = [s / divisors[i] for s in scores[draw, query]]
        weights = [math.exp(s) / math.fsum(map(math.exp, scaled)) for s in scaled]
        visible = [s for s in scaled if s > -math.inf]
        squares = math.fsum(w * w for w in weights)
        expected = {
            "row_variance": math.fsum((s - math.fsum(visible) / len(visible)) ** 2 for s in visible)
            / len(visible),
            "effective_keys": math.exp(-math.fsum(w * math.log(w) for w in weights if w)),
            "collision": squares,
            "participation": 1 / squares,
            "own_weight": weights[own[query]],
        }
        got = {name: getattr(rows, name)[i, draw, query] for name in expected}
        assert got == pytest.approx(expected, rel=1e-12, abs=1e-28)
    np.testing.assert_allclose(
        rows.row_variance[1], row_variance(scores / 2.5), rtol=1e-12, atol=1e-28
    )


def test_own_keys_are_named_per_row_or_for_all_draws():
    scores = np.random.default_rng(16).standard_normal((4, 3, 5))
    mask = causal_mask(3, 5)
    rows = row_diagnostics(scores, [1.0, 2.0], mask=mask, own_keys=[2, 3, 4])
    weights = softmax(np.where(mask, scores, -np.inf))
    np.testing.assert_allclose(rows.own_weight[0], weights[:, [0, 1, 2], [2, 3, 4]], rtol=1e-13)
    each = np.arange(12).reshape(4, 3) % 5
    by_draw = row_diagnostics(scores, 1.0, mask=mask, own_keys=each).own_weight
    np.testing.assert_allclose(
        by_draw, np.take_along_axis(weights, each[..., None], -1)[..., 0], rtol=1e-13
    )


@pytest.mark.usefixtures("by_distances")
def test_what_all_keys_have_in_common_has_no_part_in_the_gradient():
    """Equal keys give 0, and a common offset changes nothing."""
    rng = np.random.default_rng(12)
    scores = rng.standard_normal((1, 4, 9))
    same = np.repeat(rng.standard_normal((1, 1, 9)), 9, axis=1)
    np.testing.assert_allclose(
        row_diagnostics(scores, [1.0], same).query_gradient_norm, 0, atol=1e-15
    )
    keys = rng.standard_normal((1, 9, 9))
    plain_norm, shifted_norm = (
        row_diagnostics(scores, [1.0], k).query_gradient_norm for k in (keys, keys + 1e6)
    )
    np.testing.assert_allclose(shifted_norm, plain_norm, rtol=1e-9)


ROWS, KEYS = np.zeros((3, 2, 5)), np.zeros((3, 5, 4))


@pytest.mark.parametrize(
    ("scores", "divisors", "options", "message"),
    [
        (np.zeros(3), 1.0, {}, r"\(\.\.\., n_queries, n_keys\) with 2 keys or more, got \(3,\)"),
        (ROWS[0], 1.0, {"keys": KEYS}, r"keys: expected \(5, d_k\), got \(3, 5, 4\)"),
        (ROWS, 1e-310, {}, "divisors: expected finite numbers from 1e-300, got 1e-310"),
        ([[0.0, 1.0], [0.0, np.nan]], 1.0, {}, r"a finite largest score, got nan in row \(1\)"),
        (
            [[0.0, 1.0], [-np.inf, -np.inf]],
            1.0,
            {},
            r"a finite largest score, got -inf in row \(1\)",
        ),
        (ROWS, 1.0, {"own_keys": [0, 5]}, "own_keys: expected integers from 0 to 4"),
    ],
)
def test_wrong_arguments_are_refused(scores, divisors, options, message):
    with pytest.raises(ValueError, match=message):
        row_diagnostics(scores, divisors, **options)
