"""The kernel: what a trial of attention rows computes, in the order of `experiments/one_page.py`.

    draw        keys and queries of independent draws, from the law of the cell
    scores      q.k of all queries and keys, -inf where masked, and gradients g to the weights
    softmax     of each row under every divisor, by `sdpa.softmax_rows` in tiles of rows
    metrics     powers of the scores, and a number per row for each metric of `row_metrics`
    reduction   of each trial to a vector of means, and of norms to histograms

All rules see the same draw. Standard errors come from whole independent draws, because scores that
share a query or a key are not independent. `experiments.measuring.processor` fixes the instructions
(AVX2), so that the numbers are the same on every processor.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Self, TypeVar

import numpy as np

from experiments.measuring.cells import Row
from experiments.measuring.columns import Column
from experiments.measuring.experiment import MEASURED, Experiment
from experiments.measuring.metric import metric_columns, metric_row
from experiments.measuring.moments import POWERS, Estimate, Moments, ScoreMoments, power_sums
from experiments.measuring.quantiles import Histograms, Quantile
from experiments.measuring.row_metrics import Batch, KernelMetric, PerRow, RowMetric
from experiments.measuring.sampling import AttentionCell
from experiments.measuring.score_metrics import ScoreMetric
from sdpa._arrays import FloatArray
from sdpa.row_maps import MappedRows
from sdpa.softmax_rows import RowDiagnostics, row_diagnostics

# The metrics of which a table shows the columns first.
_FIRST_METRICS = {
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
class Kernel(Generic[C]):
    """The measurement of metrics of attention rows in a cell, and the rows of its table.

    Attributes:
        metrics: what is measured: at least one mean of rows and one quantile.
    """

    metrics: tuple[KernelMetric, ...]

    def __post_init__(self) -> None:
        if not (self._means and self._quantile_sources):
            got = ", ".join(metric.name for metric in self.metrics)
            raise ValueError(f"expected at least one mean of rows and one quantile, got {got}")

    def measure(self, cell: C, trials: int, rng: np.random.Generator) -> RowMeasurement:
        """Measure the metrics in that many independent draws of (Q, K), a batch of draws at a time.

        With the same cell and generator, the numbers under one scaling do not depend on the other
        scalings.
        """
        (gradient_rng,) = rng.spawn(1)  # leaves the draws of Q and K as they are
        means, norms = [], []
        for first in range(0, trials, cell.batch_trials):
            count = min(cell.batch_trials, trials - first)
            # draw
            keys, draw_queries = cell.draw(count, rng)
            powers, row_sums, row_norms = np.zeros((POWERS, count)), np.zeros(()), []
            for query_slice in cell.query_batches():
                queries = draw_queries(query_slice)
                # scores
                scores = queries @ keys.swapaxes(-1, -2)
                visible = cell.visible(query_slice)
                if visible is not None:
                    scores = np.where(visible, scores, -np.inf)
                g = gradient_rng.standard_normal(scores.shape)
                # softmax
                rows = self.softmax(cell, scores, keys, g)
                # metrics, and their reduction over rows
                powers += power_sums(scores, visible, cell.score_centre)
                batch = Batch(cell, query_slice, queries, keys, scores, rows)
                sums = [_sum_over_rows(metric, batch) for metric in self._means]
                row_sums = row_sums + np.stack(sums, axis=1)
                row_norms.append(
                    np.stack([batch.values(norm) for norm in self._quantile_sources], axis=1)
                )
            row_means = row_sums.reshape(-1, count) / cell.n_queries
            means.append(np.concatenate([powers / cell.n_scores, row_means]))
            batch_norms = np.concatenate(row_norms, axis=-1)
            norms.append(batch_norms.reshape(-1, count, cell.n_queries))
        return RowMeasurement(
            Moments.of(np.concatenate(means, axis=-1)),
            Histograms.of(np.concatenate(norms, axis=1)),
        )

    def softmax(
        self, cell: C, scores: FloatArray, keys: FloatArray, gradients: FloatArray
    ) -> RowDiagnostics | MappedRows:
        """The softmax of scores (trials, queries, n_keys) under each divisor of the cell."""
        return row_diagnostics(scores, cell.divisors(), keys, gradients=gradients)

    @cached_property
    def _row_metrics(self) -> list[RowMetric]:
        return [metric for metric in self.metrics if isinstance(metric, RowMetric)]

    @cached_property
    def _means(self) -> list[RowMetric]:
        """The metrics that are a mean over rows, or its root, in order."""
        return [metric for metric in self._row_metrics if metric.kind != "quantile"]

    @cached_property
    def _quantile_sources(self) -> list[PerRow]:
        """The numbers per row behind the quantiles, in order; quantiles of one norm share an
        entry.
        """
        sources = (metric.source for metric in self._row_metrics if metric.kind == "quantile")
        return list(dict.fromkeys(sources))

    def experiment(self, name: str, cell: type[C]) -> Experiment[C, RowMeasurement]:
        """The experiment of a folder's name that measures these metrics in cells of a class.

        A table begins with the metrics of `_FIRST_METRICS`, and has the others in their order.
        """
        in_order = sorted(self.metrics, key=lambda metric: metric.name not in _FIRST_METRICS)
        trials = Column("trials", "int", "independent draws of (Q, K)")
        return Experiment(
            name,
            cell,
            columns=(trials, *metric_columns(in_order)),
            measure=self.measure,
            tabulate=self.tabulate,
            metrics=self.metrics,
            min_trials=2,
        )

    def tabulate(self, cell: C, measurement: RowMeasurement) -> dict[str, list[Row]]:
        """One row per rule, with each metric: a smooth function of the means over trials, or a
        quantile. It needs two trials.
        """
        moments, trials = measurement.moments, measurement.moments.trials
        shape, unit = ScoreMoments.of(moments, cell.score_centre), np.eye(len(moments.mean))
        rows = []
        for i, rule_cell in enumerate(cell.by_rule()):
            estimates: dict[str, tuple[float, float] | Quantile] = {}
            for metric in self.metrics:
                if isinstance(metric, ScoreMetric):
                    estimate = metric.compute(shape, rule_cell.divisor)
                    estimates[metric.name] = estimate.with_error(moments)
                elif metric.kind == "quantile":
                    series = i * len(self._quantile_sources) + self._quantile_sources.index(
                        metric.source
                    )
                    estimates[metric.name] = measurement.norms.quantile(series, metric.share)
                else:
                    place = POWERS + i * len(self._means) + self._means.index(metric)
                    mean = Estimate(float(moments.mean[place]), unit[place])
                    estimate = mean.root() if metric.kind == "root" else mean
                    estimates[metric.name] = estimate.with_error(moments)
            rows.append(metric_row(self.metrics, rule_cell, trials, estimates))
        return {MEASURED: rows}


def _sum_over_rows(metric: RowMetric, batch: Batch) -> FloatArray:
    """Sums of a metric over the queries, (scalings, trials); of its squares for a root mean
    square.
    """
    values = batch.values(metric.source)
    return np.asarray(
        np.vecdot(values, values if metric.kind == "root" else np.ones(values.shape[-1]))
    )
