"""Rows of queries and keys with means and standard deviations: against quadrature, and against plain draws."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from sdpa import LAWS
from sdpa.inputs import InputLaw
from sdpa.pairs import PairLaw, spectrum_of
from sdpa.theory import (
    GaussianRow,
    UnknownError,
    attention_deviations,
    attention_expectations,
    least_draw_deviations,
    row_variance,
    row_variance_deviation,
)
from sdpa.theory.queries import query_lengths

SHIFTED = PairLaw(query_mean=0.6, key_mean=-1.5, query_std=0.8, key_std=1.4)


@pytest.mark.parametrize(("d_k", "noncentrality"), [(1, 0.01), (1, 30.0), (5, 2.0), (64, 64.0), (300, 3e5)])
def test_the_law_of_the_query_lengths_is_noncentral_chi_squared(d_k, noncentrality):
    lengths, law = query_lengths(d_k, noncentrality), stats.ncx2(d_k, noncentrality)
    mean = d_k + noncentrality
    assert lengths.share.sum() == pytest.approx(1)
    assert lengths.share @ lengths.length**2 == pytest.approx(mean, rel=1e-8)
    assert lengths.share @ (lengths.length**2 - mean) ** 2 == pytest.approx(lengths.variance, rel=1e-6)
    # A smooth function of ln |q|, and its derivative by a factor of |q|.
    deviation = math.sqrt(lengths.variance) / mean

    def function(square):
        return np.tanh(np.log(square / mean) / deviation)

    ends = [law.ppf(1e-11), *law.ppf([1e-4, 0.03, 0.5, 0.97]), law.isf(1e-11)]
    expected = sum(
        integrate.quad(lambda y: function(y) * law.pdf(y), a, b, epsrel=1e-10, epsabs=1e-14, limit=200)[0]
        for a, b in itertools.pairwise(ends)
    )
    assert lengths.share @ function(lengths.length**2) == pytest.approx(expected, abs=1e-8)
    derivative = 2 / deviation * (lengths.share @ (1 - function(lengths.length**2) ** 2))
    assert lengths.share @ (lengths.slope * function(lengths.length**2)) == pytest.approx(derivative, rel=1e-5)


def two_keys(d_k, law, divisor):
    """The metrics of two keys and their squares, averaged over |q| and y = (z1 - z2) / sqrt(2).

    J has one eigenvalue, 2 p (1 - p) = b, along the vector to which the keys have the component y along q:
    |K^T J|_F^2 = b^2 (y^2 + chi^2 of d_k - 1) key_std^2, whose square has the mean b^4 (y^4 + ...) key_std^4.
    """
    nodes, weights = np.polynomial.legendre.leggauss(500)
    y, y_weights = 5 * (nodes + 1), 5 * weights
    of_square = stats.ncx2(d_k, d_k * (law.query_mean / law.query_std) ** 2)
    most = math.sqrt(of_square.isf(1e-15))
    length, length_weights = most / 2 * (nodes[:, None] + 1), most / 2 * weights[:, None]
    probability = 2 * stats.norm.pdf(y) * y_weights * 2 * length * of_square.pdf(length**2) * length_weights
    sigma = law.query_std * law.key_std * length / divisor
    p = special.expit(sigma * math.sqrt(2) * y)
    b, scale = 2 * p * (1 - p), (law.key_std / divisor) ** 2
    first = {
        "max_weight": p,
        "entropy": special.entr(p) + special.entr(1 - p),
        "jacobian_trace": b,
        "jacobian_square": b**2,
        "query_gradient_square": scale * b**2 * (y**2 + d_k - 1),
        "saturated_rows": 1.0 * (p > 0.99),
        "collision": 1 - b,
        "key_gradient_square": b**2 * (law.query_std * length / divisor) ** 2,
        "row_variance": (sigma * y) ** 2 / 2,
    }
    second = {name: value**2 for name, value in first.items()}
    second["query_gradient_square"] = scale**2 * b**4 * (y**4 + 2 * y**2 * (d_k - 1) + d_k**2 - 1)
    return [{name: (probability * value).sum() for name, value in each.items()} for each in (first, second)]


def squares_of(exact):
    """The expectations, with the norms as mean squares and by the names of `two_keys`."""
    return {
        "max_weight": exact.max_weight,
        "entropy": exact.entropy,
        "jacobian_trace": exact.jacobian_trace,
        "jacobian_square": exact.jacobian_norm**2,
        "query_gradient_square": exact.query_gradient_norm**2,
        "saturated_rows": exact.saturated_rows,
        "collision": exact.output_std**2,
        "key_gradient_square": exact.key_gradient_norm**2,
        "row_variance": exact.row_variance,
    }


@pytest.mark.parametrize("law", [PairLaw(), SHIFTED, PairLaw(query_mean=-2.0, key_std=0.3)], ids=repr)
@pytest.mark.parametrize(("d_k", "divisor"), [(2, 1.0), (5, 2.0)])
def test_two_keys_by_quadrature(d_k, divisor, law):
    first, second = two_keys(d_k, law, divisor)
    exact = attention_expectations(d_k, 2, divisor, law)
    for name, value in squares_of(exact).items():
        smooth = name != "saturated_rows"  # a step, which no polynomial follows
        assert value == pytest.approx(first[name], rel=1e-6 if smooth else 5e-3, abs=1e-9 if smooth else 1e-5), name
    assert exact.value_gradient_norm == exact.output_std
    assert exact.own_weight == pytest.approx(1 / 2, rel=1e-12)
    spread = attention_deviations(d_k, 2, divisor, law)
    for name in ("max_weight", "entropy", "jacobian_trace", "jacobian_square", "query_gradient_square"):
        expected = math.sqrt(second[name] - first[name] ** 2)
        assert getattr(spread, name) == pytest.approx(expected, rel=2e-6), name
    share = exact.saturated_rows
    assert spread.saturated_rows == pytest.approx(math.sqrt(share * (1 - share)), rel=1e-9)


def plain_draws(rng, law, draws, n_queries, n_keys, d_k, divisor):
    """Every metric of each row of draws, from the definitions and with the Jacobian written out, (draws, n_queries)."""
    q = law.query_mean + law.query_std * rng.standard_normal((draws, n_queries, d_k))
    k = law.key_mean + law.key_std * rng.standard_normal((draws, n_keys, d_k))
    s = np.einsum("tid,tjd->tij", q, k) / divisor
    w = np.exp(s - s.max(axis=-1, keepdims=True))
    w /= w.sum(axis=-1, keepdims=True)
    j = w[..., None] * np.eye(n_keys) - w[..., None] * w[..., None, :]
    to_query = np.einsum("tiab,tad->tibd", j, k) / divisor
    to_scores = np.einsum("tiab,tib->tia", j, rng.standard_normal(w.shape)) / divisor
    # Entries of a value; as many queries as keys make the sum over the queries a mean.
    to_keys = np.einsum("tia,tid->tad", to_scores, q) * math.sqrt(n_keys / n_queries)
    to_values = np.einsum("tia,tid->tad", w, rng.standard_normal(q.shape)) * math.sqrt(n_keys / n_queries)
    return {
        "max_weight": w.max(axis=-1),
        "entropy": special.entr(w).sum(axis=-1),
        "jacobian_trace": np.trace(j, axis1=-2, axis2=-1),
        "jacobian_square": (j**2).sum(axis=(-1, -2)),
        "query_gradient_square": (to_query**2).sum(axis=(-1, -2)),
        "saturated_rows": (w.max(axis=-1) > 0.99) * 1.0,
        "collision": (np.einsum("tia,tad->tid", w, rng.standard_normal(k.shape)) ** 2).mean(axis=-1),
        "key_gradient_square": (j**2).sum(axis=(-1, -2)) * (q**2).sum(axis=-1) / divisor**2,
        "drawn_key_gradient_square": (to_keys**2).sum(axis=-1),
        "value_gradient_square": (to_values**2).mean(axis=-1),
        "row_variance": s.var(axis=-1),
        "own_weight": w[..., 0],
    }


@pytest.mark.parametrize(("d_k", "n_keys", "divisor"), [(3, 12, 2.0), (10, 4, 10.0)])
def test_draws_agree_with_expectations_deviations_and_limits(d_k, n_keys, divisor):
    """4,000 draws of four rows at a fixed seed: within 5 standard errors, or one saturated row in a thousand draws."""
    rare = 1e-3 / 5
    found = plain_draws(np.random.default_rng(17), SHIFTED, 4000, 4, n_keys, d_k, divisor)
    expected = attention_expectations(d_k, n_keys, divisor, SHIFTED)
    exact = squares_of(expected) | {"own_weight": expected.own_weight}
    same = {"value_gradient_square": "collision", "drawn_key_gradient_square": "key_gradient_square"}
    for name, rows in found.items():
        means = rows.mean(axis=1)
        assert abs(means.mean() - exact[same.get(name, name)]) <= 5 * means.std() / math.sqrt(len(means)) + rare, name
    row = attention_deviations(d_k, n_keys, divisor, SHIFTED)
    least = least_draw_deviations(d_k, n_keys, 4, divisor, SHIFTED)
    for name in row.__dataclass_fields__:
        one = found[name][:, 0]
        error = ((one - one.mean()) ** 2).std() / math.sqrt(len(one)) + rare
        assert abs(one.var() - getattr(row, name) ** 2) <= 5 * error + 5e-3 * one.var(), name
        if name == "own_weight":
            continue  # rows of a draw have different own keys: a mean over them is another metric
        means = found[name].mean(axis=1)
        error = ((means - means.mean()) ** 2).std() / math.sqrt(len(means)) + rare
        assert 0.3 * means.var() - 5 * error <= getattr(least, name) ** 2 <= means.var() + 5 * error, name


def test_the_mean_of_the_keys_changes_nothing_and_spreads_act_through_the_scores():
    one = attention_expectations(8, 16, 2.0, PairLaw(query_mean=0.5, query_std=1.5, key_std=0.5))
    assert attention_expectations(8, 16, 2.0, PairLaw(query_mean=0.5, key_mean=9.0, query_std=1.5, key_std=0.5)) == one
    other = attention_expectations(8, 16, 2.0 / 0.75, PairLaw(query_mean=0.5 / 1.5))
    assert one.entropy == pytest.approx(other.entropy, rel=1e-12)
    assert one.query_gradient_norm == pytest.approx(other.query_gradient_norm / 1.5, rel=1e-12)
    assert one.key_gradient_norm == pytest.approx(other.key_gradient_norm / 0.5, rel=1e-12)


@pytest.mark.parametrize("noise", [1e-3, 0.1, 10.0])
def test_queries_of_one_length_have_the_row_of_that_length(noise):
    """A mean far above the spread leaves one |q|, and one far below it changes nothing."""
    law = PairLaw(query_mean=1.0, query_std=noise * 1e-3)
    row = GaussianRow(math.sqrt(16) / 3, 7)
    assert attention_expectations(16, 7, 3.0, law).entropy == pytest.approx(row.entropy(), rel=noise * 1e-3)
    small = attention_expectations(16, 7, 3.0, PairLaw(query_mean=1e-9))
    assert small.entropy == pytest.approx(attention_expectations(16, 7, 3.0).entropy, rel=1e-8)


@pytest.mark.parametrize(
    "law",
    [
        SHIFTED,
        PairLaw(entries=LAWS["lognormal"], query_mean=0.5, key_mean=1.0),
        PairLaw(spectrum=1.0, query_mean=0.7, key_std=2.0),
        PairLaw(correlation=0.7, key_mean=1.0, query_std=2.0),
        PairLaw(correlation=-0.9, spectrum=1.5),
        PairLaw(normalize="l2"),
        PairLaw(normalize="rms", key_std=3.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("shortest", [None, 2])
def test_the_variance_within_rows_of_draws(law, shortest):
    """20,000 draws of three queries, which see four keys or, under the mask, those up to their own."""
    rng = np.random.default_rng(19)
    keys = law.keys(rng, (20_000, 4, 5))
    queries = law.queries(rng, (20_000, 3, 5), own_keys=keys[:, 1:])
    scores = queries @ keys.swapaxes(-1, -2) / 2
    seen = [4, 4, 4] if shortest is None else [2, 3, 4]
    within = np.mean([scores[:, i, :n].var(axis=-1) for i, n in enumerate(seen)], axis=0)
    error = within.std() / math.sqrt(len(within))
    assert abs(within.mean() - row_variance(5, 4, 2.0, law, shortest)) < 5 * error


@pytest.mark.parametrize(
    ("law", "reason"),
    [
        (PairLaw(entries=LAWS["uniform"]), "softmax rows are known only for gaussian entries"),
        (PairLaw(spectrum=1.0), "softmax rows are unknown for entries of unequal variance"),
    ],
)
def test_unknown_rows_are_refused_with_a_reason(law, reason):
    for function in (
        lambda: attention_expectations(4, 4, 1.0, law),
        lambda: attention_deviations(4, 4, 1.0, law),
        lambda: least_draw_deviations(4, 4, 4, 1.0, law),
    ):
        with pytest.raises(UnknownError, match=reason):
            function()


# Mean 0, variance 1, and moments that differ from those of a normal law: 2 with the probability 1/5, else -1/2.
TWO_POINTS = InputLaw(
    "two points", lambda rng, shape: rng.choice([2.0, -0.5], shape, p=[0.2, 0.8]), (1.5, 3.25, 0, 0, 0, 0)
)


@pytest.mark.parametrize(
    "law",
    [
        PairLaw(TWO_POINTS),
        PairLaw(TWO_POINTS, query_mean=0.7, key_mean=-2.0, query_std=1.5, key_std=0.4),
        PairLaw(TWO_POINTS, query_mean=-0.3, spectrum=1.5),
    ],
)
def test_the_spread_of_the_variance_within_rows_by_summing_over_all_draws(law):
    d_k, n_keys, divisor = 2, 3, 1.7
    entries = np.array(list(itertools.product([2.0, -0.5], repeat=d_k * (1 + n_keys))))
    chances = np.where(entries == 2.0, 0.2, 0.8).prod(axis=1)
    roots = np.sqrt(spectrum_of(d_k, law.spectrum))
    q = law.query_mean + law.query_std * roots * entries[:, :d_k]
    k = law.key_mean + law.key_std * roots * entries[:, d_k:].reshape(-1, n_keys, d_k)
    of_row = np.einsum("rd,rkd->rk", q, k / divisor).var(axis=-1)
    mean = chances @ of_row
    assert row_variance(d_k, n_keys, divisor, law) == pytest.approx(mean, rel=1e-12)
    expected = math.sqrt(chances @ (of_row - mean) ** 2)
    assert row_variance_deviation(d_k, n_keys, divisor, law) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("law", [PairLaw(), SHIFTED, PairLaw(correlation=0.6), PairLaw(normalize="rms")])
def test_the_spread_of_the_variance_within_rows_agrees_with_deviations_and_limits(law):
    found = row_variance_deviation(6, 4, 2.0, law)
    assert least_draw_deviations(6, 4, 1, 2.0, law).row_variance == pytest.approx(found, rel=1e-9)
    several = math.sqrt(np.mean([row_variance_deviation(6, n, 2.0, law) ** 2 for n in (2, 3, 4)]))
    assert row_variance_deviation(6, 4, 2.0, law, shortest=2) == pytest.approx(several, rel=1e-12)


def test_the_spread_of_the_variance_within_rows_is_unknown_for_a_correlation_with_a_spectrum():
    with pytest.raises(UnknownError, match="correlation with a spectrum"):
        row_variance_deviation(6, 4, 2.0, PairLaw(correlation=0.5, spectrum=1.0))
