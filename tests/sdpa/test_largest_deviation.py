"""The law of the largest deviation of a row: three scores by hand, many by Student's t."""

import numpy as np
from numpy.testing import assert_allclose
from scipy import stats

from sdpa.theory.query_lengths import largest_deviation_survival


def test_the_largest_deviation_of_two_of_three_and_of_many_scores():
    """Of three, the deviations are sqrt(2) times the cosines of equally spaced angles. Of many, one
    is a function of Student's t (Grubbs 1950).
    """
    assert largest_deviation_survival(1.0, 2) == 1
    x = np.linspace(0.5**0.5, 2**0.5, 9)
    assert_allclose(largest_deviation_survival(x, 3), 3 * np.arccos(x / 2**0.5) / np.pi, atol=1e-7)
    x = np.array([5.6, 6.0, 7.5])
    t = x * np.sqrt((64 - 2) / (64 - 1 - x**2))
    assert_allclose(largest_deviation_survival(x, 64), 64 * stats.t.sf(t, 62), rtol=1e-9)
