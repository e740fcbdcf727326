"""The law of scores: mean, variance, how it grows, and what initialisation does to it."""

import math

import numpy as np
import numpy.typing as npt
from scipy import integrate, special, stats

from experiments.statements.answers import Answer, Tables, cases, numbers, quantity
from experiments.statements.checks import UNTRAINED, agree, example, rows_of
from experiments.statements.cutoffs import ABOUT, CERTAIN, UNLIKELY
from sdpa import ScaledDotProductAttention, theory


@quantity
def score_is_a_sum(_: Tables) -> Answer:
    """A score from its d_k products, one by one, against one matrix product for all."""
    q, k = example(5, 7), example(6, 7, seed=1)
    loop = [[sum(q[i, m] * k[j, m] for m in range(7)) for j in range(6)] for i in range(5)]
    return cases({"loop equals matrix product": np.allclose(q @ k.T, loop, rtol=0, atol=1e-13)})


@quantity
def product_of_two_normals(_: Tables) -> Answer:
    """Mean and variance of the product of two entries, integrated over its density K_0(|z|) / pi."""

    def moment(power: int) -> float:
        half = float(integrate.quad(lambda z: z**power * special.k0(z) / math.pi, 0, np.inf)[0])
        return half * (2 if power % 2 == 0 else 0)

    return numbers(moment(1), moment(2))


@quantity
def product_density(tables: Tables) -> Answer:
    """The density K_0(|z|) / pi: it integrates to 1, and two million measured products follow it."""
    mass = 2 * integrate.quad(lambda z: special.k0(z) / math.pi, 0, np.inf)[0]
    measured = tables["distribution-tests"].set_index("d_k").loc[1]
    note = f"distribution-tests.csv, d_k = 1: Kolmogorov-Smirnov p = {measured['p_value']:.2f}"
    return cases(
        {"integral is 1": abs(mass - 1) < 1e-8, "measured products follow it": measured["p_value"] >= UNLIKELY}, note
    )


@quantity
def terms_are_independent(_: Tables) -> Answer:
    """Two terms of one score: with rows of N(0, I_d), Q and K independent or not; and with correlated entries."""
    n = 100_000
    plain = [example(2, n, seed=seed) for seed in (0, 1)]
    # A part that all entries of a row share gives any two of them the correlation 0.5.
    shared = [(own + example(1, n, seed=seed)) / math.sqrt(2) for own, seed in zip(plain, (2, 3), strict=True)]
    # k_1 = q_2: both rows are still drawn from N(0, I_d).
    shifted = [plain[0], np.stack([plain[0][1], plain[1][1]])]
    found = {name: q * k for name, (q, k) in {"plain": plain, "correlated": shared, "shifted": shifted}.items()}
    apart = {name: _dependence(terms) < CERTAIN / math.sqrt(n) for name, terms in found.items()}
    one_law = stats.ks_2samp(*found["plain"]).pvalue >= UNLIKELY
    free, bound = _dependence(found["plain"]), _dependence(found["shifted"])
    note = (
        f"{n:,} draws. Terms, or their sizes, correlate by {free:.3f} if Q and K are independent, by {bound:.2f} if"
        " they are not, with k_1 = q_2. The source states N(0, I_d) further up, and it takes that too: with entries of"
        f" a row that correlate by 0.5, the terms correlate by {_correlation(found['correlated']):.3f}"
    )
    conditions = {
        "Q and K independent: independent terms of one law": apart["plain"] and one_law,
        "that is the reason: not with Q and K dependent": not apart["shifted"],
    }
    return cases(conditions, note)


def _dependence(two: npt.NDArray[np.floating]) -> float:
    """The correlation of two samples or of their absolute values, whichever is further from 0."""
    return max(abs(_correlation(two)), abs(_correlation(np.abs(two))))


def _correlation(two: npt.NDArray[np.floating]) -> float:
    return float(np.corrcoef(two)[0, 1])


@quantity
def product_variance_needs_mean_0(_: Tables) -> Answer:
    """Var(q k) of one pair of entries: 1 for mean 0, 3 for mean 1."""
    centred = theory.correlated_score_moments(1)[1]
    shifted = theory.correlated_score_moments(1, q_mean=1, k_mean=1)[1]
    return cases(
        {"mean 0": centred == 1, "mean 1": shifted == 1}, f"variance {centred:g} at mean 0, {shifted:g} at mean 1"
    )


@quantity
def mean_score(tables: Tables) -> Answer:
    """The mean score, measured at every d_k."""
    rows = rows_of(tables["scaling"], "unscaled")
    return cases(
        {"is 0 at every d_k": agree(rows, "score_mean", 0)},
        f"scaling.csv, unscaled, d_k = 4 to 512, 64 keys, {UNTRAINED}",
    )


@quantity
def variance_is_d_k(tables: Tables) -> Answer:
    """The measured variance of unscaled scores against d_k."""
    rows = rows_of(tables["scaling"], "unscaled")
    note = f"scaling.csv, unscaled, 64 keys, {UNTRAINED}: {rows['score_variance'].loc[512]:.1f} at d_k = 512"
    return cases({"at every d_k from 4 to 512": agree(rows, "score_variance", rows["d_k"])}, note)


