"""The counts of scores q.k in bins beside their exact law: densities, and Kolmogorov-Smirnov tests.

The bins are the fine ones of `experiments.kinds.distribution.cell`, one array for each cell; those of
`histogram` unite 64 of them.
"""

import math

import numpy as np
import pandas as pd

from experiments.kinds.distribution.cell import BINS, COUNTS, bin_edges
from experiments.kinds.support import significant
from experiments.measuring.columns import Column, names
from experiments.measuring.intervals import MIN_TRIALS
from experiments.tables.derived import Derived
from experiments.tables.results import Results
from sdpa import theory
from sdpa._arrays import FloatArray

_COUNTED = ["d_k", "trials", "counts"]
_COARSE = 64  # bins of a measurement per bin of the histogram


def histograms(table: pd.DataFrame) -> pd.DataFrame:
    """Density of q.k / sqrt(d_k) in bins, measured and exact, without the bins beyond the furthest
    score.

    The exact density of a bin is its probability over its width. With p the measured share of a
    bin, the standard error of the density is sqrt(p (1 - p) / trials) / width.

    Args:
        table: d_k, trials and counts, the scores in each fine bin (2 BINS,), of each cell.
    """
    frames = []
    edges = bin_edges()[::_COARSE]
    width = np.diff(edges)
    for d_k, trials, fine in table[_COUNTED].itertuples(index=False):
        count = fine.reshape(-1, _COARSE).sum(axis=1)
        share = count / trials
        frame = pd.DataFrame(
            {
                "d_k": d_k,
                "low": edges[:-1],
                "high": edges[1:],
                "count": count,
                "density": share / width,
                "density_se": np.sqrt(share * (1 - share) / trials) / width,
                "density_exact": -np.diff(_survival(edges, d_k)) / width,
            }
        )
        first, last = count.nonzero()[0][[0, -1]]
        frames.append(frame.iloc[first : last + 1])
    return pd.concat(frames, ignore_index=True)


def distances(table: pd.DataFrame) -> pd.DataFrame:
    """The Kolmogorov-Smirnov statistic of each d_k, over the bins' edges, and its p-value.

    Between edges the distance can be larger by the effect of the scores in one bin: at most about
    sqrt(mass / trials), 3% of the statistic. So the p-value is slightly too large, never too small.
    Cells with fewer than 20 trials get no test. Arguments as in `histograms`.
    """
    from scipy import stats  # takes half a second to load, and most commands do not need it

    rows = []
    for d_k, trials, fine in table[_COUNTED].itertuples(index=False):
        if trials >= MIN_TRIALS:
            below = np.concatenate([[0], np.cumsum(fine)[:-1]]) / trials
            above = _survival(bin_edges()[:-1], d_k)
            statistic = float(np.abs(below + above - 1).max())
            p_value = significant(stats.kstwo.sf(statistic, trials))
            rows.append((d_k, trials, statistic, p_value))
    return pd.DataFrame(rows, columns=["d_k", *names(_TEST_COLUMNS)])


def _judged(results: Results) -> pd.DataFrame:
    """The tests for the check, with p-values as the z of a normal law."""
    from scipy.special import ndtri

    tests = results["tests"]
    return tests.assign(metric="score_law", z=-ndtri(tests["p_value"] / 2))


def _survival(edges: FloatArray, d_k: int) -> FloatArray:
    """P(q.k / sqrt(d_k) > edge) for each edge, by theory."""
    return theory.score_survival(edges * math.sqrt(d_k), d_k)


_HISTOGRAM_COLUMNS = (
    Column("low", "float", "lower end of the bin", "q.k / sqrt(d_k)"),
    Column("high", "float", "upper end of the bin"),
    Column("count", "int", "scores in the bin"),
    Column("density", "float", "share of the scores in the bin, divided by the width of the bin"),
    Column("density_se", "float", "standard error of the density (binomial)"),
    Column("density_exact", "float", "exact mean density over the bin"),
)
_TEST_COLUMNS = (
    Column("trials", "int", "independent pairs of a query and a key"),
    Column(
        "statistic",
        "float",
        f"largest distance between the measured and the exact law at {2 * BINS + 1} points (Kolmogorov-Smirnov)",
        "max |F_n - F|",
    ),
    Column(
        "p_value",
        "float",
        "probability of a distance at least this large if the scores follow the exact law",
    ),
)
TABLES = (
    Derived(
        "histogram",
        own=_HISTOGRAM_COLUMNS,
        derive=lambda results: histograms(results[COUNTS]),
        source=COUNTS,
    ),
    Derived(
        "tests",
        own=_TEST_COLUMNS,
        derive=lambda results: distances(results[COUNTS]),
        source=COUNTS,
        judge=_judged,
    ),
)
