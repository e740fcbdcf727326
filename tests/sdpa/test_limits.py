"""The scales of d_k and the frozen phase, beside simulated rows and exact expectations."""

import re
from functools import partial
from math import log, sqrt

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from sdpa.theory import GaussianRow, attention_expectations, limits
from sdpa.theory.gaussian_rows import gaussian_rows
from tests.numerics import is_mean
from tests.prose import part, prose


@pytest.mark.parametrize("n_keys", [3, 64])
def test_half_the_gaps_of_drawn_scores_are_below_the_median(n_keys):
    """Five standard errors: a false alarm in 2,000,000 runs of a size, if reseeded."""
    rows = 10**6 // n_keys + 20_000
    scores = np.random.default_rng(n_keys).standard_normal((rows, n_keys))
    first, second = -np.partition(-scores, 1, axis=1)[:, :2].T
    assert is_mean(first - second < limits.median_gap(n_keys), 0.5)


def test_the_frozen_phase_is_that_of_drawn_poisson_dirichlet_weights():
    """Weights G_j^(-1/m) of the points G_j of a Poisson process, over their sum: five standard
    errors of 2,000 rows.

    The points left out have about the weight K^(1 - 1/m) for K points, 5e-4 at most here.
    """
    m = 0.25
    points = np.random.default_rng(5).exponential(size=(2000, 2000)).cumsum(axis=1)
    weights = points ** (-1 / m)
    weights /= weights.sum(axis=1, keepdims=True)
    s2, s3 = ((weights**p).sum(axis=1) for p in (2, 3))
    found = {
        limits.frozen_entropy(m): -(weights * np.log(weights)).sum(axis=1),
        limits.frozen_jacobian_square(m): s2 - 2 * s3 + s2**2,
        limits.frozen_max_weight(m): weights[:, 0],
    }
    for exact, rows in found.items():
        assert is_mean(rows, exact, within=2e-3)


def rows_of(heading):
    """The numbers of the last table of a part of docs/theory.md, row by row."""
    text = part("docs/theory.md", heading)
    table = re.findall(r"(?:^\|[ -].*\n)+", text, re.MULTILINE)[-1].splitlines()[2:]
    rows = [row.replace(",", "").strip("| ").split(" | ") for row in table]
    return [[re.findall(r"[\d.]+(?:e\+\d+)?", cell) for cell in row] for row in rows]


def largest_gradient(n_keys):
    """The d_k with the largest unscaled E|J|_F^2."""
    low, high = 8 * log(n_keys) / 5, 8 * log(n_keys)
    d_k = minimize_scalar(
        lambda d_k: -attention_expectations(d_k, n_keys, 1.0).jacobian_norm, bounds=(low, high)
    )
    return d_k.x


def mean_crossing(n_keys):
    """The d_k with the same E|J|_F^2 unscaled and with d_k^1/2."""

    def excess(d_k):
        unscaled, scaled = (attention_expectations(d_k, n_keys, c) for c in (1.0, d_k**0.5))
        return unscaled.jacobian_norm - scaled.jacobian_norm

    law = limits.mean_crossing(n_keys)
    return brentq(excess, law / 1.7, law * 1.7, xtol=1e-6 * law)


MEDIANS = [
    partial(limits.median_crossing, f"{norm}_norm") for norm in ("jacobian", "weight_jacobian")
]
LAWS = [  # of d_k, and exact values
    (lambda n: limits.freezing_sigma(n) ** 2, None),
    (limits.largest_gradient, largest_gradient),
    (limits.jacobian_crossing_law, MEDIANS[0]),
    (limits.typical_crossing, MEDIANS[0]),
    (limits.typical_query_crossing, MEDIANS[1]),
    (limits.mean_crossing, mean_crossing),
]


@pytest.mark.slow
def test_the_table_of_scales_is_that_of_the_laws():
    """To its three digits: each law, and the exact value in brackets if there is one."""
    for cells, (law, exact) in zip(rows_of("Three scales"), LAWS, strict=True):
        for n_keys, cell in zip((16, 256, 4096, 2**20), cells[1:], strict=True):
            expected = [law(n_keys)] + ([exact(n_keys)] if exact else [])
            assert [*map(float, cell)] == pytest.approx(expected, rel=6e-3)


def test_the_table_of_the_frozen_phase_is_that_of_rows_and_limits():
    for (ratio,), n_keys, *cells in rows_of("The frozen phase"):
        if n_keys:
            (n,) = map(int, n_keys)
            sigma = float(ratio) * limits.freezing_sigma(n)
            largest, entropy, square, _ = gaussian_rows(np.array([sigma]), np.array([n]))[0]
        else:
            m = 1 / float(ratio)
            largest, entropy = limits.frozen_max_weight(m), limits.frozen_entropy(m)
            square = limits.frozen_jacobian_square(m)
        found = [float(cell) for (cell,) in cells]
        assert found == pytest.approx([largest, entropy, sqrt(square)], abs=6e-4)


def test_formulas_of_others_are_as_far_from_exact_values_as_docs_say():
    def output(n, divisor=8.0):
        return attention_expectations(64, n, divisor).output_std

    def above(n, multiplier):
        power = (1 / (1 + 4 * 64 / multiplier**2) - 1) / 2
        return n**power / output(n, 64 / multiplier) - 1

    page = prose("docs/theory.md", "Formulas of others")
    counts = [4**i for i in range(4, 9)]
    model = [f"{above(n, 8.0):.0%}" for n in counts]
    lengths = [str(n) for n in counts]
    said = "this is {}, {}, {}, {} and {} above √(E Σ w²) with {}, {}, {}, {} and {} keys;"
    assert said.format(*model, *lengths) in page
    assert all(abs(sqrt(np.e / n) / output(n) - 1) < 0.01 for n in counts)
    assert all(abs(above(n, 1.0)) < 0.02 for n in counts)

    def local(sigma, low, high):
        first, last = (GaussianRow(sigma, n).power_sum(2) for n in (low, high))
        return f"{log(last / first) / log(high / low) / 2:.3f}".replace("-", "−")

    powers = [local(sigma, 4096, 16384) for sigma in (1, 3, 6)]
    assert "{} for σ = 1, {} for 3 and {} for 6.".format(*powers) in page
    ends = local(3, 256, 1024), local(3, 65536, 2**20)
    assert "it is {} from 256 keys on and {} up to 2²⁰.".format(*ends) in page
    for n_keys in (256, 4096):
        for d_k in (128, 1024):
            left = log(n_keys) - attention_expectations(d_k, n_keys, d_k).entropy
            assert f" {2 * d_k * left:.3f} with {n_keys} keys" in page


def test_joint_norms_of_heads_differ_as_docs_say():
    rng, deviations = np.random.default_rng(2), []
    for heads in (4, 12):
        deviations.append(sqrt((heads - 1) / (heads * 64 / 2 + 1)))
        squares = rng.standard_normal((2000, heads, 64)) ** 2
        ratios = squares.mean(axis=2) / squares.mean(axis=(1, 2))[:, None]
        assert ratios.std() == pytest.approx(deviations[-1], rel=0.05)
    said = "{:.3f} for 4 heads of 64, and {:.3f} for 12.".format(*deviations)
    assert said in prose("docs/theory.md", "QK-norm")
