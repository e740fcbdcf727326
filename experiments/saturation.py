"""The core experiment: draw Q and K, and measure every scaling on the same draw.

Per trial one Q (n_queries x d_k), one K (n_keys x d_k) and one standard normal gradient to the weights are drawn.
Each trial is reduced to a vector of row means, so that standard errors come from whole independent draws.
"""

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from experiments.draws import AXES, TREATMENT, Cell, Floats, block_queries, block_trials, chunk_trials, draw
from experiments.harness.experiment import Column, Experiment, Row
from experiments.harness.metric import Metric, few_draws_column, fields
from experiments.statistics.intervals import MIN_DRAWS_OF_FOURTH_POWERS, Limits
from experiments.statistics.moments import POWERS, Estimates, Moments, power_sums, shape
from experiments.statistics.quantiles import MOST_BINS, Histograms, Quantile
from sdpa import RowDiagnostics, row_diagnostics
from sdpa.diagnostics import tile_rows
from sdpa.metrics import SATURATED

# What `plan` reckons with, measured on a server core of 2025: nanoseconds per normal, per multiplication of a matrix
# product, per score and scaling for the exponential and the sums, and per row and scaling for the rest.
_PER_NORMAL, _PER_PRODUCT, _PER_SCORE, _PER_ROW = 7.1, 0.03, 2.0, 125.0
# Arrays that are alive at once, at most; a test compares them with a measured peak. Of a block's scores, of the rows
# at hand in the kernel, of a chunk's row norms for all scalings, and of the norms of one scaling while they are
# counted; of what is per row and scaling of a block, and of the means of a chunk's trials.
_SCORE_ARRAYS, _KERNEL_ARRAYS, _NORM_ARRAYS, _COUNTING_ARRAYS = 2, 6, 3, 12
_ROW_ARRAYS, _MEAN_ARRAYS = 13, 3

_ROW_MEANS = ("max_weight", "entropy", "jacobian_trace", "saturated_rows", "jacobian_square", "query_gradient_square")
NORMS = ("jacobian_norm", "query_gradient_norm")
QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9}
# What `precision` is about; the mean of scores is 0, and kurtosis and the share of saturated rows may be.
_PRECISE = ("score_variance", "max_weight", "entropy", "jacobian_trace", "jacobian_norm", "query_gradient_norm")


@dataclass(frozen=True)
class SaturationMeasurement:
    """Moments over trials of the score moments and row means, and the histograms of the norms of rows."""

    moments: Moments
    norms: Histograms

    def merge(self, later: Self) -> Self:
        """Both chunks together."""
        return type(self)(self.moments.merge(later.moments), self.norms.merge(later.norms))


def measure(cell: Cell, trials: int, rng: np.random.Generator, *, gradients: bool = True) -> SaturationMeasurement:
    """Measure that many independent draws of (Q, K), a block of draws at a time.

    Without gradients, as the benchmark times it too, none to the weights is drawn and none to the query measured.
    """
    size = block_trials(cell)
    counts = (min(size, trials - first) for first in range(0, trials, size))
    blocks = [_measure_block(cell, count, rng, gradients) for count in counts]
    return SaturationMeasurement(
        Moments.of(np.concatenate([means for means, _ in blocks], axis=-1)),
        Histograms.of(np.concatenate([norms for _, norms in blocks], axis=1)),
    )


def _measure_block(cell: Cell, trials: int, rng: np.random.Generator, gradients: bool) -> tuple[Floats, Floats]:
    """Per draw the means of score powers and row metrics, (4 + 6 scalings, trials); and the norms of every row."""
    score_sums, row_sums, norms = np.zeros((POWERS, trials)), np.zeros(()), []
    keys, query_blocks = draw(cell, trials, rng)
    for _, queries in query_blocks:
        scores = queries @ keys.swapaxes(-1, -2)
        score_sums += power_sums(scores.reshape(trials, -1))
        upstream = (keys, rng.standard_normal(scores.shape)) if gradients else ()
        rows = row_diagnostics(scores, cell.divisors(), *upstream)
        norms.append(_norms(rows))
        row_sums = row_sums + _row_sums(rows, norms[-1])
    means = [score_sums / (cell.n_queries * cell.n_keys), row_sums.reshape(-1, trials) / cell.n_queries]
    return np.concatenate(means), np.concatenate(norms, axis=-1).reshape(-1, trials, cell.n_queries)


