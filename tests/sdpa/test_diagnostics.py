"""The measuring kernel against the plain definition, row by row, and against hand-solved saturated rows."""

import math

import numpy as np
import pytest

from sdpa import causal_mask, diagnostics, row_diagnostics, row_variance, softmax, softmax_jacobian

METRICS = ("max_weight", "entropy", "jacobian_trace", "jacobian_norm", "query_gradient_norm")


def plain(scores, keys, g, divisor):
    """The definitions of the design, with no thought for speed or saturation."""
    w = softmax(scores / divisor)
    jacobian = softmax_jacobian(w)
    return {
        "max_weight": w.max(),
        "entropy": -sum(x * math.log(x) for x in w if x > 0),
        "jacobian_trace": 1 - sum(w**2),
        "jacobian_norm": np.linalg.norm(jacobian),
        "query_gradient_norm": np.linalg.norm(keys.T @ jacobian @ g) / divisor,
    }


@pytest.mark.parametrize("d_k", [3, 11])  # fewer and more than the keys: the two routes of |K^T v|
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("tile", [5, 14, 35, 1000])  # less than a row, two rows, a whole draw, everything at once
@pytest.mark.parametrize("n_keys", [7, 40])  # short rows and long ones: two routes of a dot product
def test_equals_the_plain_definition(d_k, spread, tile, n_keys, monkeypatch):
    monkeypatch.setattr(diagnostics, "_TILE_SCORES", tile)
    monkeypatch.setattr(diagnostics, "_PRODUCT_ROWS", 1)
    rng = np.random.default_rng(10)
    n_draws, n_queries = 2, 5
    scores = spread * rng.standard_normal((n_draws, n_queries, n_keys))
    keys, g = rng.standard_normal((n_draws, n_keys, d_k)), rng.standard_normal(scores.shape)
    divisors = [1.0, 2.5, 0.7]
    before = scores.copy(), g.copy()
    rows = row_diagnostics(scores, divisors, keys, g)
    for i, draw, query in np.ndindex(len(divisors), n_draws, n_queries):
        expected = plain(scores[draw, query], keys[draw], g[draw, query], divisors[i])
        got = {name: getattr(rows, name)[i, draw, query] for name in METRICS}
        assert got == pytest.approx(expected, rel=1e-10, abs=0)
    np.testing.assert_array_equal(scores, before[0])
    np.testing.assert_array_equal(g, before[1])


@pytest.mark.parametrize("gap", [1.0, 50.0, 300.0, 700.0])
def test_two_keys_are_solved_by_hand_however_saturated(gap):
    rows = row_diagnostics([[[0.0, gap]]], [1.0], keys=[[[1.0], [0.0]]], weights_gradient=[[[3.0, 1.0]]])
    r = 1 / (1 + math.exp(gap))
    assert rows.max_weight.item() == pytest.approx(1 - r, rel=1e-14, abs=0)
    # H = -ln(1 - r) + r gap, since ln r = ln(1 - r) - gap
    assert rows.entropy.item() == pytest.approx(r * gap - math.log1p(-r), rel=1e-13, abs=0)
    assert rows.jacobian_trace.item() == pytest.approx(2 * r * (1 - r), rel=1e-13, abs=0)
    assert rows.jacobian_norm.item() == pytest.approx(2 * r * (1 - r), rel=1e-13, abs=0)
    assert rows.query_gradient_norm.item() == pytest.approx(2 * r * (1 - r), rel=1e-13, abs=0)


def test_a_row_saturated_beyond_double_precision_is_zero_and_finite():
    scores = np.array([[[0.0, 5000.0, -3.0]]])
    rows = row_diagnostics(scores, [1.0], np.ones((1, 3, 2)), np.ones((1, 1, 3)))
    assert [getattr(rows, name).item() for name in METRICS] == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_equal_scores_give_uniform_weights():
    n = 13
    rows = row_diagnostics(np.full((1, 1, n), 7.0), [2.0])
    assert rows.max_weight.item() == pytest.approx(1 / n)
    assert rows.entropy.item() == pytest.approx(math.log(n))
    assert rows.jacobian_trace.item() == pytest.approx(1 - 1 / n)
    assert rows.jacobian_norm.item() == pytest.approx(math.sqrt(1 / n - 1 / n**2))


