"""`compare` against loops over rows, closed forms, SciPy's `rel_entr` and repeated samples."""

from statistics import fmean

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import rel_entr

from sdpa import compare
from sdpa.diagnosis import COMPARED
from sdpa.diagnosis.comparing import divergences
from tests.plain_attention import entropy, softmax_of_row


def inputs(*shape):
    """Queries, keys and other keys."""
    return 2 * np.random.default_rng(0).standard_normal((3, *shape))


def plain_comparison(pairs):
    """The quantities of `COMPARED` from the scores of each row in both runs."""
    rows = []
    for s, t in pairs:
        w, v = softmax_of_row(s), softmax_of_row(t)
        row = [sum(map(rel_entr, w, v)), sum(map(rel_entr, v, w)), entropy(v) - entropy(w)]
        rows.append([*row, np.argmax(s) == np.argmax(t), *np.cov(s, t, bias=True).flat])
    there, back, change, same, a, ab, _, b = map(fmean, zip(*rows, strict=True))
    return [there, back, ab / (a * b) ** 0.5, same, (b / a) ** 0.5, change]


def test_every_quantity_is_that_of_loops_over_rows(monkeypatch):
    """Grouped queries in tiles of two rows up to their last key, beside scores of all keys."""
    monkeypatch.setattr("sdpa.diagnosis.heads._TILE", 12)
    q, k, other = inputs(4, 3, 6, 5)
    of_a, of_b = (q @ keys.swapaxes(-1, -2) / 2 for keys in (k[[0, 0, 2, 2]], other))
    q[..., 0, :] = np.inf  # sees one key, and does not count
    of_b = np.where(np.tri(6), of_b, -np.inf)
    found = compare((q, k[::2]), of_b, 2.0, "causal", axes=["head", "batch"])
    rows = [
        [of[3, one, row, : row + 1].tolist() for of in (of_a, of_b)]
        for one, row in np.ndindex(3, 6)
        if row
    ]
    got = [found[each.name].value[3] for each in COMPARED]
    assert got == pytest.approx(plain_comparison(rows), rel=1e-9)


def test_two_keys_have_the_closed_form():
    """Scores 0 and -x, and 0 and -y, also where weights round to 1, underflow or hardly differ."""
    x, y = np.array([[900.0, 33, 50], [1.5, 60, -900]])
    expected = np.logaddexp(0, -y) - np.logaddexp(0, -x) + (y - x) * np.exp(-np.logaddexp(0, x))
    s, t = (np.transpose([0 * gap, -gap, gap - np.inf]) for gap in (x, y))
    assert_allclose(divergences(s, t)[0], expected)
    # half the variance of the change
    assert_allclose(divergences(np.zeros((1, 2)), np.array([[0, 1e-8]])), 1e-16 / 8)


def test_a_run_is_its_own_and_constants_of_rows_change_nothing():
    q, k, _ = inputs(3, 2, 9, 5)
    assert not np.any(compare((q, k), (2 * q, k), 2, scaling_b=4)["divergence"][:2])
    found = compare(q, q + 100 * k[..., :1])
    got = [found[each.name].value.mean() for each in COMPARED]
    assert_allclose(got, [0, 0, 1, 1, 1, 0], atol=1e-13)


def test_errors_are_deviations_over_samples():
    """150 samples of 6 sequences, as heads. The ratio of variances has an error of 13%, so that
    one beyond 65% is a false alarm of probability 1e-5 or less, if reseeded.
    """
    q, k, other = inputs(6, 150, 4, 5)
    value, error, _ = compare([q, k], [q, other])["divergence"]
    assert fmean(error**2) == pytest.approx(value.var(), rel=0.65)


def test_keys_of_4_bits_per_vector_and_per_channel_are_far_apart():
    """Four channels of keys are far from 0, as in language models; entropies tell less."""
    q, k, _ = inputs(6, 2, 96, 64)
    k[..., :4] += 40
    for axis, divergence, change in ((-1, 0.3, -0.15), (-2, 0.014, -0.01)):
        low, step = k.min(axis, keepdims=True), np.ptp(k, axis, keepdims=True) / 15
        found = compare((q, k), (q, low + step * np.round((k - low) / step)), 16, "causal")
        assert_allclose(found["divergence"].value, divergence, rtol=0.2)
        assert_allclose(found["entropy_change"].value, change, rtol=0.5)


def test_the_worst_heads_come_first():
    q, k, other = inputs(3, 3, 7, 5)
    other[:, 0] = k[:, 0]
    other[:, 1] *= 5
    found = compare((q, k), (q, other))
    assert " in head 2; 0 ± 0 in head 0. The largest key differs in " in str(found)
    assert "(no errors: one sequence). The largest key differs in 0% of" in str(compare(k[0], k[0]))


K = np.ones((2, 3, 4))


@pytest.mark.parametrize(
    ("b", "options", "message"),
    [
        ((K, K[:, :2]), {}, r"same shape, got \(2, 3, 3\) in a and \(2, 3, 2\) in b"),
        ((K, K), {"mask_b": "causal"}, "hide the same keys, .* infinite in head 0$"),
        ((K, K), {"mask": np.eye(3) == 1}, "query that sees two keys or more, got none in head 0$"),
        (K / 4, {}, "^b: scores: expected those before the softmax"),
        ((K, K, K), {}, "^b: expected q and k, or an array of scores, got 3 arrays"),
    ],
)
def test_runs_that_do_not_fit_are_refused(b, options, message):
    with pytest.raises(ValueError, match=message):
        compare((K, K), b, **options)
