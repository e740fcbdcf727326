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


def score_metrics(*, divided: bool) -> tuple[ScoreMetric, ...]:
    """Mean, variance and excess kurtosis of the scores q.k.

    Args:
        divided: True for columns that describe scaled scores, False for the scores of a cell with a
            divisor of 1.
    """
    scores, over, over_square = (
        ("scaled scores", " / divisor", " / divisor^2") if divided else ("scores", "", "")
    )
    exact_mean, exact_variance = "0", "d_k"
    if divided:
        exact_mean = (
            "d_k query_mean key_mean / divisor; plus d_k rho query_std key_std / n_keys / divisor "
            "if correlated"
        )
        exact_variance = (
            "d_k query_std^2 key_std^2 / divisor^2; more terms if means or a correlation are not 0"
        )

    def metric(
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
        return ScoreMetric(
            name,
            meaning,
            formula,
            title,
            compute=of,
            exact=known,
            **more,
        )

    return (
        metric(
            "score_mean",
            f"mean of the {scores}",
            f"E[q.k]{over}",
            f"mean of {scores}",
            exact_mean,
            lambda shape, divisor: shape.mean / divisor,
            draws_like="score_variance",  # it has no limits
        ),
        metric(
            "score_variance",
            f"variance of the {scores}, pooled over draws",
            f"Var[q.k]{over_square}",
            f"variance of {scores}",
            exact_variance,
            lambda shape, divisor: shape.variance / divisor**2,
            within=(0, math.inf),
            is_precise=True,
            is_logarithmic=True,
        ),
        metric(
            "score_kurtosis",
            "excess kurtosis of the scores",
            "E[(s - E s)^4] / Var[s]^2 - 3",
            "excess kurtosis of scores",
            (
                "(E[x^4]^2 - 3) / d_k, x an entry of variance 1; more terms if means or a "
                "correlation are not 0"
            ),
            lambda shape, _: shape.kurtosis,
            within=(-3, math.inf),
            min_draws=MIN_DRAWS_OF_FOURTH_POWERS,
        ),
    )
