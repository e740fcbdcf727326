"""The exact values of attention rows: one table of laws and sizes against draws, and quadrature
over few keys.
"""

from dataclasses import dataclass, replace
from inspect import isfunction, signature, unwrap
from math import exp, log, pi, sqrt

import numpy as np
import pytest
from numerics import integral, standard_errors
from scipy import stats
from scipy.special import entr, expit, logit, ndtr, softmax

from sdpa import LAWS, theory
from sdpa.pairs import PairLaw
from sdpa.row_maps import RowMap
from sdpa.theory import (
    GaussianRow,
    UnknownError,
    attention_deviations,
    attention_expectations,
    divisor_for,
    least_draw_deviations,
)
from sdpa.theory.cosine_law import CosineLaw
from sdpa.theory.deviations import least_row_variances
from sdpa.theory.row_metrics import RowMetrics
from sdpa.theory.row_moments import row_means, row_moments
from sdpa.theory.score_law import query_lengths

SHIFTED = PairLaw(query_mean=0.6, key_mean=-1.5, query_std=0.8, key_std=1.4)
L2, RMS = PairLaw(normalize="l2"), PairLaw(normalize="rms", query_std=3.0)
SQUARES = {
    "jacobian_square": "jacobian_norm",
    "key_gradient_square": "key_gradient_norm",
    "collision": "output_std",
}
SQUARES |= {"query_gradient_square": "query_gradient_norm"}


def squares_of(exact):
    """The expectations, with the norms as mean squares and by the names of `RowMetrics`."""
    return {
        n: getattr(exact, SQUARES[n]) ** 2 if n in SQUARES else getattr(exact, n)
        for n in RowMetrics._fields
    }


