"""Tables of theory beside a sweep: the law of q.k, the freezing of long rows, and weights that
round to 0.

`histogram` and `tests` compare the counts of scores in the fine bins of
`experiments.kinds.distribution`, one array for each row of the main table, with the exact law; the
bins of `histogram` unite 64 fine ones.

`curves`: sigma is the standard deviation of the scaled scores of a Gaussian row, and sigma_c =
sqrt(2 ln n_keys) the spread at which a row of many keys freezes
(`sdpa.theory.limits.freezing_sigma`).

`zero_limits`: P(w < half the smallest number) of `sdpa.theory.out_of_range` rises with d_k unless
the divisor keeps the spread of the scores, so that the d_k where it is 1/2 is a line on the (d_k,
n_keys) plane of a number format.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from experiments.analysis.derived import TESTS, Derived, after_axes, columns_of_text, row_cells
from experiments.analysis.results import Results, SweepAxes
from experiments.analysis.slopes import shared_by_line
from experiments.analysis.written import significant
from experiments.kinds.distribution import BINS, COUNTS, bin_edges
from experiments.kinds.rounding import Cell as RoundedCell
from experiments.measuring.columns import names
from experiments.measuring.experiment import Cell
from experiments.measuring.intervals import MIN_TRIALS
from experiments.measuring.rules import Floats
from sdpa import theory
from sdpa.theory import GaussianRow, limits

_COARSE = 64  # bins of a measurement per bin of the histogram


def histograms(table: pd.DataFrame, counts: Sequence[Floats]) -> pd.DataFrame:
    """Density of q.k / sqrt(d_k) in bins, measured and exact, without the bins beyond the furthest
    score.

    The exact density of a bin is its probability over its width. With p the measured share of a
    bin, the standard error of the density is sqrt(p (1 - p) / trials) / width.

    Args:
        table: d_k and trials of each cell.
        counts: scores in each fine bin of each cell, (2 BINS,).
    """
    frames = []
    edges = bin_edges()[::_COARSE]
    width = np.diff(edges)
    for d_k, trials, fine in zip(table["d_k"], table["trials"], counts, strict=True):
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


def distances(table: pd.DataFrame, counts: Sequence[Floats]) -> pd.DataFrame:
    """The Kolmogorov-Smirnov statistic of each d_k, over the bins' edges, and its p-value.

    Between edges the distance can be larger by the effect of the scores in one bin: at most about
    sqrt(mass / trials), 3% of the statistic. So the p-value is slightly too large, never too small.
    Cells with fewer than 20 trials get no test. Arguments as in `histograms`.
    """
    from scipy import stats  # takes half a second to load, and most commands do not need it

    rows = []
    for d_k, trials, fine in zip(table["d_k"], table["trials"], counts, strict=True):
        if trials >= MIN_TRIALS:
            below = np.concatenate([[0], np.cumsum(fine)[:-1]]) / trials
            above = _survival(bin_edges()[:-1], d_k)
            statistic = float(np.abs(below + above - 1).max())
            p_value = significant(stats.kstwo.sf(statistic, trials))
            rows.append((d_k, trials, statistic, p_value))
    return pd.DataFrame(rows, columns=names(_TEST_COLUMNS))


def _survival(edges: Floats, d_k: int) -> Floats:
    """P(q.k / sqrt(d_k) > edge) for each edge, by theory."""
    return np.asarray(theory.score_survival(edges * math.sqrt(d_k), d_k))


def _counts(results: Results) -> list[Floats]:
    return list(results[COUNTS]["counts"])


_HISTOGRAM_COLUMNS = columns_of_text(
    """
    d_k int width of queries and keys
    low float lower end of the bin := q.k / sqrt(d_k)
    high float upper end of the bin
    count int scores in the bin
    density float share of the scores in the bin, divided by the width of the bin
    density_se float standard error of the density (binomial)
    density_exact float exact mean density over the bin
    """
)
_TEST_COLUMNS = columns_of_text(
    f"""
    d_k int width of queries and keys
    trials int independent pairs of a query and a key
    statistic float largest distance between the measured and the exact law at {2 * BINS + 1} points
        (Kolmogorov-Smirnov) := max |F_n - F|
    p_value float probability of a distance at least this large if the scores follow the exact law
    """
)


_MIN_VALUES = 3  # of both d_k and n_keys: a sweep with as many is a map
_POINTS_PER_OCTAVE = 8
_MIN_RATIO = 1 / 8
_LARGEST = 20  # log2 of the largest d_k of the search for zero weights
_STEP = 1e-3  # of log2 d_k: a relative 7e-4

_CURVES = columns_of_text(
    """
    n_keys int number of keys, the length of a softmax row
    freezing_sigma float sigma_c, the spread at which a row of many keys freezes := sqrt(2 ln n_keys)
    ratio float spread of the scaled scores of a row, divided by sigma_c := sigma / sigma_c
    entropy_share float expected entropy, divided by its maximum := E H / ln n_keys
    collision float expected sum of squared weights := E sum_j w_j^2
    entropy_share_limit float limit of entropy_share as n_keys tends to infinity := max(1 - ratio^2, 0)
    collision_limit float limit of collision as n_keys tends to infinity := max(1 - 1 / ratio, 0)
    """
)
_ZERO_LIMITS = columns_of_text(
    """
    scaling str scaling rule
    half_zero_d_k float? d_k at which half of all exact weights round to 0 in the format; empty if that happens at no
        d_k of the search, under a mask, or if no exact value is known := P(w < half the smallest number) = 1/2
    searched_to int largest d_k of the search, which starts at 1
    """
)


def freezing_curves(table: pd.DataFrame, axes: SweepAxes) -> pd.DataFrame:
    """Curves over the spreads in the sweep, for each of its n_keys, if the sweep is a map of d_k
    and n_keys.

    The spread of a cell is sigma = query_std key_std sqrt(d_k) / divisor. The curves go from sigma
    / sigma_c = 1/8 to the largest of the sweep, with about 8 points for each doubling and one at 1,
    where the limit has its corner.

    Args:
        table: a main table with the columns that `curves` needs.
        axes: of its cells.

    Returns:
        One row per n_keys and ratio; none unless the sweep has at least 3 values of d_k and 3 of
        n_keys with Gaussian entries that are independent and have mean 0.
    """
    columns = names(_CURVES)
    table = axes.usual_rows(table, but=("query_std", "key_std"))
    if table["d_k"].nunique() < _MIN_VALUES or table["n_keys"].nunique() < _MIN_VALUES:
        return pd.DataFrame(columns=columns)
    of_scores = table["query_std"] * table["key_std"] * np.sqrt(table["d_k"])
    sigma = of_scores / table["divisor"]
    freezing = table["n_keys"].map(limits.freezing_sigma)
    highest = float((sigma / freezing).max())
    octaves = np.log2(highest / _MIN_RATIO)
    count = max(2, int(_POINTS_PER_OCTAVE * octaves))
    ratios = _MIN_RATIO * 2 ** np.linspace(0, octaves, count)
    ratios = np.unique([*ratios, min(1.0, ratios[-1])])
    lengths = sorted(table["n_keys"].unique())
    rows = [_at_freezing(n_keys, ratio) for n_keys in lengths for ratio in ratios]
    return pd.DataFrame(rows, columns=columns)


def _at_freezing(n_keys: int, ratio: float) -> tuple[float, ...]:
    """A row of `curves`: n_keys, sigma_c, sigma / sigma_c, exact values and their limits."""
    freezing = limits.freezing_sigma(n_keys)
    row = GaussianRow(ratio * freezing, n_keys)
    exact = row.entropy() / np.log(n_keys), row.power_sum(2)
    at_limit = limits.frozen_entropy_share(ratio), limits.frozen_collision(ratio)
    return n_keys, freezing, ratio, *exact, *at_limit


def zero_limits(table: pd.DataFrame, axes: SweepAxes, cells: Iterable[Cell]) -> pd.DataFrame:
    """One row for each rule and each combination of the axes but d_k; `half_zero_d_k` is empty if
    there is none.

    Args:
        table: a finished main table of `rounding`.
        axes: of its cells.
        cells: of its sweep.
    """
    shared = shared_by_line(table, axes)
    rows = table.drop_duplicates(shared)
    of_rows = dict(zip(table.index, row_cells(cells), strict=True))
    found = [_limit(of_rows[place]) for place in rows.index]
    limits_of_rows = rows[shared].assign(half_zero_d_k=found, searched_to=2**_LARGEST)
    return limits_of_rows.reset_index(drop=True)


def _limit(cell: Cell) -> float:
    """The d_k from 1 to 2^20 where half of the weights of a cell with one rule round to 0; NaN if
    there is none.
    """
    if not isinstance(cell, RoundedCell) or cell.has_mask:  # under a mask, one value takes seconds
        return math.nan
    (rule,) = cell.scaling
    n_keys = cell.n_keys

    def excess(log_d_k: float) -> float:
        d_k = 2.0**log_d_k
        divisor = rule.divisor(d_k, n_keys)
        found = theory.out_of_range(
            d_k, n_keys, divisor, cell.arithmetic, cell.law, None, cell.prescale
        )
        return found.tiny_weights - 0.5

    try:
        if not excess(0) < 0 < excess(_LARGEST):
            return math.nan
        log_d_k = brentq(excess, 0, _LARGEST, xtol=_STEP)
        return float(2**log_d_k)
    except theory.UnknownError:
        return math.nan


TABLES = (
    Derived(
        "curves",
        needs={"d_k", "n_keys", "query_std", "key_std", "divisor", "entropy", "jacobian_trace"},
        columns=lambda _: _CURVES,
        derive=lambda results: freezing_curves(results.measured, results.axes),
    ),
    Derived(
        "histogram",
        needs={"counts"},
        columns=lambda _: _HISTOGRAM_COLUMNS,
        derive=lambda results: histograms(results.measured, _counts(results)),
        source=COUNTS,
    ),
    Derived(
        TESTS,
        needs={"counts"},
        columns=lambda _: _TEST_COLUMNS,
        derive=lambda results: distances(results.measured, _counts(results)),
        source=COUNTS,
    ),
    Derived(
        "zero_limits",
        needs={"arithmetic", "zero_weights"},
        columns=after_axes(_ZERO_LIMITS, but="d_k"),
        derive=lambda results: zero_limits(results.measured, results.axes, results.cells()),
    ),
)
