"""How often does the check raise its alarm? Over 200 root seeds of a small config, as it is and with planted faults.

Writes results/calibration.csv: for each fault the share of runs with an alarm, and for the suite as it is also the
p-value of Kolmogorov and Smirnov's test that the p-values of the cells, taken together, are uniform.
"""

import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy import stats
from threadpoolctl import threadpool_limits

from experiments import saturation
from experiments.analysis import analyse
from experiments.analysis.suite import agreement
from experiments.draws import Cell, draw
from experiments.harness.experiment import Measured
from experiments.harness.grid import Sweep, axis_values, chunks
from experiments.harness.measuring import measure_chunk
from experiments.statistics.moments import Estimates
from sdpa import LAWS, Scaling, row_diagnostics, softmax

SEEDS = range(200)
SWEEP = Sweep(
    "small",
    "saturation",
    {
        "d_k": (4, 16, 64),
        "n_keys": (13,),
        "scaling": tuple(map(Scaling.parse, ("unscaled", "d_k^1/3", "d_k^1/2"))),
        "n_queries": (11,),
        "inputs": (LAWS["gaussian"],),
        "input_std": (1.0,),
    },
    trials=2000,
    figures=(),
)

true_divisors, true_estimates = Cell.divisors, Estimates.of


def divisors_off_by_a_percent(cell):
    return [1.01 * divisor for divisor in true_divisors(cell)]


def halved_errors(moments, functions):
    estimates = true_estimates(moments, functions)
    return replace(estimates, errors=estimates.errors / 2)


def correlated_pairs(cell, trials, rng, correlation=0.05):
    """The i-th query and the i-th key of a draw share a part, as they do where both are projections of one token."""
    keys, blocks = draw(cell, trials, rng)
    drawn = list(blocks)
    queries = np.concatenate([block for _, block in drawn], axis=1)
    pairs = min(cell.n_queries, cell.n_keys)
    keys[:, :pairs] *= math.sqrt(1 - correlation**2)
    keys[:, :pairs] += correlation * queries[:, :pairs]
    return keys, iter(drawn)


def entropy_in_bits(*arguments):
    rows = row_diagnostics(*arguments)
    return replace(rows, entropy=rows.entropy / math.log(2))


def largest_weight_of_each_key(scores, divisors, *others):
    """The largest weight over queries instead of keys."""
    rows = row_diagnostics(scores, divisors, *others)
    means = [softmax(scores / divisor).max(axis=-2).mean() for divisor in divisors]
    return replace(rows, max_weight=np.broadcast_to(np.reshape(means, (-1, 1, 1)), rows.max_weight.shape))


FAULTS: dict[str, tuple[object, str, Callable]] = {
    "divisor off by 1%": (Cell, "divisors", divisors_off_by_a_percent),
    "error bars halved": (Estimates, "of", halved_errors),
    "paired q and k correlated by 0.05": (saturation, "draw", correlated_pairs),
    "entropy in bits": (saturation, "row_diagnostics", entropy_in_bits),
    "largest weight over the wrong axis": (saturation, "row_diagnostics", largest_weight_of_each_key),
}


def run(seed: int, fault: str = "") -> tuple[float, bool]:
    """The p-value of the cells together, and if the check raises its alarm, with a root seed and a fault planted."""
    with threadpool_limits(limits=1), patch.object(*FAULTS[fault]) if fault else patch.dict({}):
        rows, details = [], []
        for cell in SWEEP.cells():
            measured = [measure_chunk(chunk, seed) for chunk in chunks("saturation", cell, SWEEP.trials)]
            whole = measured[0]
            for later in measured[1:]:
                whole = whole.merge(later)
            rows += [{**axis_values(cell), **row} for row in saturation.tabulate(cell, whole)]
            details.append(saturation.estimates(cell, whole))
        tables = analyse(SWEEP, Measured(pd.DataFrame(rows), details))
    suite = agreement([SWEEP], {SWEEP.name: tables})
    return suite.p_cells, suite.disagrees


def calibrate() -> pd.DataFrame:
    """One row for the suite as it is, and one for each fault."""
    rows = []
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for fault in ("", *FAULTS):
            cells, alarms = zip(*pool.map(run, SEEDS, [fault] * len(SEEDS)), strict=True)
            uniform = stats.kstest(cells, "uniform").pvalue if not fault else math.nan
            rows.append({"fault": fault or "none", "runs": len(SEEDS), "alarms": sum(alarms)})
            rows[-1]["uniform_p"] = uniform
    return pd.DataFrame(rows)


if __name__ == "__main__":
    table = calibrate()
    table.to_csv(Path("results") / "calibration.csv", index=False, float_format="%.4g")
    sys.stdout.write(f"{table.to_string(index=False)}\n")
