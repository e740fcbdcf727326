"""Does each measured value agree with its exact one? A z-score for every value, and one test for every cell."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from experiments.draws import AXES
from experiments.harness.experiment import Column
from experiments.statistics.intervals import MIN_TRIALS
from experiments.statistics.moments import Estimates

Floats = npt.NDArray[np.floating]

# From here on a mean of trials is normal enough for its far tail.
MANY_TRIALS = 1000
# Directions of a cell's values are tested up to one for that many trials, and those of a share of variance above this:
# finer contrasts of nearly equal metrics are the least normal, and meet the accuracy of the exact values.
_TRIALS_PER_DIRECTION = 50
_LEAST_SHARE = 1e-3
# The exact values are good to 1e-9 where that was measured; an error bar below this says nothing about the draws.
_ACCURACY = 1e-8
# A mean of fourth powers of scores is as skew as 3 (d_k large) to 8 (d_k = 1) times its relative error.
_ROUGH = 0.02

NO_SPREAD = "no spread between draws"
TOO_FINE = "error below the accuracy of the exact value"
TOO_ROUGH = "fourth power of too few scores to be normal"

VERDICT_COLUMNS = (
    Column("sweep", "str", "", "name of the sweep"),
    *AXES,
    Column("scaling", "str", "", "scaling rule"),
    Column("divisor", "float", "", "what the scores are divided by"),
    Column("trials", "int", "", "independent draws"),
    Column("metric", "str", "", "what was measured: a column of the sweep's table"),
    Column("measured", "float", "", "its value"),
    Column("se", "float", "", "its standard error"),
    Column("exact", "float", "", "its exact value"),
    Column("z", "float", "", "how far apart they are, in standard errors", "(measured - exact) / se"),
    Column("remark", "str", "", f"why there is no z: {NO_SPREAD}, {TOO_FINE}, or {TOO_ROUGH}; such rows come last"),
)

TEST_COLUMNS = (
    *AXES,
    Column("trials", "int", "", "independent draws of (Q, K)"),
    Column("values", "int", "", "measured values of the cell that are compared with exact ones"),
    Column("directions", "int", "", "leading principal directions of their correlation that are tested together"),
    Column("statistic", "float", "", "sum of squares of the z-scores in those directions (Hotelling's T^2)"),
    Column("p_value", "float", "", "probability of so large a statistic if measured and exact values agree"),
)


def verdicts(sweep: str, table: pd.DataFrame) -> pd.DataFrame:
    """One row for every measured value whose exact value is known: both, the error and z; no z comes last."""
    frames = []
    for metric in _metrics(table):
        known = table[table[f"{metric}_exact"].notna()]
        columns = [column.name for column in VERDICT_COLUMNS if column.name in known]
        frame = known[columns].assign(
            sweep=sweep,
            metric=metric,
            measured=known[metric],
            se=known[f"{metric}_se"],
            exact=known[f"{metric}_exact"],
        )
        frames.append(frame)
    if not frames:
        return pd.DataFrame()
    rows = pd.concat(frames).sort_index(kind="stable").reset_index(drop=True)
    rough = (rows["metric"] == "score_kurtosis") & (rows["se"] > _ROUGH * (3 + rows["measured"]))
    remarks = {NO_SPREAD: rows["se"] == 0, TOO_FINE: rows["se"] < _ACCURACY * rows["exact"].abs(), TOO_ROUGH: rough}
    rows["remark"] = np.select(list(remarks.values()), list(remarks), "")
    judged = rows["remark"] == ""
    # Four decimals: more are not the same on every machine.
    rows["z"] = ((rows["measured"] - rows["exact"]) / rows["se"].where(judged)).round(4)
    return pd.concat([rows[judged], rows[~judged]]).reindex(columns=[column.name for column in VERDICT_COLUMNS])


def cell_tests(table: pd.DataFrame, details: list[Estimates]) -> pd.DataFrame:
    """One row per cell of at least 20 trials: do all its values agree with the exact ones, at once?

    The z-scores of a cell depend on each other, as metrics and scalings share its draws. With R their correlation
    between draws, V its leading eigenvectors and L their eigenvalues, |L^(-1/2) V^T z|^2 is Hotelling's T^2 of those
    directions: k (T - 1) / (T - k) times an F of k and T - k degrees of freedom for T trials, as far as means of
    trials are normal. The directions are chosen by R alone, not by z.
    """
    rows = []
    axes = [column.name for column in AXES]
    cells = table.groupby(axes, sort=False)
    for (point, cell), estimates in zip(cells, details, strict=True):
        trials = int(cell["trials"].iloc[0])
        z = _z_scores(cell)
        if trials < MIN_TRIALS or not z:
            continue
        chosen = [estimates.names.index(name) for name in z]
        directions, statistic = _leading(
            np.array(list(z.values())), estimates.correlation[np.ix_(chosen, chosen)], trials
        )
        ratio = statistic * (trials - directions) / (directions * (trials - 1))
        rows.append(
            {
                **dict(zip(axes, point, strict=True)),
                "trials": trials,
                "values": len(z),
                "directions": directions,
                "statistic": _six_digits(statistic),
                "p_value": _six_digits(special.fdtrc(directions, trials - directions, ratio)),
            }
        )
    return pd.DataFrame(rows, columns=[column.name for column in TEST_COLUMNS])


def _z_scores(cell: pd.DataFrame) -> dict[tuple[str, str], float]:
    """The z-scores of a cell's values by scaling and metric, from unrounded numbers."""
    tested = verdicts("", cell)
    if tested.empty:
        return {}
    rows = tested[tested["remark"] == ""]
    z = (rows["measured"] - rows["exact"]) / rows["se"]
    return dict(zip(zip(rows["scaling"], rows["metric"], strict=True), z, strict=True))


def _leading(z: Floats, correlation: Floats, trials: int) -> tuple[int, float]:
    """How many leading principal directions are tested, and the sum of squares of z along them, each of variance 1."""
    shares, directions = np.linalg.eigh(correlation)
    shares, directions = shares[::-1], directions[:, ::-1]
    count = min(int((shares > _LEAST_SHARE).sum()), max(1, trials // _TRIALS_PER_DIRECTION))
    return count, float(((z @ directions[:, :count]) ** 2 / shares[:count]).sum())


def _metrics(table: pd.DataFrame) -> list[str]:
    return [name.removesuffix("_exact") for name in table if name.endswith("_exact")]


def _six_digits(value: Any) -> float:
    return float(f"{value:.6g}")