def masked_inputs(n_keys, d_k, spread=2.0):
    """Scores with masked keys, keys and gradients of two draws; a row with one visible key, and one with all."""
    rng = np.random.default_rng(14)
    scores = spread * rng.standard_normal((2, 5, n_keys))
    mask = rng.random(scores.shape) < 0.6
    mask[..., 2] = True
    mask[0, 1], mask[1, 4] = np.arange(n_keys) == 3, True
    return np.where(mask, scores, -np.inf), rng.standard_normal((2, n_keys, d_k)), rng.standard_normal(scores.shape)


@pytest.mark.parametrize("d_k", [3, 11])
@pytest.mark.parametrize("spread", [0.1, 2.0, 30.0])
@pytest.mark.parametrize("tile", [5, 14, 1000])
@pytest.mark.parametrize("n_keys", [7, 40])
def test_masked_keys_are_left_out(d_k, spread, tile, n_keys, monkeypatch):
    monkeypatch.setattr(diagnostics, "_TILE_SCORES", tile)
    monkeypatch.setattr(diagnostics, "_PRODUCT_ROWS", 1)
    scores, keys, g = masked_inputs(n_keys, d_k, spread)
    divisors = [1.0, 2.5]
    rows = row_diagnostics(scores, divisors, keys, g)
    for i, draw, query in np.ndindex(2, 2, 5):
        seen = np.isfinite(scores[draw, query])
        got = [getattr(rows, name)[i, draw, query] for name in METRICS]
        if seen.sum() == 1:
            assert got == [1.0, 0.0, 0.0, 0.0, 0.0]
            continue
        visible = scores[draw, query, seen][None], divisors[i], keys[draw, seen], g[draw, query, seen][None]
        alone = row_diagnostics(*visible)
        assert got == pytest.approx([getattr(alone, name).item() for name in METRICS], rel=1e-12, abs=0)
        if spread < 10:  # the plain definition cancels in saturated rows
            expected = plain(scores[draw, query], keys[draw], g[draw, query], divisors[i])
            assert got == pytest.approx([expected[name] for name in METRICS], rel=1e-10, abs=0)


@pytest.mark.parametrize("d_k", [3, 11])
def test_what_a_masked_key_contains_has_no_effect(d_k):
    scores, keys, g = masked_inputs(7, d_k)
    scores[..., 5:] = -np.inf
    other_keys, other_g = keys.copy(), np.where(np.isfinite(scores), g, np.nan)
    other_keys[:, 5], other_keys[:, 6] = 1e30, np.nan
    norms = [row_diagnostics(scores, [1.0], *given).query_gradient_norm for given in ((keys, g), (other_keys, other_g))]
    np.testing.assert_allclose(norms[1], norms[0], rtol=1e-13)


def test_a_boolean_mask_is_minus_infinity_in_the_scores():
    scores, keys, g = masked_inputs(7, 3)
    filled = np.where(np.isfinite(scores), scores, 50.0)
    by_scores = row_diagnostics(scores, [1.0, 3.0], keys, g)
    by_mask = row_diagnostics(filled, [1.0, 3.0], keys, g, mask=np.isfinite(scores))
    for name in METRICS:
        np.testing.assert_array_equal(getattr(by_mask, name), getattr(by_scores, name))
    with pytest.raises(ValueError, match=r"expected every query to see a key, got none in row \(1\)"):
        row_diagnostics(np.zeros((2, 3)), 1.0, mask=[[True, True, False], [False] * 3])