@dataclass(frozen=True)
class Case:
    """Rows of a law and sizes; under a mask with the shortest row."""

    law: PairLaw
    d_k: int
    n_keys: int
    divisor: float
    shortest: int | None = None
    n_queries: int = 1

    @property
    def is_independent(self):
        return not self.law.correlation and self.law.normalize == "none"

    def exact(self, function=attention_expectations):
        return function(self.d_k, self.n_keys, self.divisor, self.law, self.shortest)

    def draws(self, rng, draws):
        """Scores and weights of rows of draws, (draws, queries, keys), with the queries and keys,
        all written out.
        """
        law, mask = self.law, self.shortest is not None
        n_queries = self.n_keys - self.shortest + 1 if mask else self.n_queries
        q = rng.standard_normal((draws, n_queries, self.d_k))
        k = rng.standard_normal((draws, self.n_keys, self.d_k))
        own = np.arange(n_queries) + (self.shortest - 1 if mask else 0)
        own %= self.n_keys
        k[:, own] = law.correlation * q + sqrt(1 - law.correlation**2) * k[:, own]
        q = law.query_mean + law.query_std * q
        k = law.key_mean + law.key_std * k
        if law.normalize != "none":
            length = 1.0 if law.normalize == "l2" else sqrt(self.d_k)
            q, k = (length * x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
        s = np.einsum("tid,tjd->tij", q, k) / self.divisor
        seen = np.ones((n_queries, self.n_keys), bool)
        if mask:
            seen = np.arange(self.n_keys) <= own[:, None]
        return q, k, s, seen, softmax(np.where(seen, s, -np.inf), axis=-1), own

    def metrics(self, rng, draws):
        """Every metric of each row from its definition, with the Jacobian written out, (draws,
        queries) each.
        """
        q, k, s, seen, w, own = self.draws(rng, draws)
        j = w[..., None] * np.eye(self.n_keys) - w[..., None] * w[..., None, :]
        to_query = np.einsum("tiab,tad->tibd", j, k) / self.divisor
        if not self.is_independent:  # one gradient g, with the same mean square
            g = rng.standard_normal((*w.shape[:2], 1, self.n_keys))
            to_query = g @ to_query
        square = (j**2).sum(axis=(-1, -2))
        counts = seen.sum(axis=-1)
        centred = np.where(seen, s - (s * seen).sum(axis=-1, keepdims=True) / counts[:, None], 0)
        return {
            "max_weight": w.max(axis=-1),
            "entropy": entr(w).sum(axis=-1),
            "jacobian_trace": np.trace(j, axis1=-2, axis2=-1),
            "jacobian_square": square,
            "query_gradient_square": (to_query**2).sum(axis=(-1, -2)),
            "saturated_rows": (w.max(axis=-1) > 0.99) * 1.0,
            "row_variance": (centred**2).sum(axis=-1) / counts,
            "collision": (w**2).sum(axis=-1),
            "key_gradient_square": square * (q**2).sum(axis=-1) / self.divisor**2,
            "own_weight": w[:, np.arange(len(own)), own],
        }


# Independent entries; masks; correlations, among them own keys that equal the query; normalized
# vectors.
CASES = [
    Case(PairLaw(), 8, 24, 8**0.5),
    Case(PairLaw(query_std=1.3, key_std=1.3), 3, 2, 1.7),
    Case(SHIFTED, 3, 12, 2.0, n_queries=4),
    Case(PairLaw(), 1, 2, 1.0, n_queries=16),
    Case(PairLaw(), 8, 4, 1.0, shortest=1),
    Case(PairLaw(correlation=0.5), 16, 24, 1.0),
    Case(PairLaw(correlation=-0.7, query_std=0.9, key_mean=0.7, key_std=1.1), 8, 5, 2.0),
    Case(PairLaw(correlation=1.0), 16, 20, 4.0),
    Case(PairLaw(correlation=0.6), 16, 4, 4.0, shortest=1),
    Case(L2, 64, 3, 0.02),
    Case(RMS, 3, 20, 0.2),
    Case(L2, 8, 4, 0.1, shortest=2),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_agree(case):
    """Expectations within 5 standard errors of 10,000 draws at a fixed seed, or one saturated row
    in 1,000 draws; exact deviations within 5; lower limits of a draw below its deviation (a false
    alarm of 1e-4 in all if reseeded)."""
    draws = 10_000 // max(case.n_queries // 4, 1)
    rare = 2e-4
    found = case.metrics(np.random.default_rng(17), draws)
    exact = squares_of(case.exact())
    n_queries = found["entropy"].shape[1]
    sizes = case.d_k, case.n_keys, n_queries
    least = least_draw_deviations(*sizes, case.divisor, case.law, case.shortest)
    for name, rows in found.items():
        means = rows.mean(axis=1)
        assert abs(means.mean() - exact[name]) <= 5 * means.std() / sqrt(draws) + rare, name
        if name == "own_weight" and n_queries > 1:
            continue  # rows of a draw have different own keys: a mean over them is another metric
        if name == "query_gradient_square" and not case.is_independent:
            continue  # of one g, whose spread is larger
        limit = getattr(least, name) ** 2
        error = 5 * ((means - means.mean()) ** 2).std() / sqrt(draws) + 5 * rare
        if not case.is_independent:
            assert limit <= 2 * means.var() + error, name  # heavy tails come out too small
            continue
        assert limit <= means.var() + error, name
        variance = getattr(case.exact(attention_deviations), name) ** 2
        if case.shortest is not None:
            assert means.var() <= variance + error, name
            continue
        one = rows[:, 0]
        error_of_one = 5 * ((one - one.mean()) ** 2).std() / sqrt(draws) + 5 * rare
        assert abs(one.var() - variance) <= error_of_one + 5e-3 * one.var(), name
        assert limit >= 0.3 * means.var() - error, name


def test_gradients_to_keys_and_values_of_draws_agree():
    """Sums over the queries of a draw, with one gradient g each, from their definitions: within 5
    standard errors.
    """
    case, rng = Case(SHIFTED, 3, 6, 2.0, n_queries=4), np.random.default_rng(5)
    q, _, _, _, w, _ = case.draws(rng, 20_000)
    g = rng.standard_normal(w.shape)
    to_scores = w * (g - (w * g).sum(axis=-1, keepdims=True)) / case.divisor
    to_keys = (np.einsum("tia,tid->tad", to_scores, q) ** 2).sum(axis=-1).mean(axis=-1)
    to_values = np.einsum("tia,tid->tad", w, rng.standard_normal(q.shape))
    to_values = (to_values**2).mean(axis=(-1, -2))
    exact = case.exact()
    assert standard_errors(to_keys, exact.key_gradient_norm**2 * 4 / 6) < 5
    assert standard_errors(to_values, exact.value_gradient_norm**2 * 4 / 6) < 5


@pytest.mark.parametrize(("d_k", "noncentrality"), [(1, 0.01), (1, 30.0), (64, 64.0), (300, 3e5)])
def test_the_law_of_the_query_lengths_is_noncentral_chi_squared(d_k, noncentrality):
    lengths, law = query_lengths(d_k, noncentrality), stats.ncx2(d_k, noncentrality)
    square = lengths.length**2
    mean = d_k + noncentrality
    assert lengths.share @ square == pytest.approx(mean, rel=1e-8)
    variance = lengths.share @ (square - mean) ** 2
    assert variance == pytest.approx(lengths.variance, rel=1e-6)
    # A smooth function of ln |q|, and its derivative by a factor of |q|.
    deviation = sqrt(lengths.variance) / mean

    def function(square):
        return np.tanh(np.log(square / mean) / deviation)

    ends = [law.ppf(1e-11), *law.ppf([1e-4, 0.03, 0.5, 0.97]), law.isf(1e-11)]
    tolerances = {"epsrel": 1e-10, "epsabs": 1e-14, "limit": 200}
    expected = integral(lambda y: function(y) * law.pdf(y), ends, **tolerances)
    values = function(square)
    assert lengths.share @ values == pytest.approx(expected, abs=1e-8)
    derivative = 2 / deviation * (lengths.share @ (1 - values**2))
    found = lengths.share @ (lengths.slope * values)
    assert found == pytest.approx(derivative, rel=1e-5)


@pytest.mark.parametrize("rho", [0.0, -0.8, 1.0])
@pytest.mark.parametrize(("d_k", "divisor"), [(2, 1.0), (20, 4.0)])
def test_two_keys_by_quadrature(d_k, divisor, rho):
    """Given |q|, the own score minus the other's is N(m, (2 - rho^2) sigma^2). With p the own
    weight, J has the eigenvalue 2 p (1 - p) = b along (1, -1) / sqrt(2), and the difference of the
    keys has d_k - 1 entries across q of the variance (2 - rho^2) key_std^2. For rho = 0, F = |K^T
    J|_F^2 is b^2 (y^2 + chi^2 of d_k - 1) key_std^2."""
    law = PairLaw(
        correlation=rho, key_mean=3.0, query_std=0.8, key_std=1.5, query_mean=0.0 if rho else 0.5
    )
    of_square = stats.ncx2(d_k, d_k * (law.query_mean / law.query_std) ** 2)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    most, z, z_steps = sqrt(of_square.isf(1e-15)), 9 * nodes, 9 * weights
    length = most / 2 * (nodes[:, None] + 1)
    of_length = 2 * length * of_square.pdf(length**2) * most / 2 * weights[:, None]
    sigma, deviation = law.query_std * law.key_std * length / divisor, sqrt(2 - rho**2)
    chance = of_length * stats.norm.pdf(z) * z_steps
    x = sigma * (rho * length + deviation * z)
    p, other = expit(x), expit(-x)
    b, scale = 2 * p * other, (law.key_std / divisor) ** 2
    y = x / sigma / sqrt(2)
    # max(p, 1 - p) on either side of its kink.
    kink, largest = np.clip(-rho * length / deviation, -9, 9), [0.0, 0.0]
    for low, high in ((-9.0, kink), (kink, 9.0)):
        z_part = (low + high) / 2 + (high - low) / 2 * nodes
        values = expit(np.abs(sigma * (rho * length + deviation * z_part)))
        parts = [
            (v * stats.norm.pdf(z_part) * weights).sum(axis=1, keepdims=True)
            for v in (values, values**2)
        ]
        largest = [
            a + (of_length * part * (high - low) / 2).sum()
            for a, part in zip(largest, parts, strict=True)
        ]
    threshold = logit(0.99) / sigma
    saturated = sum(ndtr((sign * rho * length - threshold) / deviation) for sign in (1, -1))
    first = {
        "entropy": entr(p) + entr(other),
        "jacobian_trace": b,
        "jacobian_square": b**2,
        "query_gradient_square": scale * b**2 * (y**2 + (d_k - 1) * (1 - rho**2 / 2)),
        "row_variance": x**2 / 4,
        "collision": p**2 + other**2,
        "key_gradient_square": b**2 * (law.query_std * length / divisor) ** 2,
        "own_weight": p,
    }
    mean = {name: (chance * values).sum() for name, values in first.items()}
    exact = attention_expectations(d_k, 2, divisor, law)
    found = squares_of(exact)
    assert {name: found[name] for name in mean} == pytest.approx(mean, rel=1e-6)
    assert exact.max_weight == pytest.approx(largest[0], rel=1e-6)
    assert exact.saturated_rows == pytest.approx((of_length * saturated).sum(), rel=1e-6)
    second = {name: (chance * values**2).sum() for name, values in first.items()}
    if rho:
        _, squares = row_moments(d_k, 2, divisor, law)
        for name in ("jacobian_trace", "jacobian_square", "own_weight"):
            assert getattr(squares, name) == pytest.approx(second[name], rel=1e-6), name
        assert squares.max_weight == pytest.approx(largest[1], rel=1e-6)
        return
    fourth = scale**2 * b**4 * (y**4 + 2 * y**2 * (d_k - 1) + d_k**2 - 1)
    second["query_gradient_square"] = (chance * fourth).sum()
    spread = attention_deviations(d_k, 2, divisor, law)
    for name in (
        "entropy",
        "jacobian_trace",
        "jacobian_square",
        "query_gradient_square",
        "own_weight",
    ):
        expected = sqrt(second[name] - mean[name] ** 2)
        assert getattr(spread, name) == pytest.approx(expected, rel=2e-6), name
    assert spread.max_weight == pytest.approx(sqrt(largest[1] - largest[0] ** 2), rel=2e-6)
    share = exact.saturated_rows
    assert spread.saturated_rows == pytest.approx(sqrt(share * (1 - share)), rel=1e-9)


@pytest.mark.parametrize("gain", [1e-3, 1.5, 8.0, 1e4])
def test_two_keys_on_a_sphere(gain):
    """d_k = 3, where t is uniform: the difference x of two scores has the density (2
    gain - |x|) / (2 gain)^2, and the mean of 1 - t^2 given x is that over a uniform mean of the
    two."""

    def mean(function):
        edges = [0.0, *(x for x in (3.0, 45.0) if x < 2 * gain), min(2 * gain, 300.0)]

        def integrand(x):
            return function(x) * 2 * (2 * gain - x) / (2 * gain) ** 2

        return integral(integrand, edges, epsabs=1e-15, epsrel=1e-10)

    def product(x):
        return expit(x) * expit(-x)

    def across(x):
        # Both cosines: middle +- x / (2 gain), middle uniform within 1 - x / (2 gain).
        room, half = 1 - x / (2 * gain), x / (2 * gain)
        return 1 - room**2 / 3 - half**2

    far = (1 - 150 / gain) ** 2 if gain > 150 else 0.0  # whose difference is above 300
    trace = mean(lambda x: 2 * product(x))
    expected = {
        "max_weight": mean(expit) + far,
        "entropy": mean(lambda x: entr(expit(x)) + entr(expit(-x))),
        "jacobian_trace": trace,
        "jacobian_square": mean(lambda x: 4 * product(x) ** 2),
        "query_gradient_square": mean(
            lambda x: 2 * product(x) ** 2 * (x**2 + 2 * across(x) * gain**2)
        ),
        "saturated_rows": max(1 - log(99) / (2 * gain), 0.0) ** 2,
        "row_variance": gain**2 / 6,
        "collision": 1 - trace,
        "key_gradient_square": mean(lambda x: 4 * product(x) ** 2) * gain**2,
        "own_weight": 0.5,
    }
    found = squares_of(attention_expectations(3, 2, 1 / gain, L2))
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-12)
    _, squares = row_moments(3, 2, 1 / gain, L2)
    fourth = mean(lambda x: 16 * product(x) ** 4)
    assert squares.jacobian_square == pytest.approx(fourth, rel=1e-7, abs=1e-12)
    assert squares.max_weight == pytest.approx(mean(lambda x: expit(x) ** 2) + far, rel=1e-7)


@pytest.mark.parametrize("d", [3, 12, 512])
def test_the_density_of_a_cosine_has_the_chances_of_its_law(d):
    law = CosineLaw(2.0, d)
    ends = 2.0 / sqrt(d) * np.array([-1.0, 0.5, 1.5])
    first, _, last = law.cdf(ends)
    assert integral(law.density, ends) == pytest.approx(last - first, rel=1e-10)


@pytest.mark.parametrize(
    ("d_k", "gain", "error"), [(2, 0.7, 5e-6), (2, 12.0, 5e-6), (7, 4.0, 1e-7), (512, 40.0, 2e-7)]
)
def test_three_keys_on_a_grid_of_angles(d_k, gain, error):
    """By Gauss's nodes in panels of all three angles, where the density is written out."""
    nodes, weights = np.polynomial.legendre.leggauss(10)
    width = min(pi / 2, 11 / sqrt(d_k))
    edges = pi / 2 + width * np.linspace(-1, 1, 8)
    half = np.diff(edges)[:, None] / 2
    theta = ((edges[1:] + edges[:-1])[:, None] / 2 + half * nodes).ravel()
    chance = (half * weights).ravel() * np.sin(theta) ** (d_k - 2)
    chance /= chance.sum()
    t = np.cos(theta)
    trio = np.stack(np.meshgrid(t, t, t, indexing="ij"), axis=-1).reshape(-1, 3)
    p = np.einsum("i,j,k->ijk", chance, chance, chance).ravel()
    w = softmax(gain * trio, axis=-1)
    s2, s3 = (w**2).sum(-1), (w**3).sum(-1)
    along = ((w * (trio - (w * trio).sum(-1, keepdims=True))) ** 2).sum(-1)
    across = (w**2 * (1 - 2 * w + s2[:, None]) * (1 - trio**2)).sum(-1)
    expected = {
        "entropy": entr(w).sum(-1),
        "jacobian_trace": 1 - s2,
        "jacobian_square": s2 - 2 * s3 + s2**2,
        "query_gradient_square": (along + across) * gain**2,
    }
    got = squares_of(attention_expectations(d_k, 3, 1 / gain, L2))
    for name, values in expected.items():
        assert got[name] == pytest.approx(p @ values, rel=error), name


def test_expectations_of_rare_rows_are_good_or_unknown():
    """Two keys of which one is the query: the other weight is 1 / (1 + e^(L^2 - L z)), L = |q|, z
    normal.

    At d_k = 60, its mean is 4e-10, and short queries carry it.
    """
    z, length = np.linspace(-12, 16, 2001), np.linspace(1e-3, 20, 2000)[:, None]
    other = expit(length * (z - length))
    for d_k in (40, 60):
        density = stats.chi.pdf(length, d_k) * stats.norm.pdf(z)
        trace = (density * 2 * other * (1 - other)).sum() / density.sum()
        found = attention_expectations(d_k, 2, 1.0, PairLaw(correlation=1.0))
        assert found.jacobian_trace == pytest.approx(trace, rel=1e-6)
    assert trace < 1e-9
    unknown = attention_expectations(80, 2, 1.0, PairLaw(correlation=1.0))
    assert np.isnan(
        [unknown.entropy, unknown.jacobian_trace, unknown.jacobian_norm, unknown.key_gradient_norm]
    ).all()
    assert unknown.max_weight == pytest.approx(1)
    # The own score is 58 deviations above the others.
    far = attention_expectations(4096, 5, 1.0, PairLaw(correlation=0.9))
    assert [far.own_weight, far.output_std, far.saturated_rows] == pytest.approx([1] * 3, rel=1e-9)


@pytest.mark.parametrize(("shortest", "n_keys"), [(1, 3), (9, 18), (40, 56)])
def test_expectations_under_a_mask_are_means_over_the_lengths(shortest, n_keys):
    masked = squares_of(attention_expectations(64, n_keys, 6.0, shortest=shortest))
    rows = [
        squares_of(attention_expectations(64, n, 6.0)) for n in range(max(shortest, 2), n_keys + 1)
    ]
    if shortest == 1:
        one = "max_weight", "saturated_rows", "collision", "own_weight"
        rows.append(dict.fromkeys(masked, 0.0) | dict.fromkeys(one, 1.0))
    for name, value in masked.items():
        expected = np.mean([row[name] for row in rows])
        assert value == pytest.approx(expected, rel=1e-7, abs=1e-10), name


def test_interpolation_between_lengths_has_converged():
    """The mean over the rows of 200 to 263 keys against the sum over every length."""

    masked = squares_of(attention_expectations(64, 263, 6.0, shortest=200))
    rows = [squares_of(attention_expectations(64, n, 6.0)) for n in range(200, 264)]
    for name in ("max_weight", "entropy", "jacobian_square", "collision"):
        expected = np.mean([row[name] for row in rows])
        assert masked[name] == pytest.approx(expected, rel=1e-9), name


def test_means_and_spreads_of_entries_act_through_the_scores():
    """The mean of the keys changes nothing; spreads change the scores, and the gradients by one
    more factor.
    """
    law = PairLaw(query_mean=0.5, query_std=1.5, key_std=0.5)
    one = attention_expectations(8, 16, 2.0, law)
    assert attention_expectations(8, 16, 2.0, replace(law, key_mean=9.0)) == one
    other = attention_expectations(8, 16, 2.0 / 0.75, PairLaw(query_mean=0.5 / 1.5))
    assert one.entropy == pytest.approx(other.entropy, rel=1e-12)
    assert one.query_gradient_norm == pytest.approx(other.query_gradient_norm / 1.5, rel=1e-12)
    assert one.key_gradient_norm == pytest.approx(other.key_gradient_norm / 0.5, rel=1e-12)
    of_one_length = PairLaw(query_mean=1.0, query_std=1e-6)
    still = attention_expectations(16, 7, 3.0, of_one_length)
    assert still.entropy == pytest.approx(GaussianRow(sqrt(16) / 3, 7).entropy(), rel=1e-6)


def test_a_rule_is_a_divisor():
    rule = attention_expectations(8, 9, "d_k^1/2*n_keys^1/2")
    number = attention_expectations(8, 9, sqrt(72))
    assert vars(rule) == pytest.approx(vars(number), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("64", 64, 8.0), "d_k: expected a number of at least 1, got '64'"),
        ((64, 64.5, 8.0), r"n_keys: expected a whole number of at least 2, got 64\.5"),
        ((64, 64, 1 / 8), r"got 0\.125, or 1/sqrt\(d_k\)"),
        ((64, 64, 8.0, "gaussian"), "law: expected a PairLaw, got 'gaussian'"),
        ((4, 4, 1.0, PairLaw(), 5), "expected whole numbers with shortest from 1 to n_keys"),
        ((4, 4, 0.0), "expected a divisor that is finite and above 0"),
        ((4, 1, 1.0), "n_keys: expected a whole number of at least 2, got 1"),
    ],
)
def test_arguments_of_another_type_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        attention_expectations(*arguments)


