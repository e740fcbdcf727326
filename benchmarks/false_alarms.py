"""False alarms of the check: honest runs of configs with odd corners, under many root seeds.

`python -m benchmarks.false_alarms` runs every sweep of false_alarms.yaml under 300 root seeds and
writes results/benchmarks/false-alarms.csv.
"""

from functools import reduce
from pathlib import Path

import pandas as pd

from experiments.config.loader import load_config
from experiments.config.paths import BENCHMARKS, SHIPPED_RESULTS
from experiments.config.sweep import Sweep
from experiments.measuring.chunk import Chunk
from experiments.measuring.experiment import MEASURED
from experiments.tables.rows import tabulated, with_exact
from experiments.tables.verdicts import ALARM, Agreement, verdicts

CONFIG = Path(__file__).with_name("false_alarms.yaml")
TABLE = "false-alarms.csv"
RUNS = 300


def measured(sweep: Sweep, seed: int) -> pd.DataFrame:
    """The main table of a run, without exact values."""
    measurements = []
    for cell in sweep.cells:
        chunks = Chunk.of_cell(sweep.experiment, cell, sweep.trials, seed)
        measurements.append(reduce(lambda a, b: a.merge(b), (chunk.measure() for chunk in chunks)))
    return tabulated(sweep.experiment, sweep.cells, measurements)[MEASURED]


def row_of(sweep: Sweep, runs: int) -> dict[str, object]:
    """The number of runs with an alarm, and the mean numbers of values in a run."""
    tables = {seed: measured(sweep, seed) for seed in range(1, runs + 1)}
    finished = with_exact(sweep.experiment, tables[1])
    exact = finished[[name for name in finished if name.endswith("_exact")]]
    whole = pd.concat({seed: table.join(exact) for seed, table in tables.items()})
    judged = verdicts(sweep.experiment, whole)
    tested = judged[judged["p_value"].notna()]
    checks = [Agreement(values, 0) for _, values in tested.groupby(level=0)]
    return {
        "config": sweep.name,
        "runs": runs,
        "known": len(judged) // runs,
        "tested": round(len(tested) / runs, 1),
        "alarms": sum(check.p_value < ALARM for check in checks),
    }


if __name__ == "__main__":
    rows = []
    for sweep in load_config(CONFIG).sweeps:
        rows.append(row_of(sweep, RUNS))
        pd.DataFrame(rows).to_csv(SHIPPED_RESULTS / BENCHMARKS / TABLE, index=False)
        print(rows[-1], flush=True)
