"""The d_k at which medians and root mean squares of gradients cross, against rows drawn at random."""

import math

import numpy as np
import pytest

from sdpa import softmax
from sdpa.theory import attention_expectations, limits


def medians(d_k, n_keys, rows, batch=100):
    """Medians of |J|_F and |dL/dq|, unscaled over scaled, of rows drawn at random."""
    rng, norms = np.random.default_rng(11), {0.0: [], 0.5: []}
    for _ in range(rows // batch):
        q, k = (rng.standard_normal((batch, *shape)) for shape in ((1, d_k), (n_keys, d_k)))
        for p, found in norms.items():
            w = softmax((q @ k.swapaxes(-1, -2))[:, 0] / d_k**p)
            first = w.argmax(axis=-1, keepdims=True)
            others = np.where(np.arange(n_keys) == first, 0, w)
            r, u2, u3 = ((others**power).sum(axis=-1) for power in (1, 2, 3))
            square = u2 + (1 - r) ** 2 * r**2 + 2 * (1 - r) ** 2 * u2 - 2 * u3 + u2**2
            relative = k - np.take_along_axis(k, first[..., None], axis=-2)
            gradient = np.linalg.norm(w[..., None] * (relative - w[:, None] @ relative), axis=(-1, -2)) / d_k**p
            found.append(np.stack([np.sqrt(square), gradient], axis=-1))
    unscaled, scaled = (np.median(np.concatenate(found), axis=0) for found in norms.values())
    return unscaled / scaled


@pytest.mark.parametrize("n_keys", [16, pytest.param(64, marks=pytest.mark.slow)])
def test_the_medians_cross_where_stated(n_keys):
    """At a d_k lower and higher by a factor the medians of 4,000 rows are on either side: by 5 or more standard errors
    of ln(ratio), as measured over six seeds (false alarm 1e-5 in all if it were reseeded)."""
    crossings = ((limits.jacobian_crossing(n_keys), 0, 1.3), (limits.query_gradient_crossing(n_keys), 1, 1.4))
    for crossing, which, factor in crossings:
        low, high = (medians(round(d_k), n_keys, 4000)[which] for d_k in (crossing / factor, crossing * factor))
        assert low > 1 > high, which


@pytest.mark.parametrize("n_keys", [2, 7.9, 2e9, math.nan])
def test_crossings_of_few_keys_are_refused(n_keys):
    with pytest.raises(ValueError, match="expected n_keys from 8"):
        limits.jacobian_crossing(n_keys)


def ratios(d_k, n_keys):
    """Exact root mean squares of |J|_F and |dL/dq|, unscaled over scaled."""
    unscaled, scaled = (attention_expectations(d_k, n_keys, divisor) for divisor in (1.0, d_k**0.5))
    return (
        unscaled.jacobian_norm / scaled.jacobian_norm,
        unscaled.query_gradient_norm / scaled.query_gradient_norm,
    )


@pytest.mark.parametrize(("n_keys", "d_k"), [(16, 19.9), (64, 429), (256, 8540), (1024, 170_000)])
def test_root_mean_squares_of_the_jacobian_cross_where_docs_results_says(n_keys, d_k):
    assert ratios(d_k / 1.01, n_keys)[0] > 1 > ratios(d_k * 1.01, n_keys)[0]


@pytest.mark.parametrize("n_keys", [2, 64, 65_536])
def test_root_mean_squares_of_the_query_gradient_never_cross(n_keys):
    found = np.array([ratios(2.0**k, n_keys) for k in (1, 4, 8, 20, 24)])
    assert (found[:, 1] > 1).all()
    # Frozen rows have E |J|_F^2 ~ d_k^-1/2, and unscaled keys another factor d_k.
    np.testing.assert_allclose(found[-1] / found[-2], [0.5, 2.0], rtol=0.01)