def test_no_function_with_a_divisor_takes_the_number_that_multiplies_scores_elsewhere():
    public = [getattr(theory, name) for name in theory.__all__]
    functions = [
        each
        for each in public
        if isfunction(unwrap(each)) and "divisor" in signature(each).parameters
    ]
    given = {
        "d_k": 64,
        "n_keys": 64,
        "n_queries": 4,
        "divisor": 1 / 8,
        "law": PairLaw(),
        "shortest": None,
    }
    given |= {"arithmetic": "float8_e5m2", "row_map": RowMap(softcap=5.0), "window": 64}
    assert len(functions) >= 9
    for function in (*functions, theory.overlap.attention_overlap):
        arguments = {name: given[name] for name in signature(function).parameters if name in given}
        with pytest.raises(ValueError, match=r"got 0\.125, or 1/sqrt\(d_k\)"):
            function(**arguments)


@pytest.mark.parametrize(
    ("law", "divisor", "reason"),
    [
        (PairLaw(entries=LAWS["uniform"]), 1.0, "softmax rows are known only for gaussian entries"),
        (
            PairLaw(spectrum=1.0, correlation=0.5),
            1.0,
            "softmax rows are unknown for entries of unequal variance",
        ),
        (
            PairLaw(normalize="l2", key_mean=1.0),
            1.0,
            "normalized vectors are known only for gaussian entries of mean",
        ),
        (L2, 1e-6, "unknown for d_k = 1 and for a gain above 100000"),
    ],
)
def test_unknown_rows_are_refused_with_a_reason(law, divisor, reason):
    with pytest.raises(UnknownError, match=reason):
        attention_expectations(4, 4, divisor, law)
    with pytest.raises(UnknownError, match=reason):
        least_draw_deviations(4, 4, 4, divisor, law)
    with pytest.raises(UnknownError, match="unknown"):
        attention_deviations(4, 4, 1.0, PairLaw(correlation=0.5))
    expected = r"n_keys: expected a whole number of at least 2, got 2\.5"
    with pytest.raises(ValueError, match=expected):
        attention_deviations(4, 2.5, 1.0)


