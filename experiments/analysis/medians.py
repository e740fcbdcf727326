"""Exact medians of norms, beside their metrics.

The metrics are part of the code that measures, where a change would make every chunk stale.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from experiments.measuring.experiment import AnyCell, Experiment
from experiments.measuring.metric import ErrorBound, Exact, Metric
from experiments.measuring.row_metrics import from_theory

_FORMULA = (
    "lattice rule over |q| and the scores of a row (sdpa.theory.norm_quantiles); empty unless "
    "entries are gaussian and independent, of one variance and as drawn, and the rule divides all "
    "rows alike"
)
_BOUNDS = {
    "jacobian_norm_median": ErrorBound(1e-3, 1e-280),
    "query_gradient_norm_median": ErrorBound(3e-3, 1e-280),
}


def _row(cell: AnyCell) -> tuple[Any, ...]:
    (rule,) = cell.scaling
    divisor = rule if rule.is_by_row and cell.has_mask else cell.divisor
    return cell.d_k, cell.n_keys, divisor, cell.law, cell.shortest_row


@cache
def with_medians(experiment: Experiment) -> Experiment:
    """The experiment `saturation` with the exact medians; any other as it is."""
    if experiment.name != "saturation":
        return experiment
    columns = []
    metrics = {metric.name: _known(metric) for metric in experiment.metrics}
    after = {f"{name}_high": metrics[name] for name in _BOUNDS if name in metrics}
    for column in experiment.columns:
        columns.append(column)
        if column.name in after:
            columns.append(after[column.name].columns()[-1])
    return replace(experiment, columns=tuple(columns), metrics=tuple(metrics.values()))


def _known(metric: Metric) -> Metric:
    if metric.name not in _BOUNDS:
        return metric
    value = from_theory("attention_quantiles", _row, metric.compute)
    return replace(metric, exact=Exact(_FORMULA, value, bounds=(_BOUNDS[metric.name],)))