def test_leading_axes_and_a_single_divisor_give_results_of_their_shape():
    rng = np.random.default_rng(15)
    scores, keys, g = (rng.standard_normal(shape) for shape in ((2, 3, 5, 7), (2, 3, 7, 4), (2, 3, 5, 7)))
    rows = row_diagnostics(scores, [1.0, 2.0], keys, g)
    for divisor in (2.0, np.float64(2), np.array(2), 2):
        one = row_diagnostics(scores[1, 2].astype(np.float32), divisor, keys[1, 2].astype(np.float32), g[1, 2])
        for name in METRICS:
            assert getattr(rows, name).shape == (2, 2, 3, 5)
            assert getattr(one, name).shape == (5,)
            np.testing.assert_allclose(getattr(one, name), getattr(rows, name)[1, 1, 2], rtol=1e-5)
    assert row_diagnostics(scores, 2.0).entropy.shape == (2, 3, 5)
    assert row_diagnostics(scores, 2.0).query_gradient_norm.shape == (0, 2, 3, 5)
    assert row_diagnostics(scores[0, 0], [2.0]).entropy.shape == (1, 5)


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
            "row_variance": math.fsum((s - math.fsum(visible) / len(visible)) ** 2 for s in visible) / len(visible),
            "effective_keys": math.exp(-math.fsum(w * math.log(w) for w in weights if w)),
            "collision": squares,
            "participation": 1 / squares,
            "own_weight": weights[own[query]],
        }
        got = {name: getattr(rows, name)[i, draw, query] for name in expected}
        assert got == pytest.approx(expected, rel=1e-12, abs=1e-28)
    np.testing.assert_allclose(rows.row_variance[1], row_variance(scores / 2.5), rtol=1e-12, atol=1e-28)


def test_the_weight_of_a_named_key_keeps_its_precision_in_a_saturated_row():
    scores = np.array([[0.0, 300.0, 10.0], [700.0, 0.0, 0.0]])
    rows = row_diagnostics(scores, [1.0, 100.0], own_keys=[0, 0])
    np.testing.assert_allclose(rows.own_weight[0], [math.exp(-300), 1.0], rtol=1e-13)
    named = [row_diagnostics(scores, 100.0, own_keys=key).own_weight for key in range(3)]
    np.testing.assert_allclose(np.transpose(named), softmax(scores / 100), rtol=1e-13)


def test_own_keys_are_named_per_row_or_for_all_draws():
    scores = np.random.default_rng(16).standard_normal((4, 3, 5))
    mask = causal_mask(3, 5)
    rows = row_diagnostics(scores, [1.0, 2.0], mask=mask, own_keys=[2, 3, 4])
    weights = softmax(np.where(mask, scores, -np.inf))
    np.testing.assert_allclose(rows.own_weight[0], weights[:, [0, 1, 2], [2, 3, 4]], rtol=1e-13)
    each = np.arange(12).reshape(4, 3) % 5
    by_draw = row_diagnostics(scores, 1.0, mask=mask, own_keys=each).own_weight
    np.testing.assert_allclose(by_draw, np.take_along_axis(weights, each[..., None], -1)[..., 0], rtol=1e-13)
    assert (
        row_diagnostics(scores, [1.0]).own_weight.shape == row_diagnostics(scores, 1.0).row_variance.shape == (0, 4, 3)
    )


@pytest.mark.parametrize(
    ("own_keys", "message"),
    [
        ([0, 5], "integers from 0 to 4"),
        ([-1, 0], "integers from 0 to 4"),
        ([0.0, 1.0], "integers from 0 to 4"),
        ([0, 1, 2], r"broadcasts to \(3, 2\), got \(3,\)"),
    ],
)
def test_own_keys_are_checked(own_keys, message):
    with pytest.raises(ValueError, match=f"own_keys: expected .*{message}"):
        row_diagnostics(np.zeros((3, 2, 5)), [1.0], own_keys=own_keys)


def test_a_divisor_is_measured_alike_whatever_the_others_are():
    rng = np.random.default_rng(11)
    scores, keys = 4 * rng.standard_normal((3, 5, 16)), rng.standard_normal((3, 16, 4))
    g = rng.standard_normal(scores.shape)
    alone = row_diagnostics(scores, [2.0], keys, g)
    among = row_diagnostics(scores, [8.0, 2.0, 1.0], keys, g)
    for name in METRICS:
        np.testing.assert_array_equal(getattr(alone, name)[0], getattr(among, name)[1])


def test_without_a_gradient_the_rest_is_the_same():
    rng = np.random.default_rng(13)
    scores, keys = 4 * rng.standard_normal((3, 5, 16)), rng.standard_normal((3, 16, 4))
    without = row_diagnostics(scores, [2.0, 1.0])
    with_gradient = row_diagnostics(scores, [2.0, 1.0], keys, rng.standard_normal(scores.shape))
    assert without.query_gradient_norm.shape == (0, 3, 5)
    for name in METRICS[:-1]:
        np.testing.assert_array_equal(getattr(without, name), getattr(with_gradient, name))


