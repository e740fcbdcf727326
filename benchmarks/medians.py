"""Medians of |J|_F and |dL/dq|: the numerical ones beside simulated rows, and false alarms of their
verdicts.

`python -m benchmarks.medians` writes results/benchmarks/medians.csv and medians-alarms.csv. It takes
nine minutes of two cores.
"""

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.calibration import CONFIG, Row, measure_sweep
from experiments.analysis.derived import add_exact
from experiments.analysis.verdicts import T_TEST, verdicts
from experiments.analysis.written import DIGITS
from experiments.config.loader import load_config
from experiments.config.sweep import Sweep
from experiments.kinds.saturation import METRICS
from experiments.measuring.chunk import bit_generator
from experiments.measuring.experiment import MEASURED
from experiments.paths import BENCHMARKS, SHIPPED_RESULTS
from experiments.running.workers import default_jobs, worker_pool
from sdpa import row_diagnostics
from sdpa._arrays import FloatArray
from sdpa.theory import attention_quantiles

CORNERS = ((8, 2), (1024, 2), (64, 3), (8, 64), (64, 64), (1024, 64), (64, 4096))  # d_k, n_keys
MOST_ROWS = 10_000_000
MOST_DRAWN = 4 * 10**9  # normal numbers, which leave fewer rows to long or wide ones
# Configs of calibration.yaml: few rows, few trials, narrow and wide rows, flat and usual ones.
ALARMS = ("pair", "four_keys", "four_keys_wide", "few_keys_20", "many_cells", "usual_20", "flat")
SEEDS = 100
LEVELS = (0.05, 0.001)
# By norm, of the relative error of its median.
BOUNDS = {
    metric.name.removesuffix("_median"): metric.exact.bounds[0].relative
    for metric in METRICS
    if metric.exact and metric.name.endswith("_median")
}
_MOST_ERRORS = 4.5  # chance exceeds it in one of 5,000 tables
_BATCH = 1 << 19  # numbers drawn at once

Generator = np.random.Generator


def jacobian_norms(
    rng: Generator, rows: int, d_k: int, n_keys: int, divisors: list[float]
) -> FloatArray:
    """|J|_F of random rows, (divisors, rows); given |q|, scores are normal."""
    scores = rng.standard_normal((rows, n_keys)) * np.sqrt(rng.chisquare(d_k, (rows, 1)))
    return row_diagnostics(scores, divisors).jacobian_norm


def gradient_norms(
    rng: Generator, rows: int, d_k: int, n_keys: int, divisors: list[float]
) -> FloatArray:
    """|dL/dq| of random rows, (divisors, rows), from whole queries and keys."""
    length = np.sqrt(rng.chisquare(d_k, (rows, 1, 1)))  # q points along the first coordinate
    keys = rng.standard_normal((rows, n_keys, d_k))
    scores = length * keys[:, None, :, 0]
    return row_diagnostics(scores, divisors, keys).query_gradient_norm[..., 0]


def median_and_error(values: FloatArray) -> tuple[float, float]:
    """A median of draws, and its relative standard error, from the ranks one error to both sides."""
    middle, apart = len(values) // 2, max(1, round(math.sqrt(len(values)) / 2))
    ranks = [middle - apart, middle, middle + apart]
    low, median, high = np.partition(values, ranks)[ranks]
    return float(median), math.log(high / low) / 2


def compare_corner(corner: tuple[int, int], most_drawn: int = MOST_DRAWN) -> list[Row]:
    """A row for each norm, unscaled and under d_k^1/2: numerical and simulated median, their
    relative difference, and the error of the simulated one.
    """
    d_k, n_keys = corner
    rules = {"unscaled": 1.0, "d_k^1/2": math.sqrt(d_k)}
    divisors = [*rules.values()]
    found: list[Row] = []
    for norm, draw, size in (
        ("jacobian_norm", jacobian_norms, n_keys),
        ("query_gradient_norm", gradient_norms, n_keys * d_k),
    ):
        rows = min(MOST_ROWS, most_drawn // size)
        drawn = simulated(partial(draw, d_k=d_k, n_keys=n_keys, divisors=divisors), rows, size)
        for values, (scaling, divisor) in zip(drawn, rules.items(), strict=True):
            exact = getattr(attention_quantiles(d_k, n_keys, divisor), norm)
            median, error = median_and_error(values)
            row = {"d_k": d_k, "n_keys": n_keys, "scaling": scaling, "norm": norm, "rows": rows}
            row |= {"exact": exact, "simulated": median}
            found.append(row | {"off": exact / median - 1, "error": error})
    return found


def simulated(draw: Callable[..., FloatArray], rows: int, size: int) -> FloatArray:
    """The values of so many rows under each divisor, drawn in batches."""
    rng, batch = bit_generator(0), max(1, _BATCH // size)
    parts = [draw(rng, min(batch, rows - start)) for start in range(0, rows, batch)]
    return np.concatenate(parts, axis=1)


def median_verdicts(sweep: Sweep, seed: int) -> pd.DataFrame:
    """The verdicts of an honest run of a sweep under a root seed on its medians."""
    measured = measure_sweep(sweep, seed)[MEASURED]
    table = add_exact(sweep.experiment, measured, sweep.cells)
    found = verdicts(sweep.experiment, table, sweep.cells)
    return found[found["metric"].isin([f"{norm}_median" for norm in BOUNDS])]


def false_alarms(sweep: Sweep, runs: int, found: pd.DataFrame) -> list[Row]:
    """A row for each median: how many Student's t judges in honest runs of a sweep, and the shares
    of these with a p-value below each level.
    """
    rows: list[Row] = []
    for norm in BOUNDS:
        mine = found[found["metric"] == f"{norm}_median"]
        p = mine.loc[mine["test"] == T_TEST, "p_value"]
        row = {"config": sweep.name, "trials": sweep.trials, "norm": norm, "runs": runs}
        shares = {f"below_{level:g}": (p < level).mean() for level in LEVELS}
        rows.append({**row, "medians": len(mine), "by_t": len(p), **shares})
    return rows


def failures(medians: pd.DataFrame) -> list[str]:
    """One line for each median further off than its bound and chance allow."""
    allowed = medians["norm"].map(BOUNDS) + _MOST_ERRORS * medians["error"]
    return [
        f"{row.norm} with d_k = {row.d_k}, {row.n_keys} keys, {row.scaling}: off by {row.off:.2g}"
        for row in medians[medians["off"].abs() > allowed].itertuples()
    ]


def main(results: Path) -> list[str]:
    """Write both tables; return the medians that break their bounds."""
    sweeps = {sweep.name: sweep for sweep in load_config(CONFIG).sweeps}
    with worker_pool(default_jobs()) as pool:
        corners = pool.map(compare_corner, CORNERS)
        alarms = [
            row
            for name in ALARMS
            for row in false_alarms(
                sweeps[name],
                SEEDS,
                pd.concat(pool.map(partial(median_verdicts, sweeps[name]), range(SEEDS))),
            )
        ]
        medians = pd.DataFrame([row for rows in corners for row in rows])
    for name, table in (("medians", medians), ("medians-alarms", pd.DataFrame(alarms))):
        print(table.to_string(index=False))
        table.to_csv(results / BENCHMARKS / f"{name}.csv", index=False, float_format=DIGITS)
    return failures(medians)


if __name__ == "__main__":
    sys.exit("\n".join(main(SHIPPED_RESULTS)) or 0)
