"""`compare` against loops over rows, closed forms and SciPy's `rel_entr`."""

from statistics import fmean

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import rel_entr

from sdpa import compare
from sdpa.tools.diagnosis import COMPARED
from sdpa.tools.diagnosis.two_runs import divergence
from tests.numerics import normals
from tests.plain_attention import entropy, softmax_of_row


def inputs(*shape):
    """Queries, keys and other keys."""
    return 2 * normals(3, *shape)


def plain_comparison(pairs):
    """The quantities of `COMPARED` from the scores of each row in both runs."""
    rows = []
    for s, t in pairs:
        w, v = softmax_of_row(s), softmax_of_row(t)
        same = np.argmax(s) == np.argmax(t)
        rows.append([sum(map(rel_entr, w, v)), same, entropy(v) - entropy(w), np.var(s), np.var(t)])
    there, same, change, a, b = map(fmean, zip(*rows, strict=True))
    return [there, same, (b / a) ** 0.5, change]


def test_every_quantity_is_that_of_loops_over_rows(monkeypatch):
    """Grouped queries in tiles of two rows, beside scores, with errors by the jackknife."""
    monkeypatch.setattr("sdpa.tools.diagnosis.head_rows._TILE", 12)
    q, k, other = inputs(4, 3, 6, 5)
    of_a, of_b = (q @ keys.swapaxes(-1, -2) / 2 for keys in (k[[0, 0, 2, 2]], other))
    q[..., 0, :] = np.inf  # sees one key, and does not count
    of_b = np.where(np.tri(6), of_b, -np.inf)
    actual = compare((q, k[::2]), of_b, 2.0, "causal", axes=["head", "batch"])
    places = [(one, row) for one in range(3) for row in range(1, 6)]
    rows = [[of[3, one, row, : row + 1].tolist() for of in (of_a, of_b)] for one, row in places]
    got = [actual[each.name].value[3] for each in COMPARED]
    assert got == pytest.approx(plain_comparison(rows), rel=1e-9)
    without = [plain_comparison(rows[: 5 * one] + rows[5 * one + 5 :]) for one in range(3)]
    errors = [actual[each.name].error[3] for each in COMPARED]
    assert_allclose(errors, np.sqrt(2) * np.std(without, axis=0))


def test_two_keys_have_the_closed_form():
    """Scores 0 and -x, and 0 and -y, also where weights round to 1, underflow or hardly differ."""
    x, y = np.array([[900.0, 33, 50], [1.5, 60, -900]])
    expected = np.logaddexp(0, -y) - np.logaddexp(0, -x) + (y - x) * np.exp(-np.logaddexp(0, x))
    s, t = (np.transpose([0 * gap, -gap, gap - np.inf]) for gap in (x, y))
    assert_allclose(divergence(s, t), expected)
    # half the variance of the change
    assert_allclose(divergence(np.zeros((1, 2)), np.array([[0, 1e-8]])), 1e-16 / 8)


K = np.ones((2, 3, 4))


@pytest.mark.parametrize(
    "b, options, message",
    [
        ((K, K[:, :2]), {}, r"same shape, got \(2, 3, 3\) .*1\) in a and \(2, 3, 2\) .* in b"),
        (
            np.where(np.tri(3), K[..., :3], -np.inf),
            {},
            r"hide the same keys, .* infinite; .* save np\.maximum\(w, 6e-8\)$",
        ),
        (
            (K, K),
            {"mask": np.eye(3) == 1},
            r"two keys or more in each head, got none in 2 of 2, the first head \[0\]$",
        ),
        (K / 4, {}, "^b: scores: expected those before the softmax"),
    ],
)
def test_runs_that_do_not_fit_are_refused(b, options, message):
    with pytest.raises(ValueError, match=message):
        compare((K, K), b, **options)
