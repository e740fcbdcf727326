"""The metrics of the scores q.k, from the moments of their distribution.

The saturation experiment divides mean and variance by the divisor and its square; the distribution experiment measures
scores without a divisor. Excess kurtosis is the same under every divisor. For independent entries of q and k with mean
0 and standard deviations query_std and key_std, and m4 = E x^4 of an entry x of variance 1, the exact values are:

    E[q.k] = 0,   Var[q.k] = d_k query_std^2 key_std^2,   excess kurtosis = (m4^2 - 3) / d_k

The last one is 6/d_k for Gaussian entries. `sdpa.theory` has them for other joint laws too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from experiments.harness.experiment import Cell
from experiments.harness.metric import Exact, Metric, Theory
from experiments.statistics.intervals import MIN_DRAWS_OF_FOURTH_POWERS, Limits
from experiments.statistics.moments import Estimate, Shape


@dataclass(frozen=True)
class OfScores:
    """A metric of the scaled scores, from the shape of the distribution of the scores and the divisor.

    Attributes:
        estimate: from the shape of the undivided scores and a divisor to the metric, with its gradient in the means of
            the scores' powers. One set of power sums therefore serves every divisor.
    """

    estimate: Callable[[Shape, float], Estimate]


def score_metrics(*, divided: bool) -> tuple[Metric, ...]:
    """Mean, variance and excess kurtosis of the scores q.k, with or without division by the divisor of a scaling.

    Args:
        divided: True for columns that describe scaled scores, False for the scores themselves. The estimates are the
            same: an experiment without a divisor passes 1.

    Returns:
        The metrics `score_mean`, `score_variance` and `score_kurtosis`. All three are scale-free: their z-scores are
        the same under every divisor. The mean has no limits; the effective draws of the variance count for it.

    >>> [metric.meaning for metric in score_metrics(divided=False)]
    ['mean of the scores', 'variance of the scores, pooled over draws', 'excess kurtosis of the scores']
    """
    scores, over, over_square = ("scaled scores", " / divisor", " / divisor^2") if divided else ("scores", "", "")
    return (
        Metric(
            "score_mean",
            "",
            f"mean of the {scores}",
            f"E[q.k]{over}",
            f"mean of {scores}",
            of=OfScores(lambda shape, divisor: shape.mean / divisor),
            exact=Exact(
                f"d_k query_mean key_mean{over}; plus d_k rho query_std key_std / n_keys{over} if correlated"
                if divided
                else "0",
                lambda theory, cell: known(theory, "score_mean", cell.d_k, cell.divisor, cell.law, cell.mean_length),
                _score_deviation("score_mean"),
            ),
            draws_like="score_variance",
            scale_free=True,
        ),
        Metric(
            "score_variance",
            "",
            f"variance of the {scores}, pooled over draws",
            f"Var[q.k]{over_square}",
            f"variance of {scores}",
            of=OfScores(lambda shape, divisor: shape.variance / divisor**2),
            exact=Exact(
                f"d_k query_std^2 key_std^2{over_square}; more terms if means or a correlation are not 0"
                if divided
                else "d_k",
                lambda theory, cell: known(
                    theory, "score_variance", cell.d_k, cell.divisor, cell.law, cell.mean_length
                ),
                _score_deviation("score_variance"),
            ),
            limits=lambda _: Limits(0),
            scale_free=True,
            is_precise=True,
            is_logarithmic=True,
        ),
        Metric(
            "score_kurtosis",
            "",
            "excess kurtosis of the scores",
            "E[(s - E s)^4] / Var[s]^2 - 3",
            "excess kurtosis of scores",
            of=OfScores(lambda shape, _: shape.kurtosis),
            exact=Exact(
                "(E[x^4]^2 - 3) / d_k, x an entry of variance 1; more terms if means or a correlation are not 0",
                lambda theory, cell: known(theory, "score_kurtosis", cell.d_k, cell.law, cell.mean_length),
                _score_deviation("score_kurtosis"),
            ),
            limits=lambda _: Limits(-3),
            min_draws=MIN_DRAWS_OF_FOURTH_POWERS,
            scale_free=True,
        ),
    )


def known(theory: Theory, name: str, *arguments: Any, metric: str = "", otherwise: float = math.nan) -> float:
    """The value of a function of `sdpa.theory`, or its field `metric`; `otherwise` if theory does not know it.

    >>> from sdpa import PairLaw, theory
    >>> known(theory, "score_mean", 4, 1.0, PairLaw(normalize="l2", query_mean=1.0))
    nan
    """
    try:
        found = getattr(theory, name)(*arguments)
    except theory.UnknownError:
        return otherwise
    return float(getattr(found, metric) if metric else found)


def _score_deviation(metric: str) -> Callable[[Theory, Cell], float]:
    """The deviation of a trial, whose scores share queries and keys: exact, for the kurtosis to leading order.

    Under a mask it is that of the trial without the mask, which was smaller in simulations.

    Args:
        metric: name of a deviation in `ScoreDeviations`.

    Returns:
        0 if theory does not know it; infinity if a moment that it needs does not exist.
    """

    def deviation(theory: Theory, cell: Cell) -> float:
        arguments = cell.d_k, cell.n_keys, cell.n_queries, cell.divisor, cell.law
        return known(theory, "score_power_deviations", *arguments, metric=metric, otherwise=0.0)

    return deviation
