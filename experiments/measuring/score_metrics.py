"""The metrics of the scores of all trials: mean, variance and excess kurtosis."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from experiments.measuring.experiment import AnyCell
from experiments.measuring.intervals import MIN_DRAWS_OF_FOURTH_POWERS
from experiments.measuring.metric import Exact, Metric, from_theory
from experiments.measuring.moments import Estimate, ScoreMoments


@dataclass(frozen=True)
class ScoreMetric(Metric):
    """A metric of all scores of a cell, from the moments of the undivided ones and a divisor.

    One set of power sums serves every divisor.
    """

    kind: Literal["mean"] = "mean"
    per: Literal["scores"] = "scores"
    compute: Callable[[ScoreMoments, float], Estimate] = field(kw_only=True)


def _metric(
    name: str,
    meaning: str,
    formula: str,
    title: str,
    exact: str,
    of: Callable[[ScoreMoments, float], Estimate],
    **more: Any,
) -> ScoreMetric:
    def of_law(cell: AnyCell) -> tuple[object, ...]:
        # no divisor changes the kurtosis
        divisor = () if name == "score_kurtosis" else (cell.divisor,)
        return cell.d_k, *divisor, cell.law, cell.mean_length

    known = Exact(exact, from_theory(name, of_law))
    return ScoreMetric(name, meaning, formula, title, compute=of, exact=known, **more)


SCORE_METRICS = (
    _metric(
        "score_mean",
        "mean of the scaled scores",
        "E[q.k] / divisor",
        "mean of scaled scores",
        "d_k query_mean key_mean / divisor; plus d_k rho query_std key_std / n_keys / divisor "
        "if correlated",
        lambda shape, divisor: shape.mean / divisor,
        draws_like="score_variance",  # it has no limits
    ),
    _metric(
        "score_variance",
        "variance of the scaled scores, pooled over draws",
        "Var[q.k] / divisor^2",
        "variance of scaled scores",
        "d_k query_std^2 key_std^2 / divisor^2; more terms if means or a correlation are not 0",
        lambda shape, divisor: shape.variance / divisor**2,
        within=(0, math.inf),
        is_precise=True,
        is_logarithmic=True,
    ),
    _metric(
        "score_kurtosis",
        "excess kurtosis of the scores",
        "E[(s - E s)^4] / Var[s]^2 - 3",
        "excess kurtosis of scores",
        "(E[x^4]^2 - 3) / d_k, x an entry of variance 1; more terms if means or a correlation are "
        "not 0",
        lambda shape, _: shape.kurtosis,
        within=(-3, math.inf),
        min_draws=MIN_DRAWS_OF_FOURTH_POWERS,
    ),
)