@pytest.mark.parametrize("d_k", [16, 2**20])
@pytest.mark.parametrize(("n_keys", "key_std"), [(2, 1.0), (7, 30.0), (300, 1.0)])
@pytest.mark.parametrize("power", [0, 1 / 2])
def test_no_limit_exceeds_an_exact_deviation(d_k, n_keys, power, key_std):
    """Limits from the exact mean squares of independent rows; 0 stands for a deviation too small to
    compute.
    """
    law = PairLaw(key_std=key_std, query_mean=0.3)
    exact, means = (of(d_k, n_keys, d_k**power, law) for of in (attention_deviations, row_means))
    squares = RowMetrics(*(np.square(exact) + np.square(means)).tolist())
    for name, limit in least_row_variances(means, squares)._asdict().items():
        deviation = getattr(exact, name)
        assert deviation == 0 or sqrt(limit) <= deviation * (1 + 1e-4), name
        is_saturated = power == 0 and d_k == 2**20 and n_keys == 300
        if is_saturated and name != "row_variance":  # the limits are near the deviations
            assert sqrt(limit) >= 0.5 * deviation, name


@pytest.mark.parametrize("law", [PairLaw(query_mean=0.5, key_std=2.0), L2], ids=str)
@pytest.mark.parametrize(("target", "value"), [("max_weight", 0.3), ("effective_keys", 7.0)])
def test_the_divisor_gives_the_wanted_value(target, value, law):
    found = attention_expectations(16, 32, divisor_for(target, value, 16, 32, law), law)
    values = {"max_weight": found.max_weight, "effective_keys": exp(found.entropy)}
    assert values[target] == pytest.approx(value, rel=1e-9)


def test_the_divisor_of_a_variance_and_under_a_mask():
    divisor = divisor_for("row_variance", 0.5, 16, 8, PairLaw(key_mean=3.0, query_std=2.0))
    assert divisor == pytest.approx(sqrt(16 * 4 * 7 / 8 / 0.5))
    divisor = divisor_for("entropy_share", 0.8, 64, 3, shortest=2)
    entropies = [attention_expectations(64, n, divisor).entropy for n in (2, 3)]
    assert sum(entropies) / log(2 * 3) == pytest.approx(0.8, rel=1e-9)
    with pytest.raises(ValueError, match=r"expected a value above \d.* and below 1, got 1.5"):
        divisor_for("entropy_share", 1.5, 16, 8)
