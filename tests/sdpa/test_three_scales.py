"""The three scales of d_k and the frozen phase, beside simulated rows and exact expectations."""

import re
from math import sqrt

import numpy as np
import pytest

from sdpa.theory import poisson_dirichlet as frozen
from sdpa.theory import three_scales as scales
from sdpa.theory.gaussian_rows import gaussian_rows
from sdpa.theory.limits import freezing_sigma
from tests.suite_process import ROOT


@pytest.mark.parametrize("n_keys", [3, 64])
def test_half_the_gaps_of_drawn_scores_are_below_the_median(n_keys):
    """Five standard errors: a false alarm in 2,000,000 runs of a size, if reseeded."""
    rows = 10**6 // n_keys + 20_000
    scores = np.random.default_rng(n_keys).standard_normal((rows, n_keys))
    first, second = -np.partition(-scores, 1, axis=1)[:, :2].T
    below = (first - second < scales.median_gap(n_keys)).mean()
    assert abs(below - 0.5) < 5 * 0.5 / sqrt(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "errors"),
    [  # largest relative distance at 16, 64 and 2^20 keys
        ("largest", (0.27, 0.06, 0.008)),
        ("typical", (0.09, 0.05, 0.06)),
        ("typical_by_gap", (0.315, 0.10, 0.002)),
        ("typical_query", (0.15, 0.06, 0.006)),
        ("mean", (0.49, 0.08, 0.001)),
    ],
)
def test_laws_are_as_near_to_exact_values_as_stated(name, errors):
    """In docs/theory.md."""
    scale = scales.SCALES[name]
    for n_keys, error in zip((16, 64, 2**20), errors, strict=True):
        assert scale.law(n_keys) == pytest.approx(scale.exact(n_keys), rel=error)


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
        frozen.entropy(m): -(weights * np.log(weights)).sum(axis=1),
        frozen.jacobian_square(m): s2 - 2 * s3 + s2**2,
        frozen.max_weight(m): weights[:, 0],
        frozen.share_above(m, 0.6): weights[:, 0] > 0.6,
    }
    for exact, rows in found.items():
        assert abs(rows.mean() - exact) < 5 * rows.std() / sqrt(len(rows)) + 2e-3


def rows_of(heading):
    """The numbers of the last table of a part of docs/theory.md, row by row."""
    text = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    part = text.partition(f"## {heading}")[2].partition("\n## ")[0]
    table = re.findall(r"(?:^\|[ -].*\n)+", part, re.MULTILINE)[-1].splitlines()[2:]
    rows = [row.replace(",", "").strip("| ").split(" | ") for row in table]
    return [[re.findall(r"[\d.]+(?:e\+\d+)?", cell) for cell in row] for row in rows]


@pytest.mark.slow
def test_the_table_of_scales_is_that_of_the_laws():
    """To its three digits: each law, and the exact value in brackets if there is one."""
    rows = rows_of("Three scales")
    for cells, scale in zip(rows, scales.SCALES.values(), strict=True):
        for n_keys, cell in zip((16, 256, 4096, 2**20), cells[1:], strict=True):
            expected = [scale.law(n_keys)] + ([scale.exact(n_keys)] if scale.exact else [])
            assert [*map(float, cell)] == pytest.approx(expected, rel=6e-3)


def test_the_table_of_the_frozen_phase_is_that_of_rows_and_limits():
    for (ratio,), n_keys, *cells in rows_of("The frozen phase"):
        if n_keys:
            (n,) = map(int, n_keys)
            sigma = float(ratio) * freezing_sigma(n)
            largest, entropy, square, share = gaussian_rows(np.array([sigma]), np.array([n]))[0]
        else:
            m = 1 / float(ratio)
            largest, entropy = frozen.max_weight(m), frozen.entropy(m)
            square, share = frozen.jacobian_square(m), frozen.share_above(m, 0.99)
        found = [float(cell) for (cell,) in cells]
        assert found == pytest.approx([largest, entropy, sqrt(square), share], abs=6e-4)
