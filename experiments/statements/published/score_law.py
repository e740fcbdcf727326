"""The law of scores: mean, variance, and how the variance grows with d_k."""

import math

import numpy as np
from scipy import integrate, special, stats

from experiments.statements.answer import Answer, cases, numbers
from experiments.statements.cutoffs import CERTAIN, UNLIKELY
from experiments.statements.declare import statement
from experiments.statements.measured import UNTRAINED, Tables, agree, rows_of
from experiments.statements.shared import Floats, normals


@statement(
    "qa-13 notebook-06 textbook-06 textbook-07 lesson-01 article-08 article-14",
    says="A score is the sum of the d_k products of the entries of q and k, and one matrix product gives all scores.",
    severity="conceptual error",
)
def score_is_a_sum() -> Answer:
    """A score from its d_k products, one by one, against one matrix product for all."""
    q, k = normals(5, 7), normals(6, 7, seed=1)
    loop = [[sum(q[i, m] * k[j, m] for m in range(7)) for j in range(6)] for i in range(5)]
    return cases({"the sums equal the matrix product": np.allclose(q @ k.T, loop, rtol=0, atol=1e-13)})


@statement(
    "qa-14 notebook-08 notebook-09 textbook-08 article-15 article-56",
    says="The product of two independent entries of mean 0 and variance 1 has mean 0 and variance 1.",
    claimed="0.000 1.000",
    rule="digits",
    severity="wrong number",
)
def product_of_two_normals() -> Answer:
    """Mean and variance of the product of two entries, integrated over its density K_0(|z|) / pi."""

    def moment(power: int) -> float:
        half = float(integrate.quad(lambda z: z**power * special.k0(z) / math.pi, 0, np.inf)[0])
        return half * (2 if power % 2 == 0 else 0)

    return numbers(moment(1), moment(2))


@statement(
    "notebook-07",
    says="The product of two standard normal numbers follows the product-normal law.",
    severity="conceptual error",
)
def product_density(tables: Tables) -> Answer:
    """The density K_0(|z|) / pi: it integrates to 1, and two million measured products follow it."""
    mass = 2 * integrate.quad(lambda z: special.k0(z) / math.pi, 0, np.inf)[0]
    measured = tables["dot_products/tests"].set_index("d_k").loc[1]
    note = f"The Kolmogorov-Smirnov test gives p = {measured['p_value']:.2f} (derived/dot_products/tests.csv, d_k = 1)"
    return cases(
        {
            "its density integrates to 1": abs(mass - 1) < 1e-8,
            "measured products follow it": measured["p_value"] >= UNLIKELY.value,
        },
        note,
    )


@statement(
    "notebook-11",
    says="Because Q and K, with rows drawn from N(0, I_d), are independent,"
    " the terms of a score are independent and identically distributed.",
    severity="conceptual error",
)
def terms_are_independent() -> Answer:
    """Two terms of one score: with rows of N(0, I_d), Q and K independent or not; and with correlated entries."""
    n = 100_000
    plain = [normals(2, n, seed=seed) for seed in (0, 1)]
    # A part that all entries of a row share gives any two of them the correlation 0.5.
    shared = [(own + normals(1, n, seed=seed)) / math.sqrt(2) for own, seed in zip(plain, (2, 3), strict=True)]
    # k_1 = q_2: both rows are still drawn from N(0, I_d).
    shifted = [plain[0], np.stack([plain[0][1], plain[1][1]])]
    found = {name: q * k for name, (q, k) in {"plain": plain, "correlated": shared, "shifted": shifted}.items()}
    apart = {name: dependence(terms) < CERTAIN.value / math.sqrt(n) for name, terms in found.items()}
    one_law = stats.ks_2samp(*found["plain"]).pvalue >= UNLIKELY.value
    free, bound = dependence(found["plain"]), dependence(found["shifted"])
    note = (
        f"In {n:,} draws, the correlation of two terms, or of their absolute values if that is larger, is {free:.3f} if"
        f" Q and K are independent, and {bound:.2f} if they are not (k_1 = q_2). The law N(0, I_d), which"
        " the source states earlier, is also required: if the entries of a row have a correlation of 0.5, the terms"
        f" have a correlation of {_correlation(found['correlated']):.3f}"
    )
    conditions = {
        "the terms are independent and identically distributed if Q and K are independent": apart["plain"] and one_law,
        "they depend on each other if Q and K do": not apart["shifted"],
    }
    return cases(conditions, note)


def dependence(two: Floats) -> float:
    """The correlation of two samples or of their absolute values, whichever is further from 0."""
    return max(abs(_correlation(two)), abs(_correlation(np.abs(two))))


def _correlation(two: Floats) -> float:
    return float(np.corrcoef(*two)[0, 1])


@statement("qa-15", says="The mean of a score is 0.", severity="conceptual error")
def mean_score(tables: Tables) -> Answer:
    """The mean score, measured at every d_k."""
    rows = rows_of(tables["dimension"], "unscaled")
    return cases(
        {"the measured mean agrees with 0 at every d_k": agree(rows, "score_mean", 0)},
        f"The mean is measured unscaled from d_k = 4 to 512 with 64 keys, {UNTRAINED} (dimension.csv)",
    )


@statement(
    "qa-16 notebook-10 textbook-09 article-17 article-57",
    says="The variance of a score is d_k, its standard deviation sqrt(d_k).",
    severity="conceptual error",
)
def variance_is_d_k(tables: Tables) -> Answer:
    """The measured variance of unscaled scores against d_k."""
    rows = rows_of(tables["dimension"], "unscaled")
    at_512 = rows["score_variance"].loc[512]
    note = f"At d_k = 512 with 64 keys, {UNTRAINED}, the measured variance is {at_512:.1f} (dimension.csv, unscaled)"
    condition = "the measured variance agrees with d_k at every d_k from 4 to 512"
    return cases({condition: agree(rows, "score_variance", rows["d_k"])}, note)


