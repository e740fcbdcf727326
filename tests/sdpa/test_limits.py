"""The scales of d_k and the frozen phase, beside simulated rows and exact expectations."""

import re
from functools import partial
from math import exp, gamma, log, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import digamma, gammainc

from sdpa.theory import GaussianRow, attention_expectations, limits
from sdpa.theory.gaussian_rows import gaussian_rows
from tests.prose import part, prose


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

    least = (n_keys / 3 / np.e) ** 2
    return brentq(excess, 3 * least, 30 * least, xtol=1e-6 * least)


SCALES = [
    lambda n: limits.freezing_sigma(n) ** 2,
    largest_gradient,
    partial(limits.median_crossing, "jacobian_norm"),
    partial(limits.median_crossing, "weight_jacobian_norm"),
    mean_crossing,
]


@pytest.mark.slow
def test_the_table_of_scales_is_exact():
    """To its three digits."""
    for cells, scale in zip(rows_of("Three scales"), SCALES, strict=True):
        printed = [float(cell[0]) for cell in cells[1:]]
        assert printed == pytest.approx([*map(scale, (16, 256, 4096, 2**20))], rel=6e-3)


def frozen(m):
    """The limits of the largest weight, the entropy and |J|_F^2 of docs/theory.md."""
    largest, _ = quad(lambda t: 1 / (1 + exp(t) * t**m * gamma(1 - m) * gammainc(1 - m, t)), 0, 60)
    return largest, digamma(1) - digamma(1 - m), m * (1 - m) / 3


def test_the_table_of_the_frozen_phase_is_that_of_rows_and_limits():
    for (ratio,), n_keys, *cells in rows_of("The frozen phase"):
        if n_keys:
            (n,) = map(int, n_keys)
            sigma = float(ratio) * limits.freezing_sigma(n)
            largest, entropy, square, _ = gaussian_rows(np.array([sigma]), np.array([n]))[0]
        else:
            largest, entropy, square = frozen(1 / float(ratio))
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
