"""Rows in single precision against the same rows in double precision."""

import math

import numpy as np
import pytest

from sdpa import row_diagnostics, row_tiles


@pytest.fixture(params=["exp2", "exp"])
def exponential(request, monkeypatch):
    """Both functions, whichever this machine prefers."""
    of = row_tiles.in_single_precision(has_simd_exp2=request.param == "exp2")
    assert of.function is getattr(np, request.param)
    monkeypatch.setitem(row_tiles._EXPONENTIALS, np.dtype(np.float32), of)


ROWS = (
    "max_weight",
    "entropy",
    "jacobian_trace",
    "jacobian_norm",
    "query_gradient_norm",
    "row_variance",
    "own_weight",
)


@pytest.mark.parametrize("spread", [0.1, 1.0, 8.0, 60.0])
@pytest.mark.parametrize(("n_keys", "d_k"), [(7, 11), (300, 5)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.usefixtures("exponential")
def test_rows_agree_with_double_precision(spread, n_keys, d_k, masked):
    """Relative errors of a few 2^-24, times the size of the scaled scores; |dL/dq| loses up to two
    digits more.
    """
    rng = np.random.default_rng(n_keys)
    keys = rng.standard_normal((3, n_keys, d_k)).astype(np.float32)
    queries = spread * rng.standard_normal((3, 6, d_k)).astype(np.float32)
    scores = queries @ keys.swapaxes(-1, -2)
    mask = rng.random(scores.shape) < 0.7 if masked else None
    more = {"mask": mask, "with_variance": True, "own_keys": rng.integers(0, n_keys, 6)}
    divisors = [0.5, 2.0, 30.0]
    single = row_diagnostics(scores, divisors, keys, **more)
    double = row_diagnostics(scores.astype(float), divisors, keys.astype(float), **more)
    size = 1 + np.abs(scores).max() / np.reshape(divisors, (3, 1, 1))
    for name in ROWS:
        found, expected = getattr(single, name), getattr(double, name)
        limit = (100 if name == "query_gradient_norm" else 4) * 2.0**-24 * size
        assert (np.abs(found - expected) <= limit * np.abs(expected) + 1e-38).all(), name


@pytest.mark.usefixtures("exponential")
def test_norms_of_saturated_rows_keep_their_range():
    """A remainder of e^-200 is 0 in single precision, but |J|_F = sqrt(2) r and |dL/dq| = r |k_1 -
    k_2| are not.
    """
    rows = row_diagnostics(np.float32([[200.0, 0.0]]), 1.0, keys=np.float32([[3.0], [1.0]]))
    assert rows.jacobian_norm.item() == pytest.approx(math.sqrt(2) * math.exp(-200), rel=1e-6)
    assert rows.query_gradient_norm.item() == pytest.approx(
        math.sqrt(2) * 2 * math.exp(-200), rel=1e-6
    )
    assert rows.max_weight.item() == 1
