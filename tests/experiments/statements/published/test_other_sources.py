"""Statements of other sources: few keys, and draws whose keys may be shared."""

import numpy as np
import pytest

from experiments.statements.published.other_sources import deviation_p_value, leading_weight


def test_scalable_softmax_is_judged_at_few_keys_too(judge):
    assert judge("ssmax-1") == "misleading"
    assert leading_weight(2, 0.43 * np.log(2)) == pytest.approx(1 / (1 + 2**-2.15))


@pytest.mark.parametrize("d", [16, 64])
@pytest.mark.parametrize("shared", [False, True])
def test_a_draw_in_twenty_has_a_deviation_with_a_p_value_below_one_twentieth(d, shared):
    rng, queries = np.random.default_rng(0), 40
    q = rng.standard_normal((2000, queries, 1, d))
    k = rng.standard_normal((2000, 1 if shared else queries, 8, d))
    deviations = np.sqrt(((q @ k.swapaxes(-1, -2)) ** 2).mean(axis=(1, 2, 3)))
    p_values = [deviation_p_value(d, deviation, queries, shared=shared) for deviation in deviations]
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.02)
