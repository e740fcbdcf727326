"""The scales of d_k and the frozen phase, beside simulated rows and exact expectations."""

import re
from functools import partial
from math import exp, gamma, log, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import digamma, gammainc

from sdpa.theory import attention_expectations, limits
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
        actual = [float(cell) for (cell,) in cells]
        assert actual == pytest.approx([largest, entropy, sqrt(square)], abs=6e-4)


def test_joint_norms_of_heads_differ_as_docs_say():
    rng, deviations = np.random.default_rng(2), []
    for heads in (4, 12):
        deviations.append(sqrt((heads - 1) / (heads * 64 / 2 + 1)))
        squares = rng.standard_normal((2000, heads, 64)) ** 2
        ratios = squares.mean(axis=2) / squares.mean(axis=(1, 2))[:, None]
        assert ratios.std() == pytest.approx(deviations[-1], rel=0.05)
    said = "{:.3f} for 4 heads of 64, and {:.3f} for 12.".format(*deviations)
    assert said in prose("docs/theory.md", "QK-norm")
