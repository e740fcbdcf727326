"""The metrics of the scores of a cell, over all of its trials: mean, variance and excess kurtosis."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from experiments.measuring.cells import BaseCell
from experiments.measuring.intervals import MIN_DRAWS_OF_FOURTH_POWERS
from experiments.measuring.metric import Exact, Metric, from_theory
from experiments.measuring.moments import Estimate, ScoreMoments
from sdpa import PairLaw


@dataclass(frozen=True)
class ScoreMetric(Metric):
    """A metric of all scores of a cell, from the moments of the undivided ones and a divisor.

    One set of power sums serves every divisor.
    """

    kind: Literal["mean"] = "mean"
    per: Literal["scores"] = "scores"
    compute: Callable[[ScoreMoments, float], Estimate] = field(kw_only=True)


@runtime_checkable
class _CellWithLaw(Protocol):
    """A cell with one scaling, and the joint law of its queries and keys."""

    d_k: int
    divisor: float
    law: PairLaw
    mean_length: float


def _exact(name: str, formula: str) -> Exact:
    def arguments(cell: BaseCell) -> tuple[object, ...]:
        if not isinstance(cell, _CellWithLaw):
            raise TypeError(f"expected a cell with a joint law, got {cell!r}")
        # no divisor changes the kurtosis
        divisor = () if name == "score_kurtosis" else (cell.divisor,)
        return cell.d_k, *divisor, cell.law, cell.mean_length

    return Exact(formula, from_theory(name, arguments))


SCORE_METRICS = (
    ScoreMetric(
        "score_mean",
        "mean of the scaled scores",
        "E[q.k] / divisor",
        "mean of scaled scores",
        compute=lambda shape, divisor: shape.mean / divisor,
        exact=_exact(
            "score_mean",
            "d_k query_mean key_mean / divisor; plus d_k rho query_std key_std / n_keys / divisor "
            "if correlated",
        ),
        draws_like="score_variance",  # it has no limits
    ),
    ScoreMetric(
        "score_variance",
        "variance of the scaled scores, pooled over draws",
        "Var[q.k] / divisor^2",
        "variance of a score",
        compute=lambda shape, divisor: shape.variance / divisor**2,
        exact=_exact(
            "score_variance",
            "d_k query_std^2 key_std^2 / divisor^2; more terms if means or a correlation are not 0",
        ),
        within=(0, math.inf),
        is_precise=True,
        is_logarithmic=True,
    ),
    ScoreMetric(
        "score_kurtosis",
        "excess kurtosis of the scores",
        "E[(s - E s)^4] / Var[s]^2 - 3",
        "excess kurtosis of scores",
        compute=lambda shape, _: shape.kurtosis,
        exact=_exact(
            "score_kurtosis",
            "(E[x^4]^2 - 3) / d_k, x an entry of variance 1; more terms if means or a correlation are "
            "not 0",
        ),
        within=(-3, math.inf),
        min_draws=MIN_DRAWS_OF_FOURTH_POWERS,
    ),
)
