"""The variance of 10,000 scores at each width, from the article's stream of random numbers, beside the exact one.

A score of standard normal q and k has variance d_k and excess kurtosis 6/d_k. The variance of n independent scores
therefore has the standard error d_k sqrt((2 + 6 / d_k) / n).
"""

from functools import cache

import numpy as np

from experiments.examples import session
from experiments.examples.steps import ARTICLE, Example, Floats, Step, step

SWEPT = (8, 32, 64, 128, 256, 512)
SAMPLE = 10_000


@cache
def variances() -> Floats:
    """The variance of the scores at each width of `SWEPT`, (6,); the stream continues where the session ends."""
    rng = np.random.RandomState(42)
    session.draw(rng)
    found = []
    for d_k in SWEPT:
        q, k = rng.standard_normal((SAMPLE, d_k)), rng.standard_normal((SAMPLE, d_k))
        found.append(np.var((q * k).sum(axis=1)))
    return np.array(found)


def _steps() -> list[Step]:
    from sdpa import theory  # loads SciPy

    exact = np.array([theory.score_variance(d_k, 1.0) for d_k in SWEPT])
    errors, sample = exact * np.sqrt((2 + 6 / exact) / SAMPLE), variances()
    columns = ("sample", "exact", "sample / exact", "standard error", "errors away")
    values = np.column_stack([sample, exact, sample / exact, errors, (sample - exact) / errors])
    says = "Variance of 10,000 scores at each d_k, with the standard error d_k sqrt((2 + 6 / d_k) / n)."
    return [step("variances", says, values, [str(d_k) for d_k in SWEPT], columns)]


EXAMPLE = Example("The variance of scores grows as d_k", ARTICLE, _steps, "~variances")