@statement(
    "lesson-24",
    says="The variance of a score is about d_k before and about 1 after dividing by sqrt(d_k),"
    " for entries of variance 1.",
    severity="conceptual error",
)
def variance_is_d_k_and_1(tables: Tables) -> Answer:
    """The measured variance of scores before and after scaling."""
    scaled = rows_of(tables["dimension"], "d_k^1/2")
    unscaled = rows_of(tables["dimension"], "unscaled")
    return cases(
        {
            "the measured variance agrees with d_k before": agree(unscaled, "score_variance", unscaled["d_k"]),
            "it agrees with 1 after": agree(scaled, "score_variance", 1),
        },
        f"Both are measured from d_k = 4 to 512 with 64 keys, {UNTRAINED} (dimension.csv)",
    )


@statement(
    "qa-17 qa-20 qa-22a notebook-13 notebook-14 notebook-24 textbook-14 lesson-21 article-51 article-55 article-58",
    says="Scores over sqrt(d_k), of independent entries of mean 0 and variance 1, have variance 1 at any d_k.",
    severity="conceptual error",
)
def scaled_variance_is_1(tables: Tables) -> Answer:
    """The measured variance of scores over sqrt(d_k)."""
    rows = rows_of(tables["dimension"], "d_k^1/2")
    lowest, highest = rows["score_variance"].min(), rows["score_variance"].max()
    note = (
        f"From d_k = 4 to 512 with 64 keys, {UNTRAINED}, the measured variance under d_k^1/2 is {lowest:.4f} to"
        f" {highest:.4f} (dimension.csv)"
    )
    condition = "the measured variance agrees with 1 at every d_k from 4 to 512"
    return cases({condition: agree(rows, "score_variance", 1)}, note)


@statement(
    "notebook-12 notebook-16 lesson-12 article-24",
    says="The variance of scores grows in proportion to d_k: with slope 1 in logarithms.",
    claimed="1.000",
    rule="digits",
    severity="wrong number",
    given={"scaling": "unscaled"},
)
@statement(
    "qa-18",
    says="Under d_k^(1/3) the variance still grows, as d_k^(1/3).",
    claimed="0.333",
    rule="digits",
    severity="wrong number",
    given={"scaling": "d_k^1/3"},
)
@statement(
    "qa-19",
    says="Under d_k^(2/3) the variance shrinks, as d_k^(-1/3).",
    claimed="-0.333",
    rule="digits",
    severity="wrong number",
    given={"scaling": "d_k^2/3"},
)
def slope_of_variance(tables: Tables, scaling: str) -> Answer:
    """The exact slope: a measured one is off by chance, and its last digit would decide."""
    slopes = tables["dimension/slopes"].set_index("scaling").loc[scaling]
    note = (
        "This is the slope of ln variance against ln d_k, exactly 1 - 2 p for the divisor d_k^p. The measured slope is"
        f" {slopes['slope']:.4f}, with a 99.9% interval from {slopes['slope_low']:.4f} to {slopes['slope_high']:.4f}"
        " (derived/dimension/slopes.csv)"
    )
    return numbers(slopes["slope_exact"], note=note)


@statement(
    "qa-21", says="Any power but one half corrects the variance too much or too little.", severity="conceptual error"
)
def only_the_square_root(tables: Tables) -> Answer:
    """The variance at d_k = 64 and 512 under powers from 0 to 1: equal under 1/2 alone."""
    by_exponent = tables["powers"].pivot_table(
        index="exponent", columns="d_k", values=["score_variance", "score_variance_se"]
    )
    apart = by_exponent["score_variance"][512] - by_exponent["score_variance"][64]
    error = np.hypot(by_exponent["score_variance_se"][512], by_exponent["score_variance_se"][64])
    different = abs(apart) > CERTAIN.value * error
    half = np.isclose(by_exponent.index, 0.5)
    return cases(
        {"one half keeps the variance": not different[half].any(), "twelve others do not": different[~half].all()},
        f"The test compares the variances at d_k = 64 and 512 with 64 keys, {UNTRAINED} (powers.csv)",
    )


@statement(
    "article-52", says="Dividing a random number by c divides its variance by c squared.", severity="conceptual error"
)
def dividing_divides_variance() -> Answer:
    """Var(x / c) c^2 / Var(x)."""
    x = normals(1000)
    return cases(
        {"the variance of x / 3 is a ninth of that of x": math.isclose(np.var(x / 3) * 9 / np.var(x), 1, rel_tol=1e-12)}
    )


@statement(
    "qa-09",
    says="The square root of 512 is about 22.6.",
    claimed="22.6",
    rule="about",
    severity="wrong number",
    given={"d_k": 512},
)
@statement(
    "article-28",
    says="The square root of 512 is about 23.",
    claimed="23",
    rule="about",
    severity="wrong number",
    given={"d_k": 512},
)
@statement(
    "article-97",
    says="The square root of 2 is about 1.41.",
    claimed="1.41",
    rule="about",
    severity="wrong number",
    given={"d_k": 2},
)
@statement(
    "lesson-11",
    says="The square root of 8 is about 2.83.",
    claimed="2.83",
    rule="about",
    severity="wrong number",
    given={"d_k": 8},
)
def square_root(d_k: int) -> Answer:
    return numbers(math.sqrt(d_k))