def _norms(rows: RowDiagnostics) -> Floats:
    """The norms that there are, in the order of NORMS, (scalings, 2 or 1, trials, queries)."""
    found = [norm for norm in (rows.jacobian_norm, rows.query_gradient_norm) if len(norm)]
    return np.stack(found, axis=1)


def _row_sums(rows: RowDiagnostics, norms: Floats) -> Floats:
    """Sums over queries in the order of _ROW_MEANS, (scalings, 6, trials)."""
    ones, saturated = np.ones(norms.shape[-1]), rows.max_weight > SATURATED
    sums = [np.vecdot(values, ones) for values in (rows.max_weight, rows.entropy, rows.jacobian_trace, saturated)]
    return np.concatenate([np.stack(sums, axis=1), np.vecdot(norms, norms)], axis=1)


def tabulate(cell: Cell, measurement: SaturationMeasurement) -> Iterator[Row]:
    """One row per scaling: each metric, its standard error and its interval."""
    trials, means = measurement.moments.trials, estimates(cell, measurement)
    for i, (scaling, divisor) in enumerate(zip(cell.scaling, cell.divisors(), strict=True)):
        treatment = {"scaling": scaling.name, "exponent": float(scaling.exponent), "divisor": divisor}
        found: dict[str, tuple[float, float] | Quantile] = {
            metric.name: means.pair((scaling.name, metric.name)) for metric in METRICS if metric.kind != "quantile"
        }
        for j, norm in enumerate(NORMS):
            for name, share in QUANTILES.items():
                found[f"{norm}_{name}"] = measurement.norms.quantile(len(NORMS) * i + j, share)
        yield {**treatment, "trials": trials, **fields(METRICS, cell, trials, found)}


def relative_error(cell: Cell, measurement: SaturationMeasurement) -> float:
    """The largest relative standard error of any scaling's metrics of _PRECISE; infinite where one came out as 0."""
    found = estimates(cell, measurement)
    precise = [found.names.index((scaling.name, metric)) for scaling in cell.scaling for metric in _PRECISE]
    values, errors = np.abs(found.values[precise]), found.errors[precise]
    # An error of 0 beside a value says that its square was too small for a double.
    return float(np.divide(errors, values, out=np.full_like(values, np.inf), where=(values > 0) & (errors > 0)).max())


def estimates(cell: Cell, measurement: SaturationMeasurement) -> Estimates:
    """Every metric of every scaling but the quantiles, named (scaling, metric), with their covariance."""
    functions: dict[Hashable, tuple[float, Floats]] = {}
    for i, (scaling, divisor) in enumerate(zip(cell.scaling, cell.divisors(), strict=True)):
        of_scaling = _score_estimates(measurement.moments, divisor) | _row_estimates(measurement.moments, i)
        functions |= {(scaling.name, metric): function for metric, function in of_scaling.items()}
    return Estimates.of(measurement.moments, functions)


def _score_estimates(moments: Moments, divisor: float) -> dict[str, tuple[float, Floats]]:
    """Mean, variance about the mean and excess kurtosis of the scaled scores, each with its gradient."""
    mean, variance, kurtosis = shape(moments)
    return {
        "score_mean": (mean[0] / divisor, mean[1] / divisor),
        "score_variance": (variance[0] / divisor**2, variance[1] / divisor**2),
        "score_kurtosis": kurtosis,
    }


def _row_estimates(moments: Moments, scaling: int) -> dict[str, tuple[float, Floats]]:
    """The means over rows, and the root mean squares, of the scaling of that number, each with its gradient."""
    first = POWERS + scaling * len(_ROW_MEANS)
    unit = np.eye(len(moments.mean))[first : first + len(_ROW_MEANS)]
    means = moments.mean[first : first + len(_ROW_MEANS)].tolist()
    functions = dict(zip(_ROW_MEANS, zip(means, unit, strict=True), strict=True))
    for name in ("jacobian", "query_gradient"):
        square, gradient = functions.pop(f"{name}_square")
        root = math.sqrt(square)
        functions[f"{name}_norm"] = (root, gradient / (2 * root) if root else 0 * gradient)
    return functions


def seconds_per_trial(cell: Cell) -> float:
    """Rough time of a draw and all its scalings on one worker."""
    narrow = min(cell.n_keys, cell.d_k)
    products = cell.scores * (cell.d_k + len(cell.scaling) * narrow) + cell.n_keys * narrow * cell.d_k
    passes = (len(cell.scaling) + 1) * _PER_SCORE * cell.scores + len(cell.scaling) * _PER_ROW * cell.n_queries
    return 1e-9 * (_PER_NORMAL * cell.numbers + _PER_PRODUCT * products + passes)


