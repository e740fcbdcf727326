"""The calibration in tables: alarms by config, coverage by config and metric, faults by size, and failures.

`Runs` go in; the tables of results/benchmarks/calibration*.csv come out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from experiments.analysis.agreement import ALARM, SURE
from experiments.benchmarks.calibration.faults import HARMLESS
from experiments.benchmarks.calibration.measured import statistics_of
from experiments.benchmarks.calibration.runs import Runs
from experiments.harness.columns import defaults
from experiments.harness.experiment import load_experiment

MIN_COVERAGE = 0.93  # of unflagged 95% intervals, in any config
_CHANCE = 1e-3  # p-value above which chance explains more alarms than promised
_MIN_INTERVALS = 100  # fewer intervals give no meaningful coverage
_SIZES = ("d_k", "n_keys", "n_queries", "scaling")
_FAULTS = ("fault", "config", "trials", "metric", "scaling", "runs", "errors_off", "alarms", "sure", "missed")


@dataclass(frozen=True)
class Calibration:
    """The result of many runs, in three tables.

    Attributes:
        alarms: one row per config and one for `all`: runs, false alarms, and `p_value`, the probability of as many
            alarms or more if each run has one with the promised probability of 0.001.
        coverage: one row per config and metric, and for `all` of either: intervals without a flag, flagged ones, and
            the share of the former that contains the truth.
        faults: one row per fault, config, metric and scaling: runs, alarms, and `missed`, the runs in which the check
            broke its promise to find the fault.
    """

    alarms: pd.DataFrame
    coverage: pd.DataFrame
    faults: pd.DataFrame

    def failures(self) -> list[str]:
        """One line for each promise of the check that the runs break.

        Promises: no more alarms than chance explains (p from 0.001), unflagged intervals that cover the truth in at
        least 93% of cases in every config with 100 intervals or more, and no missed fault.
        """
        failed = [
            f"{row['config']}: {row['alarms']} alarms in {row['runs']} runs, p = {row['p_value']:.2g}"
            for _, row in self.alarms.iterrows()
            if row["p_value"] < _CHANCE
        ]
        whole = self.coverage[self.coverage["metric"] == "all"]
        failed += [
            f"{row['config']}: 95% intervals cover {row['coverage']:.1%} of {row['intervals']}"
            for _, row in whole.iterrows()
            if row["intervals"] >= _MIN_INTERVALS and row["coverage"] < MIN_COVERAGE
        ]
        missed = self.faults[self.faults["missed"] > 0]
        return failed + [
            f"{row['fault']} of {row['metric']}, {row['scaling']}, {row['config']}: missed {row['missed']}"
            for _, row in missed.iterrows()
        ]


def summarise(runs: Sequence[Runs], mistakes: Mapping[tuple[str, str], Sequence[bool]], promised: str) -> Calibration:
    """The tables of runs with and without mistakes in the code.

    Args:
        runs: the runs of each sweep without mistakes.
        mistakes: by mistake and sweep, True for each run with an alarm.
        promised: the sweep in which the check may miss only `HARMLESS` mistakes.
    """
    alarms = pd.DataFrame([_alarms(each) for each in runs])
    coverage = pd.concat([coverage_of(each) for each in runs], ignore_index=True)
    trials = {each.sweep.name: each.sweep.trials for each in runs}
    planted = pd.concat([each.faults for each in runs], ignore_index=True)
    faults = pd.DataFrame([*_factors(planted), *_mistakes(mistakes, trials, promised)], columns=_FAULTS)
    return _with_totals(alarms, coverage, faults)


def merged(before: Calibration, again: Calibration, configs: Sequence[str]) -> Calibration:
    """Both calibrations together: the rows of the second one in place of those of its configs in the first.

    Args:
        before: tables of some configs.
        again: tables of configs that ran again, or of new ones.
        configs: all configs in their order; rows of others go.
    """
    order = {name: place for place, name in enumerate(configs)}

    def together(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
        rows = pd.concat([old[~old["config"].isin(new["config"])], new])
        rows = rows[rows["config"].isin(order)]
        return rows.sort_values("config", key=lambda names: names.map(order), kind="stable")

    coverage = together(before.coverage, again.coverage)
    coverage["covering"] = (coverage["coverage"].fillna(0) * coverage["intervals"]).round().astype(int)
    faults = together(before.faults, again.faults) if len(again.faults) else before.faults
    return _with_totals(together(before.alarms, again.alarms), coverage, faults)


def _with_totals(alarms: pd.DataFrame, coverage: pd.DataFrame, faults: pd.DataFrame) -> Calibration:
    """The tables with rows for all configs together.

    Args:
        alarms: one row per config.
        coverage: one row per config and metric, with `covering`, the number of intervals that contain the truth.
        faults: as in `Calibration`.
    """
    whole = {"config": "all", "runs": alarms["runs"].sum(), "alarms": alarms["alarms"].sum()}
    alarms = pd.concat([alarms, pd.DataFrame([whole])], ignore_index=True)
    alarms["p_value"] = stats.binom.sf(alarms["alarms"] - 1, alarms["runs"], ALARM)
    of_metrics = coverage.groupby("metric", sort=False)[["intervals", "covering", "flagged"]].sum().reset_index()
    coverage = pd.concat([coverage, of_metrics.assign(config="all")], ignore_index=True)
    coverage["coverage"] = coverage["covering"] / coverage["intervals"].where(coverage["intervals"] > 0)
    return Calibration(alarms, coverage.drop(columns="covering"), faults)


def _alarms(runs: Runs) -> dict[str, object]:
    """The number of alarms of a config, and a test of its cells' p-values for uniformity (Kolmogorov and Smirnov)."""
    sweep = runs.sweep
    told = {name: "/".join(map(str, values)) for name, values in sweep.values.items()}
    usual = defaults(load_experiment(sweep.experiment).cell)
    other = [name for name in told if name not in _SIZES and told[name] != str(usual.get(name))]
    varied = {
        **{name: told.get(name, "") for name in _SIZES},
        "other": ", ".join(f"{name}={told[name]}" for name in other),
    }
    # In a config without a tested cell all p-values are 1.
    has_tests = (runs.p_cells < 1).any()
    judged = runs.judged.mean(axis=0).round(1).tolist()
    return {
        "config": sweep.name,
        **varied,
        "trials": sweep.trials,
        "runs": len(runs.alarms),
        "alarms": int(runs.alarms.sum()),
        "uniform_p": float(f"{stats.kstest(runs.p_cells, 'uniform').pvalue:.3g}") if has_tests else np.nan,
        **dict(zip(("by_t", "by_bound", "not_tested"), judged, strict=True)),
    }


