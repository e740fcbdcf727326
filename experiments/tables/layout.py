"""Tables as CSV: their digits, the columns that name their sweep, and those of the two files with
the main table, `all_metrics` and the summary.

The suite reads `all_metrics`; people read the summary, SWEEP.csv. Neither has the interval of a mean
or of a root mean square, which follows from the value, its standard error and the trials
(`experiments.measuring.intervals`).
"""

from typing import TYPE_CHECKING

import numpy as np

from experiments.config.paths import SUMMARY
from experiments.kinds.figures import SUMMARIES
from experiments.measuring.columns import RULES, Column, names
from experiments.measuring.experiment import MEASURED, AnyExperiment
from experiments.measuring.intervals import Limits, mean_interval
from experiments.measuring.metric import Metric

if TYPE_CHECKING:
    import pandas as pd

    from experiments.tables.results import Results

DIGITS = "%.10g"
IDENTITY = (
    Column("sweep", "str", "name of the sweep"),
    Column("experiment", "str", "experiment of the sweep"),
    Column("seed", "int", "root seed of the config"),
)
_AVERAGES = "mean", "root"  # kinds of metrics whose interval follows from their error
_ALWAYS = "n_keys", RULES, "divisor", "trials"  # in a summary, if the experiment has them


def csv_bytes(table: "pd.DataFrame") -> bytes:
    r"""A table as CSV: floats have ten significant digits, missing values are empty.

    >>> import pandas as pd
    >>> csv_bytes(pd.DataFrame({"d_k": [4, 8], "slope": [1 / 3, float("nan")]}))
    b'd_k,slope\n4,0.3333333333\n8,\n'
    """
    text: str = table.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    return text.encode()


def written_columns(experiment: AnyExperiment) -> list[str]:
    """The columns of `all_metrics` by name: those of the main table, without intervals that follow
    from others.
    """
    implied = {f"{metric.name}{end}" for metric in _means(experiment) for end in ("_low", "_high")}
    every = (column.name for column in experiment.table_columns)
    return [name for name in every if name not in implied]


def with_intervals(experiment: AnyExperiment, written: "pd.DataFrame") -> "pd.DataFrame":
    """The main table from `all_metrics`: with the intervals of means and roots."""
    ends: dict[str, tuple[float, ...]] = {}
    for metric in _means(experiment):
        limits = metric.limits(written)
        lows, highs = (np.broadcast_to(end, len(written)) for end in (limits.low, limits.high))
        estimates = (written[name] for name in (metric.name, f"{metric.name}_se", "trials"))
        found = [
            mean_interval(value, error, trials, Limits(low, high))
            for value, error, trials, low, high in zip(*estimates, lows, highs, strict=True)
        ]
        low, high = zip(*found, strict=True)
        ends |= {f"{metric.name}_low": low, f"{metric.name}_high": high}
    return written.assign(**ends)[names(experiment.table_columns)]


def csv_contents(results: "Results") -> dict[str, bytes]:
    """The bytes of all tables by kind, with the summary; each but that begins with `IDENTITY`."""
    sweep = results.sweep
    values = sweep.name, sweep.experiment.name, sweep.seed
    identity = dict(zip(names(IDENTITY), values, strict=True))
    written = written_columns(sweep.experiment)
    tables = {**results, MEASURED: results.measured[written]}
    contents = {
        kind: csv_bytes(table.assign(**identity)[[*identity, *table.columns]])
        for kind, table in tables.items()
    }
    return contents | {SUMMARY: csv_bytes(results.measured[summary_columns(results)])}


def summary_columns(results: "Results") -> list[str]:
    """The columns of a summary among those of `all_metrics`: the axes that vary, the number of keys,
    the rule with its divisor and trials, and what the experiment declares, with exact values and
    one error: that of a mean or a root, and the interval of anything else.
    """
    experiment = results.experiment
    declared = SUMMARIES[experiment.name]
    wanted = {*results.axes.varied(results.measured), *_ALWAYS, *declared}
    for metric in experiment.metrics:
        if metric.name in declared:
            ends = ("_se",) if metric.kind in _AVERAGES else ("_low", "_high")
            wanted |= {f"{metric.name}{end}" for end in (*ends, "_exact")}
    return [name for name in written_columns(experiment) if name in wanted]


def _means(experiment: AnyExperiment) -> list[Metric]:
    return [metric for metric in experiment.metrics if metric.kind in _AVERAGES]