def memory(cell: Cell) -> int:
    """Bytes at the peak of a chunk: keys, queries and scores of a block, the kernel's arrays, norms of rows, bins."""
    trials, queries = block_trials(cell), block_queries(cell)
    block = trials * (cell.n_keys * cell.d_k + queries * (cell.d_k + _SCORE_ARRAYS * cell.n_keys))
    # The Gram matrix and the centred keys that it is made from are there only if there are fewer keys than d_k.
    gram = cell.n_keys * (cell.n_keys + cell.d_k) if cell.n_keys < cell.d_k else 0
    tile = min(tile_rows(cell.n_keys), trials * queries)
    kernel = _KERNEL_ARRAYS * tile * cell.n_keys + max(1, tile // queries) * gram
    rows, series = chunk_trials(cell) * cell.n_queries, len(cell.scaling) * len(NORMS)
    norms = series * (_NORM_ARRAYS * rows + 8 * MOST_BINS) + _COUNTING_ARRAYS * rows
    of_rows = _ROW_ARRAYS * len(cell.scaling) * trials * queries
    means = _MEAN_ARRAYS * (POWERS + len(_ROW_MEANS) * len(cell.scaling)) * chunk_trials(cell)
    return 8 * (block + kernel + norms + of_rows + means)


def _of_norm(norm: str, meaning: str, formula: str, high: float) -> tuple[Metric, ...]:
    """The root mean square of a norm from 0 to `high`, and the quantiles of its rows."""
    within = Limits(0, high)
    root = Metric(
        norm, "", f"{meaning}, root mean square over rows", f"sqrt(E {formula}^2)", "root", limits=lambda _: within
    )
    quantiles = (
        Metric(f"{norm}_{name}", "", f"the same norm, {share:.0%} quantile of rows", f"F^-1({share})", "quantile")
        for name, share in QUANTILES.items()
    )
    return (root, *quantiles)


METRICS = (
    Metric(
        "score_mean", "", "mean of the scaled scores", "E[q.k] / divisor", draws_like="score_variance", scale_free=True
    ),
    Metric(
        "score_variance",
        "",
        "variance of the scaled scores, pooled over draws",
        "Var[q.k] / divisor^2",
        limits=lambda _: Limits(0),
        scale_free=True,
    ),
    Metric(
        "score_kurtosis",
        "",
        "excess kurtosis of the scores",
        "E[(s - E s)^4] / Var[s]^2 - 3",
        limits=lambda _: Limits(-3),
        min_draws=MIN_DRAWS_OF_FOURTH_POWERS,
        scale_free=True,
    ),
    Metric(
        "max_weight",
        "",
        "largest weight of a row, mean over rows",
        "E max_j w_j",
        limits=lambda cells: Limits(1 / cells.n_keys, 1),
    ),
    Metric(
        "entropy",
        "nats",
        "entropy of a row, mean over rows",
        "E[-sum_j w_j ln w_j]",
        limits=lambda cells: Limits(0, np.log(cells.n_keys)),
    ),
    Metric(
        "jacobian_trace",
        "",
        "trace of the softmax Jacobian, mean over rows",
        "E[1 - sum_j w_j^2]",
        limits=lambda cells: Limits(0, 1 - 1 / cells.n_keys),
    ),
    # |J|_F is at most 1/2, in a row with two equal weights.
    *_of_norm("jacobian_norm", "Frobenius norm of the softmax Jacobian J = diag(w) - w w^T", "|J|_F", 0.5),
    *_of_norm(
        "query_gradient_norm",
        "norm of dL/dq = K^T J g / divisor for a standard normal gradient g to the weights",
        "|dL/dq|",
        math.inf,
    ),
    Metric(
        "saturated_rows",
        "",
        f"share of rows whose largest weight exceeds {SATURATED}",
        f"P(max_j w_j > {SATURATED})",
        "share",
        limits=lambda _: Limits(0, 1),
    ),
)

EXPERIMENT = Experiment(
    cell=Cell,
    columns=(
        *AXES,
        *TREATMENT,
        Column("trials", "int", "", "independent draws of (Q, K)"),
        *(column for metric in METRICS for column in metric.columns()),
        few_draws_column(),
    ),
    metrics=METRICS,
    chunk_trials=chunk_trials,
    measure=measure,
    tabulate=tabulate,
    seconds_per_trial=seconds_per_trial,
    memory=memory,
    table_rows=lambda cell, _: len(cell.scaling),
    min_trials=2,
    relative_error=relative_error,
    detail=estimates,
)