def coverage_of(runs: Runs) -> pd.DataFrame:
    """The unflagged intervals of each metric and of all metrics, and how many of these cover the truth.

    Returns:
        One row per metric, then one for `all`: `config`, `metric`, `intervals`, `covering` and `flagged`, as counts
            over
        seeds and rows.
    """
    low, high = runs.truth()
    # Exact values are good to 1e-9, and those that are 0 to the precision of a double are ends of intervals.
    slack = 1e-9 * np.abs(high) + 1e-300
    covering = (runs.lows <= high + slack) & (runs.highs >= low - slack) & ~runs.flagged
    places: dict[str, int | slice] = {
        metric.name: place for place, metric in enumerate(statistics_of(runs.sweep).metrics)
    }
    places["all"] = slice(None)
    rows = [
        {
            "config": runs.sweep.name,
            "metric": name,
            "intervals": (~runs.flagged[..., place]).sum(),
            "covering": covering[..., place].sum(),
            "flagged": runs.flagged[..., place].sum(),
        }
        for name, place in places.items()
    ]
    return pd.DataFrame(rows)


def _factors(planted: pd.DataFrame) -> list[dict[str, object]]:
    """Runs, alarms, and missed faults of SURE errors or more, by size of the factor, sweep, metric and scaling.

    A shift below SURE (7) standard errors may stay unseen in a single value, so a run without an alarm then counts as
    no miss.
    """
    rows: list[dict[str, object]] = []
    if planted.empty:  # without columns to group by
        return rows
    for (size, config, trials, metric, scaling), group in planted.groupby(
        ["size", "sweep", "trials", "metric", "scaling"], sort=False
    ):
        sure = group["errors_off"] >= SURE
        rows.append(
            {
                "fault": size,
                "config": config,
                "trials": trials,
                "metric": metric,
                "scaling": scaling,
                "runs": len(group),
                "errors_off": float(f"{group['errors_off'].median():.3g}"),
                "alarms": int(group["alarm"].sum()),
                "sure": int(sure.sum()),
                "missed": int((sure & ~group["alarm"]).sum()),
            }
        )
    return rows


def _mistakes(
    mistakes: Mapping[tuple[str, str], Sequence[bool]], trials: Mapping[str, int], promised: str
) -> list[dict[str, object]]:
    """Runs, alarms, and forbidden misses, by mistake and sweep."""
    return [
        {
            "fault": name,
            "config": sweep,
            "trials": trials[sweep],
            "metric": "",
            "scaling": "",
            "runs": len(alarms),
            "alarms": sum(alarms),
            "missed": sum(not found for found in alarms) if sweep == promised and name not in HARMLESS else 0,
        }
        for (name, sweep), alarms in mistakes.items()
    ]