@pytest.mark.parametrize("given", [{"keys": np.zeros((1, 2, 1))}, {"weights_gradient": np.zeros((1, 1, 2))}])
def test_keys_and_gradient_come_together(given):
    with pytest.raises(ValueError, match="keys and weights_gradient: expected both or neither"):
        row_diagnostics(np.zeros((1, 1, 2)), [1.0], **given)


@pytest.mark.parametrize(
    ("scores", "keys", "g", "message"),
    [
        ((3,), (3, 4), (3,), r"\(\.\.\., n_queries, n_keys\) with 2 keys or more, got \(3,\)"),
        ((2, 3), (2, 3, 4), (2, 3), r"keys: expected \(3, d_k\), got \(2, 3, 4\)"),
        ((2, 3, 1), (2, 1, 4), (2, 3, 1), "2 keys or more"),
        ((2, 3, 5), (2, 3, 5), (2, 3, 5), r"keys: expected \(2, 5, d_k\), got \(2, 3, 5\)"),
        ((2, 3, 5), (2, 5, 7), (2, 5, 3), r"scores' shape \(2, 3, 5\), got \(2, 5, 3\)"),
    ],
)
def test_shapes_are_checked(scores, keys, g, message):
    with pytest.raises(ValueError, match=message):
        row_diagnostics(np.zeros(scores), [1.0], np.zeros(keys), np.zeros(g))


def test_what_all_keys_have_in_common_has_no_part_in_the_gradient():
    """Keys of rank 1 give 0 and a common offset changes nothing, through K K^T too."""
    rng = np.random.default_rng(12)
    scores, g = rng.standard_normal((1, 4, 4)), rng.standard_normal((1, 4, 4))
    same = np.repeat(rng.standard_normal((1, 1, 9)), 4, axis=1)
    np.testing.assert_allclose(row_diagnostics(scores, [1.0], same, g).query_gradient_norm, 0, atol=1e-15)
    keys = rng.standard_normal((1, 4, 9))
    plain_norm, shifted_norm = (row_diagnostics(scores, [1.0], k, g).query_gradient_norm for k in (keys, keys + 1e6))
    np.testing.assert_allclose(shifted_norm, plain_norm, rtol=1e-9)


@pytest.mark.parametrize("divisor", [0.0, -1.0, 1e-310, math.inf, math.nan])
def test_divisors_are_checked(divisor):
    with pytest.raises(ValueError, match="divisors: expected finite numbers from 1e-300"):
        row_diagnostics(np.zeros((1, 1, 2)), [divisor])


def test_single_precision_and_large_numbers_are_computed_in_double():
    scores = np.array([[[1.0, 0.0, -1.0]]])
    single = row_diagnostics(scores.astype(np.float32), [1e-40])
    assert single.max_weight.item() == 1.0
    assert single.entropy.dtype == np.float64
    large = row_diagnostics(np.array([[[1.5e308, 1.4e308, 0.0, 0.0]]]), [1.0, 1e308])
    assert large.entropy[0].item() == 0.0
    weights = np.exp([1.5, 1.4, 0, 0]) / np.exp([1.5, 1.4, 0, 0]).sum()
    assert large.entropy[1].item() == pytest.approx(-(weights * np.log(weights)).sum(), rel=1e-12)


def test_no_rows_give_no_numbers():
    assert row_diagnostics(np.zeros((3, 0, 7)), [1.0]).entropy.shape == (1, 3, 0)


def test_scores_must_be_finite_floats_or_masked():
    for wrong in (np.inf, np.nan):
        for other in (0.0, -np.inf):
            with pytest.raises(ValueError, match=rf"a finite largest score, got {wrong} in row \(0, 0\)"):
                row_diagnostics(np.array([[[other, wrong]]]), [1.0])
    with pytest.raises(ValueError, match=r"a finite largest score, got -inf in row \(0, 1\)"):
        row_diagnostics(np.array([[[0.0, 1.0], [-np.inf, -np.inf]]]), [1.0])
    whole = row_diagnostics([[[0, 3]]], [1])
    assert whole.max_weight.item() == pytest.approx(1 / (1 + math.exp(-3)))
