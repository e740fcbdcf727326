"""The first screen: effects that sqrt(d_k) has and does not have, with numbers, as far as the tables show them.

Each function that begins with an underscore and makes a `Statement` first tests its sentence on the tables, and makes
none if it does not hold there. The page of another config has none of them. Values within 10% of each other count as
equal, and those a factor of 1.5 apart as different.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from experiments.analysis.crossings import EQUAL, TENTH
from experiments.analysis.crossings import SCALED as _ROOT
from experiments.analysis.crossings import UNSCALED as _NONE
from experiments.figures.axes import first_combination, plain, varied_axes
from experiments.figures.caption_text import exactly, exactness, listed, measured, number
from experiments.figures.crossing_text import NORM_NAMES, crossing_list, crossings_of
from experiments.harness.grid import Sweep
from experiments.page.usual import SweepTables, usual_rows, widest

_HEAD_WIDTHS = (64, 128)  # d_k of common models
_LEVEL = 1.1  # values within this factor of each other count as the same
_APART = 1.5  # values beyond this factor count as different


@dataclass(frozen=True)
class Statement:
    """A sentence and its supporting numbers."""

    head: str
    numbers: str


@dataclass(frozen=True)
class _Along:
    """The rows of every scaling in order along an axis, with all else fixed.

    Attributes:
        axis: `d_k` or `n_keys`.
        rows: rows of the measured table by scaling, among them d_k^1/2.
    """

    axis: str
    rows: Mapping[str, pd.DataFrame]

    @property
    def n_keys(self) -> str:
        """The number of keys, as text."""
        return plain(self.rows[_ROOT]["n_keys"].iloc[0])

    @property
    def table(self) -> pd.DataFrame:
        """The rows of every scaling."""
        return pd.concat(self.rows.values())

    @property
    def ends(self) -> tuple[str, str]:
        """The first and the last value of the axis, as text."""
        values = self.rows[_ROOT][self.axis]
        return plain(values.iloc[0]), plain(values.iloc[-1])

    def text(self, scaling: str, metric: str, end: int) -> str:
        """A metric at the first (0) or last (-1) value of the axis: the exact value if known."""
        row = exactly(self.rows[scaling], metric).iloc[end]
        return short(float(row[metric])) if row.get(f"{metric}_se") == 0 else measured(row, metric)

    def last(self, scaling: str, metric: str) -> float:
        """A metric at the last value of the axis."""
        return float(self.rows[scaling][metric].iloc[-1])

    def growth(self, scaling: str, metric: str) -> float:
        """The factor by which a metric grows along the axis."""
        return self.last(scaling, metric) / float(self.rows[scaling][metric].iloc[0])

    def course(self, scaling: str, metric: str) -> str:
        """The metric at both ends."""
        return f"from {self.text(scaling, metric, 0)} to {self.text(scaling, metric, -1)}"


def effects(sweeps: Sequence[Sweep], tables: SweepTables) -> list[Statement]:
    """The effects of division by sqrt(d_k) that these tables show.

    Args:
        sweeps: in the order of the config; the statements use the first suitable one, preferably without other axes.
        tables: by sweep and kind.

    Returns:
        At most four statements; none without a sweep along d_k, both unscaled and under d_k^1/2.
    """
    at = _along(sweeps, tables, "d_k", (_NONE, _ROOT))
    if at is None:
        return []
    typical = _keeps_typical_gradient(widest(sweeps, tables, "crossings"))
    return _applicable(_keeps_variance(at), _keeps_softmax(at), _no_other_power(at), typical)


def non_effects(sweeps: Sequence[Sweep], tables: SweepTables) -> list[Statement]:
    """The effects that division by sqrt(d_k) does not have, or not alone, as far as these tables show.

    Arguments as in `effects`; at most three statements.
    """
    widths = _along(sweeps, tables, "d_k", (_NONE, _ROOT))
    lengths = _along(sweeps, tables, "n_keys", (_ROOT,))
    return _applicable(
        _makes_smaller(widest(sweeps, tables, "ratios")),
        _no_rescue(widths) if widths else None,
        _no_length(lengths) if lengths else None,
    )


def short(value: float) -> str:
    """A value to three digits, for a first look; the tables have more digits.

    >>> short(511.8123), short(0.99963), short(0.003587), short(12345.6)
    ('512', '1', '0.00359', '12350')
    """
    return f"{value:.3g}".replace("-", "−") if 1e-4 <= abs(value) < 1000 else number(value)


def _keeps_variance(at: _Along) -> Statement | None:
    """Level variance of the scores under d_k^1/2, if it changes unscaled."""
    metric = "score_variance"
    if _apart(at.growth(_ROOT, metric), _LEVEL) or not _apart(at.growth(_NONE, metric), _APART):
        return None
    first, last = (measured(at.rows[_ROOT].iloc[end], metric) for end in (0, -1))
    small, large = (at.text(_NONE, metric, end) for end in (0, -1))
    return Statement(
        f"It keeps the variance of the scores at {short(at.last(_ROOT, f'{metric}_exact'))} for every d_k.",
        f"With {at.n_keys} keys, the measured variance under sqrt(d_k) is {first} at d_k = {at.ends[0]} and {last} at"
        f" {at.ends[1]}; unscaled it is {small} and {large}{exactness(at.table, metric)}. A score is a sum of d_k"
        " products, and the variance of a sum grows with the number of its terms.",
    )


def _keeps_softmax(at: _Along) -> Statement | None:
    """Level largest weight under d_k^1/2, if it grows unscaled."""
    if _apart(at.growth(_ROOT, "max_weight"), _LEVEL) or at.growth(_NONE, "max_weight") < _APART:
        return None
    return Statement(
        f"So the softmax is about as peaked at d_k = {at.ends[1]} as at {at.ends[0]}.",
        f"Under sqrt(d_k), the largest of {at.n_keys} weights averages {at.text(_ROOT, 'max_weight', 0)} at"
        f" d_k = {at.ends[0]} and {at.text(_ROOT, 'max_weight', -1)} at {at.ends[1]}; unscaled, it averages"
        f" {at.text(_NONE, 'max_weight', 0)} and {at.text(_NONE, 'max_weight', -1)}"
        f"{exactness(at.table, 'max_weight')}.",
    )


def _no_other_power(at: _Along) -> Statement | None:
    """Courses of the largest weight under all other rules of the sweep, if only d_k^1/2 keeps it level."""
    others = [name for name in at.rows if name not in (_NONE, _ROOT)]
    moved = [name for name in others if _apart(at.growth(name, "max_weight"), _LEVEL)]
    if not moved or moved != others or _apart(at.growth(_ROOT, "max_weight"), _LEVEL):
        return None
    courses = listed([f"{at.course(name, 'max_weight')} under the divisor {name}" for name in others])
    where = f"From d_k = {at.ends[0]} to {at.ends[1]} with {at.n_keys} keys"
    return Statement(
        "Other powers of d_k do not keep the largest weight constant.",
        f"{where}, the mean largest weight goes {courses}.",
    )


def _keeps_typical_gradient(crossings: pd.DataFrame | None) -> Statement | None:
    """The d_k above which unscaled medians are smaller, if all those of |J|_F fall below within the sweep."""
    if crossings is None:
        return None
    of_jacobian = crossings_of(crossings, ("jacobian", "median", EQUAL))
    if of_jacobian["crossing"].isna().any():
        return None
    jacobian, query, undivided = (
        crossing_list(crossings_of(crossings, (norm, "median", EQUAL))) for norm in NORM_NAMES
    )
    tenth = crossing_list(crossings_of(crossings, ("jacobian", "median", TENTH)))
    keys = listed([plain(n_keys) for n_keys in of_jacobian["n_keys"]])
    return Statement(
        "It makes the gradient of the typical row larger, but only above a d_k that depends on the number of keys.",
        f"|J|_F is the Frobenius norm of the softmax Jacobian. With {keys} keys, its unscaled median is smaller than"
        f" the scaled one only above d_k = {jacobian}, and is a tenth of it at d_k = {tenth}. For |dL/dq|, the norm of"
        f" the loss gradient at the query, the d_k of equal medians are {query}; without the factor 1/divisor, which"
        f" comes from the chain rule, they are {undivided}.",
    )


def _makes_smaller(ratios: pd.DataFrame | None) -> Statement | None:
    """The medians of |J|_F at common head widths in the longest rows, if the scaled median is surely smaller."""
    if ratios is None:
        return None
    longest = ratios[ratios["n_keys"] == ratios["n_keys"].max()]
    shown = longest[(longest["norm"] == "jacobian") & (longest["statistic"] == "median")]
    shown = shown[shown["d_k"].isin(_HEAD_WIDTHS)].sort_values("d_k")
    if shown.empty or not (shown["ratio_low"] > 1).all():
        return None
    factors = [f"{_factor(row)} at d_k = {row['d_k']}" for _, row in shown.iterrows()]
    return Statement(
        "At common widths and with many keys, it makes the typical gradient smaller, not larger.",
        f"With {shown['n_keys'].iloc[0]} keys, the unscaled median of |J|_F is larger than the one under sqrt(d_k), by"
        f" a factor of {listed(factors)}.",
    )


def _factor(row: pd.Series) -> str:
    """The ratio of a row with as many digits as its interval justifies."""
    return number(float(row["ratio"]), float(row["ratio_high"] - row["ratio_low"]) / 4)


def _no_rescue(at: _Along) -> Statement | None:
    """Unsaturated rows as the origin of the root mean square of unscaled gradients at the largest d_k.

    It holds if the median of |J|_F is more than twice as large scaled as unscaled, its root mean square is not, and the
    unscaled root mean square of |dL/dq| does not fall along d_k.
    """
    jacobian, query, typical = "jacobian_norm", "query_gradient_norm", "jacobian_norm_median"
    vanishes = at.last(_ROOT, typical) > 2 * at.last(_NONE, typical)
    if not vanishes or at.last(_ROOT, jacobian) > 2 * at.last(_NONE, jacobian) or at.growth(_NONE, query) < 1:
        return None
    open_rows = 1 - at.last(_NONE, "saturated_rows")
    return Statement(
        f"It does not rescue the root mean square of the gradients at d_k = {at.ends[1]} with {at.n_keys} keys.",
        f"Unsaturated rows keep it from vanishing without the division: there, {open_rows:.0%} of the unscaled rows"
        " have no weight above 0.99."
        f" The root mean square of |J|_F is {at.text(_NONE, jacobian, -1)} unscaled and"
        f" {at.text(_ROOT, jacobian, -1)} under sqrt(d_k). The root mean square of |dL/dq|, the norm of the"
        f" loss gradient at the query, is {at.text(_NONE, query, -1)} unscaled and {at.text(_ROOT, query, -1)} under"
        f" sqrt(d_k), where the divisor itself makes it smaller{exactness(at.table, query)}.",
    )


def _no_length(at: _Along) -> Statement | None:
    """A largest weight that falls along n_keys in spite of d_k^1/2, by a factor of 1.5 or more."""
    metric = "max_weight"
    if at.growth(_ROOT, metric) > 1 / _APART:
        return None
    return Statement(
        "It does not account for the number of keys.",
        f"From {' to '.join(at.ends)} keys at d_k = {plain(at.rows[_ROOT]['d_k'].iloc[0])}, the mean largest weight"
        f" under sqrt(d_k) goes {at.course(_ROOT, metric)}{exactness(at.rows[_ROOT], metric)}:"
        " more keys make it smaller.",
    )


def _along(sweeps: Sequence[Sweep], tables: SweepTables, axis: str, scalings: Sequence[str]) -> _Along | None:
    """The first sweep with at least two values of an axis under these scalings, preferably without other axes.

    Only rows with independent standard normal entries count, because the statements name no other inputs.
    """
    measured_tables = [tables[sweep.name]["measured"] for sweep in sweeps if sweep.experiment.name == "saturation"]
    usual = [usual_rows(table) for table in measured_tables if len(table)]
    for whole in sorted((table for table in usual if len(table)), key=lambda table: len(varied_axes(table))):
        table, _ = first_combination(whole, axis)
        rows = {str(name): group.sort_values(axis) for name, group in table.groupby("scaling", sort=False)}
        if len(table[axis].unique()) > 1 and all(name in rows for name in scalings):
            return _Along(axis, rows)
    return None


def _apart(ratio: float, factor: float) -> bool:
    """True if a ratio is at least the factor or at most its inverse; also if it is not positive and finite."""
    return not 1 / factor < ratio < factor if ratio > 0 and math.isfinite(ratio) else True


def _applicable(*statements: Statement | None) -> list[Statement]:
    """The statements that hold, in order."""
    return [statement for statement in statements if statement is not None]