@quantity
def variance_is_d_k_and_1(tables: Tables) -> Answer:
    """The measured variance of scores before and after scaling."""
    scaled = rows_of(tables["scaling"], "d_k^1/2")
    unscaled = rows_of(tables["scaling"], "unscaled")
    return cases(
        {
            "d_k before": agree(unscaled, "score_variance", unscaled["d_k"]),
            "one after": agree(scaled, "score_variance", 1),
        },
        f"scaling.csv, unscaled and d_k^1/2, d_k = 4 to 512, 64 keys, {UNTRAINED}",
    )


@quantity
def scaled_variance_is_1(tables: Tables) -> Answer:
    """The measured variance of scores over sqrt(d_k)."""
    rows = rows_of(tables["scaling"], "d_k^1/2")
    lowest, highest = rows["score_variance"].min(), rows["score_variance"].max()
    note = f"scaling.csv, d_k^1/2, d_k = 4 to 512, 64 keys, {UNTRAINED}: {lowest:.4f} to {highest:.4f}"
    return cases({"at every d_k from 4 to 512": agree(rows, "score_variance", 1)}, note)


def _slope(tables: Tables, scaling: str) -> Answer:
    """The exact slope: a measured one is off by chance, and its last digit would decide."""
    slopes = tables["scaling-slopes"].set_index("scaling").loc[scaling]
    note = (
        f"slope of ln variance on ln d_k, exactly 1 - 2 p; measured {slopes['slope']:.4f}, 99.9% interval"
        f" {slopes['slope_low']:.4f} to {slopes['slope_high']:.4f} (scaling-slopes.csv)"
    )
    return numbers(slopes["slope_exact"], note=note)


@quantity
def slope_unscaled(tables: Tables) -> Answer:
    """How fast the variance grows with d_k, unscaled."""
    return _slope(tables, "unscaled")


@quantity
def slope_third(tables: Tables) -> Answer:
    """How fast the variance grows with d_k under d_k^1/3."""
    return _slope(tables, "d_k^1/3")


@quantity
def slope_two_thirds(tables: Tables) -> Answer:
    """How fast the variance falls with d_k under d_k^2/3."""
    return _slope(tables, "d_k^2/3")


@quantity
def only_the_square_root(tables: Tables) -> Answer:
    """The variance at d_k = 64 and 512 under powers from 0 to 1: equal under 1/2 alone."""
    by_exponent = tables["powers"].pivot_table(
        index="exponent", columns="d_k", values=["score_variance", "score_variance_se"]
    )
    apart = by_exponent["score_variance"][512] - by_exponent["score_variance"][64]
    error = np.hypot(by_exponent["score_variance_se"][512], by_exponent["score_variance_se"][64])
    different = abs(apart) > CERTAIN * error
    half = np.isclose(by_exponent.index, 0.5)
    return cases(
        {"one half keeps it": not different[half].any(), "twelve others do not": different[~half].all()},
        f"powers.csv, d_k = 64 and 512, 64 keys, {UNTRAINED}",
    )


@quantity
def dividing_divides_variance(_: Tables) -> Answer:
    """Var(x / c) c^2 / Var(x)."""
    x = example(1000)
    return cases({"ratio is 1": math.isclose(np.var(x / 3) * 9 / np.var(x), 1, rel_tol=1e-12)})


def projected_variance(d_in: int, d_out: int) -> float:
    """The variance of queries of unit-variance tokens, from the weights of 300 modules: to about 1%."""
    rng = np.random.default_rng(0)
    modules = [ScaledDotProductAttention(d_in, d_out, 1, rng=rng) for _ in range(300)]
    return float(np.mean([(module.W_Q**2).sum(axis=0).mean() for module in modules]))


@quantity
def unit_variance_of_projections(_: Tables) -> Answer:
    """The variance of queries that a projection made of unit-variance tokens, and of their scaled scores."""
    xavier, square = projected_variance(32, 16), projected_variance(32, 32)
    small = 8 * 0.1**2
    note = (
        f"unit-variance tokens give queries of variance {xavier:.2f} through Xavier projections"
        f" 32 to 16, so scaled scores of"
        f" variance {xavier**2:.2f}; {small:.2f} and {small**2:.4f} through 0.1 times normal weights from 8"
    )
    return cases(
        {
            "square Xavier projections": abs(square - 1) < ABOUT,
            "Xavier projections 32 to 16": abs(xavier - 1) < ABOUT,
            "projections of 0.1 times normal": abs(small - 1) < ABOUT,
        },
        note,
    )


@quantity
def xavier_keeps_variance(_: Tables) -> Answer:
    """The variance of projected unit-variance tokens, d_in 2 / (d_in + d_out)."""
    square, narrow = projected_variance(32, 32), projected_variance(32, 16)
    conditions = {"where d_in is d_out": abs(square - 1) < ABOUT, "for 32 to 16": abs(narrow - 1) < ABOUT}
    return cases(conditions, f"gain {square:.2f} for 32 to 32, {narrow:.2f} for 32 to 16")
