"""The article's sweep: the variance of 10,000 scores at each of six d_k."""

import numpy as np
from scipy import stats

from experiments.examples.variance_sweep import SWEPT, variances
from experiments.statements.answer import Answer, cases, numbers
from experiments.statements.cutoffs import TENTH, TYPICAL, UNLIKELY
from experiments.statements.declare import statement
from experiments.statements.measured import UNTRAINED
from experiments.statements.shared import least_likely, share_beyond
from sdpa import theory


@statement(
    "article-18 article-19 article-20 article-21 article-22 article-23",
    says="In the sweep, the variances at d_k = 8, 32, 64, 128, 256 and 512 are near d_k.",
    claimed="8 32 64 128 256 512",
    rule="about",
    severity="wrong number",
)
def sweep_of_the_session() -> Answer:
    """The variance of 10,000 scores at each dimension, of the session's stream."""
    return numbers(variances(), note="These are the article's own draws, which it shows as a figure")


@statement(
    "article-25",
    says="In the sweep, scores at d_k = 512 have a variance of about 512.",
    claimed="512",
    rule="about",
    severity="wrong number",
)
def sweep_at_512() -> Answer:
    """The variance of 10,000 scores at d_k = 512, of the session's stream."""
    return numbers(variances()[-1], note="This is the article's own draw; the exact variance is 512")


@statement("article-26", says="At d_k = 512 scores typically lie between -50 and 50.", severity="wrong number")
def within_50() -> Answer:
    """The share of scores within 50 at d_k = 512."""
    share = 1 - share_beyond(50.0, 512)
    return cases(
        {"more than 19 in 20 scores do": share > TYPICAL.value},
        f"{share:.1%} of scores lie between -50 and 50, {UNTRAINED}",
    )


@statement(
    "article-27",
    says="The variances of the sweep grow exactly as predicted, to approximately 512 at d_k = 512.",
    severity="wrong number",
)
def sweep_follows_the_law() -> Answer:
    """The distance of the sweep's variances from d_k in standard errors of such samples, sqrt(2 + 6 / d_k) / 100."""
    d_k = np.array(SWEPT)
    away = abs(variances() / d_k - 1)
    errors = away / np.sqrt((2 + 6 / d_k) / 10_000)
    chance = least_likely(2 * stats.norm.sf(errors))
    note = (
        f"The exact variance is d_k. The samples of 10,000 scores are up to {away.max():.1%} and {errors.max():.1f}"
        f" standard errors off; by chance, samples deviate this much with probability {chance:.2f}"
    )
    conditions = {
        "the exact variance is d_k": all(theory.score_variance(d, 1.0) == d for d in SWEPT),
        "the samples agree to sampling error": chance >= UNLIKELY.value,
    }
    return cases(conditions, note)


@statement("article-29", says="At d_k = 512 scores easily reach 30.", severity="wrong number")
def beyond_30() -> Answer:
    """The share of scores beyond 30 at d_k = 512."""
    share = share_beyond(30.0, 512)
    return cases(
        {"more than 1 in 10 scores do": share > TENTH.value},
        f"{share:.1%} of scores are above 30 or below -30, {UNTRAINED}",
    )
