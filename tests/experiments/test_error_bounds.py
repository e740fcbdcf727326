"""The declared accuracy of exact values, at corners, against quadrature that shares no nodes with
the theory.
"""

from functools import cache
from math import log, sqrt

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from experiments.kinds.saturation.cell import Cell
from experiments.measuring.rows.metrics import METRICS
from sdpa import Scaling, theory
from sdpa.theory.query_lengths import score_survival

pytestmark = pytest.mark.slow  # every column beside an independent route

WIDTHS = (1, 2, 16, 512, 4096)
SCALINGS = ("unscaled", "d_k^1/2", "d_k^1")


def is_within(metric, cell, truth):
    """True if the exact value of a cell is as near to the truth as declared, or 0 beside a share
    that no run shows.
    """
    value = metric.exact.value(theory, cell)
    least = 1e-12 if metric.name == "tiny_weights" else 1e-40
    return abs(value - truth) <= max(metric.exact.accuracy * truth, least)


def scored(cell_type, scaling, **axes):
    """A cell with one query and one scaling."""
    return cell_type(scaling=(Scaling.parse(scaling),), n_queries=1, **axes)


@cache
def gaps(d_k, step):
    """Scores of two vectors of width d_k above 0, in equal steps of their logarithm, and their
    probabilities.
    """
    s = np.exp(np.arange(-70, 9.5, step))
    law = stats.chi(d_k)  # of |q|, given which scores are normal
    x, width = np.linspace(log(law.ppf(1e-40)), log(law.isf(1e-40)), 600, retstep=True)
    share = law.pdf(np.exp(x)) * width
    density = stats.norm.pdf(np.minimum(s[:, None] / np.exp(x), 100)) @ share
    return s, 2 * step * density * s


def over_gaps(d_k, divisor, of_gap):
    """E f of the gap of two scores, f even: sqrt(2) / divisor times such a score. Half the step
    changes nothing.
    """
    found, fine = (
        of_gap(sqrt(2) * x / divisor) @ weights
        for x, weights in (gaps(d_k, 0.05), gaps(d_k, 0.025))
    )
    assert found == pytest.approx(fine, rel=1e-10)
    return float(fine)


def product(gap):
    """w_1 w_2, in which nothing cancels."""
    return expit(gap) * expit(-gap)


def of_two_keys(d_k, divisor):
    """The metrics of rows of two keys that follow from the gap of their scores.

    J has the eigenvalue 2 w_1 w_2 along (1, -1) / sqrt(2). A factor |q|^2 turns the density of |q|
    into that of d_k + 2, times d_k; and q and (k_1 - k_2) / sqrt(2) may change places, so that
    dL/dq has the mean square of dL/dk.
    """
    trace = over_gaps(d_k, divisor, lambda gap: 2 * product(gap))
    gradient = sqrt(d_k * over_gaps(d_k + 2, divisor, lambda gap: 4 * product(gap) ** 2)) / divisor
    return {
        "max_weight": over_gaps(d_k, divisor, expit),
        "entropy": over_gaps(d_k, divisor, lambda gap: np.logaddexp(0, -gap) + gap * expit(-gap)),
        "jacobian_trace": trace,
        "output_std": sqrt(1 - trace),
        "value_gradient_norm": sqrt((1 - trace) / 2),
        "jacobian_norm": sqrt(over_gaps(d_k, divisor, lambda gap: 4 * product(gap) ** 2)),
        "query_gradient_norm": gradient,
        "key_gradient_norm": gradient / sqrt(2),
        "saturated_rows": 2 * float(score_survival(log(99) * divisor / sqrt(2), d_k)),
        "row_variance": d_k / divisor**2 / 2,
        "own_weight": 0.5,
        "score_mean": 0.0,
        "score_variance": d_k / divisor**2,
        "score_kurtosis": 6 / d_k,
    }


@pytest.mark.parametrize(
    ("d_k", "scalings"),
    [
        *((d_k, SCALINGS) for d_k in WIDTHS),
        *((d_k, ("0.01", "0.001", "0.00001")) for d_k in (1, 3)),
    ],
)
def test_two_keys_by_the_density_of_their_gap(d_k, scalings):
    for scaling in scalings:
        cell = scored(Cell, scaling, d_k=d_k, n_keys=2)
        truth = of_two_keys(d_k, cell.divisor)
        for metric in METRICS:
            if metric.exact is not None:
                assert is_within(metric, cell, truth[metric.name]), (scaling, metric.name)
