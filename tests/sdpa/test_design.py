"""The divisor for a wanted row, by putting it back, and against closed forms of two keys."""

import math

import numpy as np
import pytest

from sdpa import PairLaw, theory

LAWS = [PairLaw(), PairLaw(query_mean=0.5, key_std=2.0), PairLaw(normalize="l2")]


@pytest.mark.parametrize("law", LAWS, ids=range(len(LAWS)))
@pytest.mark.parametrize(
    ("target", "value"), [("entropy_share", 0.9), ("entropy_share", 0.1), ("max_weight", 0.3), ("effective_keys", 7.0)]
)
def test_the_divisor_gives_the_wanted_value(target, value, law):
    found = theory.attention_expectations(16, 32, theory.divisor_for(target, value, 16, 32, law), law)
    values = {
        "entropy_share": found.entropy / math.log(32),
        "max_weight": found.max_weight,
        "effective_keys": math.exp(found.entropy),
    }
    assert values[target] == pytest.approx(value, rel=1e-9)


def test_the_spread_of_scores_follows_from_the_divisor_alone():
    divisor = theory.divisor_for("row_variance", 0.5, 16, 8, PairLaw(key_mean=3.0, query_std=2.0))
    assert divisor == pytest.approx(math.sqrt(16 * 4 * 7 / 8 / 0.5))


def test_a_causal_mask_counts_rows_of_all_lengths():
    divisor = theory.divisor_for("entropy_share", 0.8, 16, 6, shortest=3)
    entropies = [theory.attention_expectations(16, n, divisor).entropy for n in (3, 4, 5, 6)]
    assert sum(entropies) / math.log(3 * 4 * 5 * 6) == pytest.approx(0.8, rel=1e-9)


def test_simulated_rows_have_the_wanted_largest_weight():
    """Within 5 standard errors: a false alarm of 6e-7 under another seed."""
    divisor = theory.divisor_for("max_weight", 0.4, 8, 5)
    rng = np.random.default_rng(2)
    scores = np.einsum("td,tkd->tk", rng.normal(size=(40_000, 8)), rng.normal(size=(40_000, 5, 8))) / divisor
    largest = 1 / np.exp(scores - scores.max(axis=1, keepdims=True)).sum(axis=1)
    assert abs(largest.mean() - 0.4) < 5 * largest.std() / 200


@pytest.mark.parametrize(
    ("target", "value", "message"),
    [
        ("entropy_share", 1.1, r"entropy_share: expected a value above 0\.00\d+ and below 1, got 1\.1"),
        ("max_weight", 0.1, r"max_weight: expected a value above 0\.2\d* and below 0\.99\d+, got 0\.1"),
        ("effective_keys", 6, r"effective_keys: expected a value above 1\.\d+ and below 5, got 6"),
        ("row_variance", 0, "row_variance: expected a finite number above 0, got 0"),
        ("entropy", 0.5, "target: expected one of entropy_share, .*, got 'entropy'"),
    ],
)
def test_impossible_wishes_are_refused(target, value, message):
    with pytest.raises(ValueError, match=message):
        theory.divisor_for(target, value, 8, 5)


def test_words_of_other_rules():
    found = theory.equivalent_rules(5.0, d_k=100, n_keys=10)
    assert 100 ** found["exponent"] == pytest.approx(5)
    assert found["temperature"] * 10 == pytest.approx(5)
    assert 10 / (found["log_factor"] * math.log(10)) == pytest.approx(5)
    assert math.isnan(theory.equivalent_rules(5.0, d_k=1, n_keys=10)["exponent"])


@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_a_strong_correlation_has_a_finite_range(rho):
    """At the smallest divisors, theory knows no entropy of rows that are almost all saturated."""
    law = PairLaw(correlation=rho)
    divisor = theory.divisor_for("entropy_share", 0.5, 256, 16, law)
    assert theory.attention_expectations(256, 16, divisor, law).entropy == pytest.approx(0.5 * math.log(16))
    with pytest.raises(ValueError, match=r"expected a value above \d.* and below 1, got 1.5"):
        theory.divisor_for("entropy_share", 1.5, 256, 16, law)
