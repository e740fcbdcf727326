"""Metrics of attention rows: draw Q and K, and measure every scaling on the same draw.

Each trial, one draw of Q and K, is reduced to a vector of row means, so that standard errors come
from whole independent draws. A cell goes in, and its rows come out, one per scaling.

An experiment of this kind is a class of cells, which draw Q and K, with a tuple of metrics
(`experiments.measuring.rows.metrics`).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from experiments.measuring.columns import Column
from experiments.measuring.experiment import MEASURED, TREATMENT, Experiment, Floats, Row
from experiments.measuring.metric import metric_columns, metric_row
from experiments.measuring.moments import POWERS, Estimate, Moments, ScoreMoments, power_sums
from experiments.measuring.quantiles import Histograms, Quantile
from experiments.measuring.rows.metrics import Batch, PerRow, RowMetric, RowsMetric
from experiments.measuring.sampling import AttentionCell
from experiments.measuring.score_metrics import ScoreMetric
from sdpa import row_diagnostics

# The metrics of which a table shows the columns first.
_FIRST = {
    "score_variance",
    "max_weight",
    "entropy",
    "jacobian_norm",
    "jacobian_norm_median",
    "query_gradient_norm",
    "query_gradient_norm_median",
}

C = TypeVar("C", bound=AttentionCell)


@dataclass(frozen=True)
class RowMeasurement:
    """Moments over trials of the score moments and row means, and the histograms of the norms of
    rows.

    Attributes:
        moments: of one vector per trial: the means of the four powers of the scores less
            `AttentionCell.score_centre`, then, under each scaling, of the metrics of rows.
        norms: under each scaling, one series for each number per row that has quantiles.
    """

    moments: Moments
    norms: Histograms

    def merge(self, following: Self) -> Self:
        """Both chunks together; the order matters for the rounding of the moments, and not for the
        histograms.
        """
        return type(self)(self.moments.merge(following.moments), self.norms.merge(following.norms))


@dataclass(frozen=True)
class RowStatistics:
    """A tuple of metrics of attention rows: their measurement in a cell, and the rows of a
    table.
    """

    metrics: tuple[RowsMetric, ...]

    def experiment(self, name: str, cell: type[C]) -> Experiment[C, RowMeasurement]:
        """The experiment of a folder's name that measures these metrics in cells of a class.

        A table begins with the metrics of `_FIRST`, and has the others in their order.
        """
        in_order = sorted(self.metrics, key=lambda metric: metric.name not in _FIRST)
        trials = Column("trials", "int", "independent draws of (Q, K)")
        return Experiment(
            name,
            cell,
            columns=(*TREATMENT, trials, *metric_columns(in_order)),
            measure=self.measure,
            tabulate=self.tabulate,
            metrics=self.metrics,
            min_trials=2,
        )

    @cached_property
    def _of_rows(self) -> list[RowMetric]:
        """The metrics of rows, in order."""
        return [metric for metric in self.metrics if isinstance(metric, RowMetric)]

    @cached_property
    def _means(self) -> list[RowMetric]:
        """The metrics that are a mean over rows, or its root, in order."""
        return [metric for metric in self._of_rows if metric.kind != "quantile"]

    @cached_property
    def _ranked(self) -> list[PerRow]:
        """The numbers per row behind the quantiles, in order; quantiles of one norm share an
        entry.
        """
        quantiles = (metric for metric in self._of_rows if metric.kind == "quantile")
        return list(dict.fromkeys(metric.source for metric in quantiles))

    def measure(self, cell: AttentionCell, trials: int, rng: np.random.Generator) -> RowMeasurement:
        """Measure the metrics in that many independent draws of (Q, K), a batch of draws at a time.

        With the same cell and generator, the numbers under one scaling do not depend on the other
        scalings.
        """
        size = cell.batch_trials
        counts = [min(size, trials - first) for first in range(0, trials, size)]
        (of_gradients,) = rng.spawn(1)  # leaves the draws of Q and K as they are
        batches = [self._measure_batch(cell, count, rng, of_gradients) for count in counts]
        return RowMeasurement(
            Moments.of(np.concatenate([means for means, _ in batches], axis=-1)),
            Histograms.of(np.concatenate([norms for _, norms in batches], axis=1)),
        )

    def _measure_batch(
        self,
        cell: AttentionCell,
        trials: int,
        rng: np.random.Generator,
        of_gradients: np.random.Generator,
    ) -> tuple[Floats, Floats]:
        """The vector of `RowMeasurement.moments` of each draw, (means, trials), and the numbers per
        row behind the quantiles, (series, trials, n_queries).
        """
        keys, queries_of = cell.draw(trials, rng)
        score_sums, row_sums, series = np.zeros((POWERS, trials)), np.zeros(()), []
        for rows in cell.query_batches():
            queries = queries_of(rows)
            scores = queries @ keys.swapaxes(-1, -2)
            visible = cell.visible(rows)
            score_sums += _power_sums(scores, visible, cell.score_centre)
            gradients = of_gradients.standard_normal(scores.shape)
            if visible is not None:
                scores = np.where(visible, scores, -np.inf)
            batch = self._batch(cell, rows, keys, queries, scores, gradients)
            sums = [_sum_over_rows(metric, batch) for metric in self._means]
            row_sums = row_sums + np.stack(sums, axis=1)
            series.append(np.stack([batch.values(of) for of in self._ranked], axis=1))
        row_means = row_sums.reshape(-1, trials) / cell.n_queries
        means = np.concatenate([score_sums / cell.scores, row_means])
        return means, np.concatenate(series, axis=-1).reshape(-1, trials, cell.n_queries)

    def _batch(
        self,
        cell: AttentionCell,
        rows: slice,
        keys: Floats,
        queries: Floats,
        scores: Floats,
        gradients: Floats,
    ) -> Batch:
        """The batch of these rows of each draw, with the arrays that the metrics need."""
        sources = {metric.source for metric in self._of_rows}
        divisors = cell.divisors()
        diagnostics = row_diagnostics(
            scores,
            divisors,
            keys=keys if "weight_jacobian_norm" in sources else None,
            gradients=gradients if "query_gradient_norm" in sources else None,
            with_variance="row_variance" in sources,
            own_keys=cell.own_keys(rows) if "own_weight" in sources else None,
        )
        return Batch(
            queries,
            keys,
            np.reshape(divisors, (-1, 1, 1)),
            diagnostics,
            cell.n_queries / cell.n_keys,
            cell.extra_values(keys, scores, gradients),
        )

    def tabulate(self, cell: AttentionCell, measurement: RowMeasurement) -> dict[str, list[Row]]:
        """One row per scaling with each metric of two trials or more."""
        moments, estimates = measurement.moments, self._estimates(cell, measurement)
        trials = moments.trials
        rows = []
        for treatment in cell.treatments():
            scaling = treatment["scaling"]
            found: dict[str, tuple[float, float] | Quantile] = {}
            for metric in self.metrics:
                if isinstance(metric, RowMetric) and metric.kind == "quantile":
                    found[metric.name] = self.quantile(cell, measurement, scaling, metric)
                else:
                    found[metric.name] = estimates[scaling, metric.name].with_error(moments)
            measured = metric_row(
                self.metrics, cell, trials, found, cell.n_queries, trials * cell.separate_rows
            )
            rows.append({**treatment, "trials": trials, **measured})
        return {MEASURED: rows}

    def quantile(
        self, cell: AttentionCell, measurement: RowMeasurement, scaling: str, metric: RowMetric
    ) -> Quantile:
        """A quantile of rows under the scaling of that name, with its interval."""
        rule = [rule.name for rule in cell.scaling].index(scaling)
        series = rule * len(self._ranked) + self._ranked.index(metric.source)
        return measurement.norms.quantile(series, metric.share)

    def _estimates(
        self, cell: AttentionCell, measurement: RowMeasurement
    ) -> dict[tuple[str, str], Estimate]:
        """Every metric of every scaling except the quantiles, by (scaling, metric): a smooth
        function of the means over trials.
        """
        moments = measurement.moments
        shape, unit = ScoreMoments.of(moments, cell.score_centre), np.eye(len(moments.mean))
        found: dict[tuple[str, str], Estimate] = {}
        place = POWERS
        for scaling, divisor in zip(cell.scaling, cell.divisors(), strict=True):
            for metric in self.metrics:
                if isinstance(metric, ScoreMetric):
                    found[scaling.name, metric.name] = metric.compute(shape, divisor)
            for metric in self._means:
                mean = Estimate(float(moments.mean[place]), unit[place])
                is_root = metric.kind == "root"
                found[scaling.name, metric.name] = mean.root() if is_root else mean
                place += 1
        return found


def _power_sums(scores: Floats, visible: npt.NDArray[np.bool_] | None, centre: float) -> Floats:
    """Sums of the powers of the visible scores less a centre over each draw, (powers, trials)."""
    if centre:
        scores = scores - centre
    if visible is not None:
        scores = np.where(visible, scores, 0.0)
    return power_sums(scores.reshape(len(scores), -1))


def _sum_over_rows(metric: RowMetric, batch: Batch) -> Floats:
    """Sums of a metric over the queries, (scalings, trials); of its squares for a root mean
    square.
    """
    values = batch.values(metric.source)
    return np.asarray(
        np.vecdot(values, values if metric.kind == "root" else np.ones(values.shape[-1]))
    )
