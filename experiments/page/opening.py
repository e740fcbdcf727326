"""The first screen: what sqrt(d_k) does and what it does not, with its numbers and only where the tables show it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from experiments.figures.words import axes, first_combination, is_number, listed, measured, number, plain
from experiments.harness.grid import Sweep

_NONE, _ROOT = "unscaled", "d_k^1/2"
_LEVEL = 1.1  # values within this factor of each other are called the same
_APART = 1.5  # and beyond this factor no longer

SweepTables = Mapping[str, Mapping[str, pd.DataFrame]]


@dataclass(frozen=True)
class Statement:
    """A sentence and the numbers that it rests on."""

    head: str
    numbers: str


@dataclass(frozen=True)
class _Along:
    """The rows of every scaling along an axis, all else fixed, in order."""

    axis: str
    rows: Mapping[str, pd.DataFrame]

    @property
    def n_keys(self) -> str:
        return plain(self.rows[_ROOT]["n_keys"].iloc[0])

    @property
    def ends(self) -> tuple[str, str]:
        values = self.rows[_ROOT][self.axis]
        return plain(values.iloc[0]), plain(values.iloc[-1])

    def text(self, scaling: str, metric: str, end: int) -> str:
        """A metric at the first (0) or last (-1) value of the axis."""
        return short(float(self.rows[scaling][metric].iloc[end]))

    def last(self, scaling: str, metric: str) -> float:
        """A metric at the last value of the axis."""
        return float(self.rows[scaling][metric].iloc[-1])

    def growth(self, scaling: str, metric: str) -> float:
        """By which factor a metric grows along the axis."""
        return self.last(scaling, metric) / float(self.rows[scaling][metric].iloc[0])

    def course(self, scaling: str, metric: str) -> str:
        """The metric at both ends."""
        return f"{self.text(scaling, metric, 0)} to {self.text(scaling, metric, -1)}"


def does(sweeps: Sequence[Sweep], tables: SweepTables) -> list[Statement]:
    """What dividing by sqrt(d_k) does, as far as these tables show it."""
    at = _along(sweeps, tables, "d_k", (_NONE, _ROOT))
    if at is None:
        return []
    return _there(_keeps_variance(at), _keeps_softmax(at), _no_other_power(at), _keeps_typical_gradient(at))


def does_not(sweeps: Sequence[Sweep], tables: SweepTables) -> list[Statement]:
    """What it does not do, or not alone, as far as these tables show it."""
    widths = _along(sweeps, tables, "d_k", (_NONE, _ROOT))
    lengths = _along(sweeps, tables, "n_keys", (_ROOT,))
    return _there(_no_rescue(widths) if widths else None, _no_length(lengths) if lengths else None)


def short(value: float) -> str:
    """A value to three digits, for a first look; the tables have the others.

    >>> short(511.8123), short(0.99963), short(0.003587), short(12345.6)
    ('512', '1', '0.00359', '12350')
    """
    return f"{value:.3g}".replace("-", "−") if 1e-4 <= abs(value) < 1000 else number(value)


def _keeps_variance(at: _Along) -> Statement | None:
    metric = "score_variance"
    if _apart(at.growth(_ROOT, metric), _LEVEL) or not _apart(at.growth(_NONE, metric), _APART):
        return None
    first, last = (measured(at.rows[_ROOT].iloc[end], metric) for end in (0, -1))
    return Statement(
        f"It keeps the variance of the scores at {at.text(_ROOT, f'{metric}_exact', -1)}, whatever d_k.",
        f"Measured with {at.n_keys} keys, {first} at d_k = {at.ends[0]} and {last} at {at.ends[1]}; unscaled,"
        f" {at.text(_NONE, metric, 0)} and {at.text(_NONE, metric, -1)}: a score is a sum of d_k products, and the"
        " variance of a sum grows with the number of its terms.",
    )


def _keeps_softmax(at: _Along) -> Statement | None:
    if _apart(at.growth(_ROOT, "max_weight"), _LEVEL) or at.growth(_NONE, "max_weight") < _APART:
        return None
    return Statement(
        "So the softmax is as peaked at one d_k as at another.",
        f"The largest of {at.n_keys} weights averages {at.text(_ROOT, 'max_weight', 0)} at d_k = {at.ends[0]} and"
        f" {at.text(_ROOT, 'max_weight', -1)} at {at.ends[1]}; unscaled, {at.text(_NONE, 'max_weight', 0)} and"
        f" {at.text(_NONE, 'max_weight', -1)}.",
    )


def _no_other_power(at: _Along) -> Statement | None:
    others = [name for name in at.rows if name not in (_NONE, _ROOT)]
    moved = [name for name in others if _apart(at.growth(name, "max_weight"), _LEVEL)]
    if not moved or moved != others or _apart(at.growth(_ROOT, "max_weight"), _LEVEL):
        return None
    courses = listed([f"{at.course(name, 'max_weight')} under {name}" for name in others])
    return Statement("Other powers of d_k do not keep it so.", f"That weight goes from {courses}.")


def _keeps_typical_gradient(at: _Along) -> Statement | None:
    metric = "jacobian_norm_median"
    if at.last(_ROOT, metric) < 2 * at.last(_NONE, metric):
        return None
    return Statement(
        "At large d_k it keeps the gradient of the typical row alive.",
        f"With {at.n_keys} keys the median of |J|_F, the size of the softmax's derivative, is"
        f" {at.text(_ROOT, metric, -1)} at d_k = {at.ends[1]}; unscaled, {at.text(_NONE, metric, -1)}"
        f"{_while_larger(at, metric)}.",
    )


def _while_larger(at: _Along, metric: str) -> str:
    """Up to where a metric is the larger one unscaled, if it is so anywhere."""
    larger = at.rows[_NONE][metric].to_numpy() > at.rows[_ROOT][metric].to_numpy()
    widths = at.rows[_ROOT][at.axis].to_numpy()[larger]
    return f"; up to d_k = {plain(widths[-1])} the unscaled one is the larger" if len(widths) else ""


def _no_rescue(at: _Along) -> Statement | None:
    jacobian, query, typical = "jacobian_norm", "query_gradient_norm", "jacobian_norm_median"
    vanishes = at.last(_ROOT, typical) > 2 * at.last(_NONE, typical)
    if not vanishes or at.last(_ROOT, jacobian) > 2 * at.last(_NONE, jacobian) or at.growth(_NONE, query) < 1:
        return None
    open_rows = 1 - at.last(_NONE, "saturated_rows")
    return Statement(
        "It is not what keeps the root mean square of gradients up: the rows that stay unsaturated do.",
        f"With {at.n_keys} keys and d_k = {at.ends[1]}, {open_rows:.0%} of the unscaled rows have no weight above 0.99."
        f" The root mean square of |J|_F is {at.text(_NONE, jacobian, -1)} unscaled and"
        f" {at.text(_ROOT, jacobian, -1)} divided by sqrt(d_k). That of |dL/dq|, the loss's gradient at the query, is"
        f" {at.text(_NONE, query, -1)} and {at.text(_ROOT, query, -1)}: there the divisor itself makes it smaller.",
    )


def _no_length(at: _Along) -> Statement | None:
    if at.growth(_ROOT, "max_weight") > 1 / _APART:
        return None
    return Statement(
        "It does not know how many keys there are.",
        f"From {' to '.join(at.ends)} keys of width {plain(at.rows[_ROOT]['d_k'].iloc[0])} the largest weight goes from"
        f" {at.course(_ROOT, 'max_weight')}: the more keys, the smaller it is.",
    )


def _along(sweeps: Sequence[Sweep], tables: SweepTables, axis: str, scalings: Sequence[str]) -> _Along | None:
    """The first sweep with at least two values of an axis, under all of these scalings."""
    for sweep in sweeps:
        table = tables[sweep.name]["measured"]
        if "max_weight" not in table or axis not in axes(table) or not is_number(table, axis):
            continue
        table, _ = first_combination(table, axis)
        rows = {str(name): group.sort_values(axis) for name, group in table.groupby("scaling", sort=False)}
        if len(table[axis].unique()) > 1 and all(name in rows for name in scalings):
            return _Along(axis, rows)
    return None


def _apart(ratio: float, factor: float) -> bool:
    return not 1 / factor < ratio < factor if ratio > 0 and math.isfinite(ratio) else True


def _there(*statements: Statement | None) -> list[Statement]:
    return [statement for statement in statements if statement is not None]
