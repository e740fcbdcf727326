"""The calibration in tables: alarms by config, coverage by config and metric, faults by size, and what fails."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pandas as pd
from scipy import stats

from experiments.analysis.suite import ALARM, SURE
from experiments.benchmarks.calibration.faults import HARMLESS
from experiments.benchmarks.calibration.runs import METRICS, Batch
from experiments.harness.grid import Sweep

LEAST_COVERAGE = 0.92  # of 95% intervals that are not flagged, in any config
_CHANCE = 1e-3  # by which more alarms than promised are not told from chance
_FEW = 100  # intervals, below which a share says little


@dataclass(frozen=True)
class Calibration:
    """What many runs gave, each a table."""

    alarms: pd.DataFrame
    coverage: pd.DataFrame
    faults: pd.DataFrame

    def failures(self) -> list[str]:
        """What does not meet the numbers that the check promises."""
        failed = [
            f"{row['config']}: {row['alarms']} alarms in {row['runs']} runs, p = {row['p_value']:.2g}"
            for _, row in self.alarms.iterrows()
            if row["p_value"] < _CHANCE
        ]
        whole = self.coverage[self.coverage["metric"] == "all"]
        failed += [
            f"{row['config']}: 95% intervals cover {row['coverage']:.1%} of {row['intervals']}"
            for _, row in whole.iterrows()
            if row["intervals"] >= _FEW and row["coverage"] < LEAST_COVERAGE
        ]
        missed = self.faults[self.faults["missed"] > 0]
        return failed + [
            f"{row['fault']} of {row['metric']}, {row['scaling']}, {row['config']}: missed {row['missed']}"
            for _, row in missed.iterrows()
        ]


def summarise(
    sweeps: Sequence[Sweep], batches: Iterable[Batch], mistakes: Mapping[tuple[str, str], Sequence[bool]], promised: str
) -> Calibration:
    """The tables of all batches, and of runs with mistakes in the code.

    Args:
        sweeps: those of the batches.
        batches: the runs without mistakes.
        mistakes: by mistake and sweep, the alarms.
        promised: the sweep in which none but `HARMLESS` may be missed.
    """
    by_sweep: dict[str, list[Batch]] = {sweep.name: [] for sweep in sweeps}
    for batch in batches:
        by_sweep[batch.sweep].append(batch)
    alarms = pd.DataFrame([_alarms(sweep, by_sweep[sweep.name]) for sweep in sweeps])
    whole = {"config": "all", "runs": alarms["runs"].sum(), "alarms": alarms["alarms"].sum()}
    alarms = pd.concat([alarms, pd.DataFrame([whole])], ignore_index=True)
    alarms["p_value"] = stats.binom.sf(alarms["alarms"] - 1, alarms["runs"], ALARM)
    coverage = pd.concat([coverage_of(sweep, by_sweep[sweep.name]) for sweep in sweeps], ignore_index=True)
    together = coverage.groupby("metric", sort=False)[["intervals", "held", "flagged"]].sum().reset_index()
    coverage = pd.concat([coverage, together.assign(config="all")], ignore_index=True)
    coverage["coverage"] = coverage["held"] / coverage["intervals"].where(coverage["intervals"] > 0)
    planted = pd.concat([batch.faults for found in by_sweep.values() for batch in found], ignore_index=True)
    return Calibration(alarms, coverage.drop(columns="held"), _faults(planted, _mistakes(sweeps, mistakes, promised)))


def _alarms(sweep: Sweep, batches: Sequence[Batch]) -> dict[str, object]:
    """How often a config met the alarm; and if the p-values of its cells are uniform (Kolmogorov and Smirnov)."""
    alarms = np.concatenate([batch.alarms for batch in batches])
    p_cells = np.concatenate([batch.p_cells for batch in batches])
    judged = np.concatenate([batch.judged for batch in batches])
    varied = {name: "/".join(map(str, sweep.values[name])) for name in _SHOWN}
    return {
        "config": sweep.name,
        **varied,
        "trials": sweep.trials,
        "runs": len(alarms),
        "alarms": int(alarms.sum()),
        # In a config without a cell that is tested all are 1.
        "uniform_p": float(f"{stats.kstest(p_cells, 'uniform').pvalue:.3g}") if (p_cells < 1).any() else np.nan,
        **dict(zip(("by_t", "by_bound", "not_tested"), judged.mean(axis=0).round(1).tolist(), strict=True)),
    }


_SHOWN = ("d_k", "n_keys", "n_queries", "inputs", "input_std", "scaling")


def coverage_of(sweep: Sweep, batches: Sequence[Batch]) -> pd.DataFrame:
    """Of each metric, and of all, how many intervals are not flagged and how many of these hold the truth."""
    first = batches[0]
    of_cells = zip(*(batch.pooled for batch in batches), strict=True)
    pooled = tuple(reduce(lambda one, other: one.merge(other), of_cell) for of_cell in of_cells)
    least, most = replace(first, pooled=pooled).truth(sweep)
    lows, highs = (np.concatenate([getattr(batch, end) for batch in batches]) for end in ("lows", "highs"))
    flagged = np.concatenate([batch.flagged for batch in batches])
    # Exact values are good to 1e-9, and those that are 0 to the precision of a double are ends of intervals.
    slack = 1e-9 * np.abs(most) + 1e-300
    held = (lows <= most + slack) & (highs >= least - slack) & ~flagged
    by_metric = {
        metric.name: ((~flagged[..., i]).sum(), held[..., i].sum(), flagged[..., i].sum())
        for i, metric in enumerate(METRICS)
    }
    by_metric["all"] = ((~flagged).sum(), held.sum(), flagged.sum())
    rows = [
        {"config": sweep.name, "metric": name, "intervals": counts[0], "held": counts[1], "flagged": counts[2]}
        for name, counts in by_metric.items()
    ]
    return pd.DataFrame(rows)


def _faults(planted: pd.DataFrame, mistakes: list[dict[str, object]]) -> pd.DataFrame:
    """By kind of fault, run size, metric and scaling: runs, alarms, and missed faults of SURE errors or more."""
    rows = []
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
    return pd.DataFrame([*rows, *mistakes])


def _mistakes(
    sweeps: Sequence[Sweep], mistakes: Mapping[tuple[str, str], Sequence[bool]], promised: str
) -> list[dict[str, object]]:
    """By mistake and sweep: runs, alarms, and those missed where none may be."""
    trials = {sweep.name: sweep.trials for sweep in sweeps}
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
