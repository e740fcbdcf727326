"""Three sentences about the table of a diagnosis: sharp heads, the variance within rows, and what would change it.

A sentence makes a claim about a head only for a difference that is large enough to matter and larger than chance
explains. Chance counts twice: the deviations of independent Gaussian entries with so many rows, and the standard errors
between sequences if there are several.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from experiments.diagnosis.labels import UNSCALED, labels, of_heads, upper
from experiments.figures.caption_text import listed, number
from experiments.harness.wording import counted

# Cut-offs chosen by hand, each with its reason.
HALF = 0.5  # most rows, most of the weight, less than half of the largest possible entropy
EVEN = 0.99  # "nearly evenly": of the largest possible entropy
APART = 0.05  # entropy shares closer than this count as equally sharp
# Agreement with Gaussian rows says little below this spread, because the rows of most laws agree there. With 16 to 256
# keys of width 64, the entropy shares of a sink (queries and first key of mean 1) and of lognormal entries are about
# 0.05 to 0.2 from theirs at 0.8, and at most 0.035 at 0.4.
TESTED = 0.8
FACTOR = 1.5  # variances within this factor count as equal; it is 22% between standard deviations
FEWEST_ENTRIES = 64  # of the keys of a row, d_k n: with fewer, deviations are far from normal
CHANCE = 4.0  # deviations: for normal errors once in 16,000, because there may be a thousand heads
LEVEL = 0.95  # of intervals between sequences, as everywhere in the suite

_CLOSE = 1.05  # values within this factor need no range
_ROOT = "d_k^1/2"

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def findings(table: pd.DataFrame) -> list[str]:
    """The three sentences about the table of a diagnosis."""
    heads = _Heads(table)
    return [_sharpness(heads), _variance(heads), f"{upper(_first_key(heads) + _divisor(heads))}."]


@dataclass(frozen=True)
class _Heads:
    """The heads of a table, and what counts as a difference between them and Gaussian rows."""

    table: pd.DataFrame

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, column: str) -> Floats:
        """The values of a column; NaN if the table does not have it."""
        values = self.table[column] if column in self.table else np.full(len(self), np.nan)
        return np.asarray(values, dtype=np.float64)

    def name(self, place: np.intp) -> str:
        """A head in words."""
        return labels(self.table)[place]

    def subject(self, chosen: Flags, singular: str, plural: str) -> str:
        """The chosen heads with a verb: `3 of 12 heads have`."""
        count = int(chosen.sum())
        return f"{of_heads(count, len(self))} {singular if count == 1 else plural}"

    def where(self, place: np.intp) -> str:
        """The name of a head after a value; empty if it is the only one."""
        return f" in {self.name(place)}" if len(self) > 1 else ""

    @property
    def equal_weight(self) -> Floats:
        """Mean over rows of 1/n: the weight of the first of n keys if their order does not matter."""
        return self["first_key_weight_exact"]

    @property
    def unit_variance(self) -> Floats:
        """Variance within rows, over that of standard normal entries under d_k^1/2, which is the mean of 1 - 1/n."""
        variance = np.where(np.isfinite(self["unit_divisor"]), self["row_variance"], np.nan)
        return np.asarray(variance / (1 - self.equal_weight))

    def relative_error(self, column: str) -> Floats:
        """The standard error of a column over its value; NaN if one of them is unknown or 0."""
        value = self[column]
        return np.asarray(self[f"{column}_se"] / np.where(value > 0, value, np.nan))

    def differs(self, difference: Floats, error: Floats, deviation: Floats, matters: float) -> Flags:
        """True for each head with a difference that matters and that chance does not explain.

        Args:
            difference: from what Gaussian rows have; NaN if unknown.
            error: its standard error between sequences; NaN if unknown.
            deviation: its standard deviation if the rows were Gaussian.
            matters: the smallest difference that matters.
        """
        freedom = np.maximum(self["sequences"] - 1, 1)
        interval = np.nan_to_num(stats.t.isf((1 - LEVEL) / 2, freedom) * error)
        least = np.maximum(matters, np.maximum(interval, CHANCE * deviation))
        enough = self["d_k"] * self["n_keys"] >= FEWEST_ENTRIES
        return np.asarray(enough & (np.abs(np.nan_to_num(difference)) > least))

    def variance_differs(self, ratio: Floats, relative_error: Floats) -> Flags:
        """True for each head with a ratio of variances that matters and that chance does not explain.

        The variance of n independent normal scores has the relative variance 2 / (n - 1), at most 4 / n. |q|^2 has
        2 / d_k, and the mean variance of n entries, which the rows of a sequence share, 2 / (n - 1) / d_k.
        """
        scores, d_k = 4 * self.equal_weight, self["d_k"]
        deviation = np.sqrt((scores + 2 / d_k) / self["rows"] + scores / d_k / self["sequences"])
        return self.differs(_log(ratio), relative_error, deviation, np.log(FACTOR))

    def share_deviation(self, mean: Floats) -> Floats:
        """Upper limit of the standard deviation of a mean over independent rows of numbers between 0 and 1."""
        return np.sqrt(np.clip(mean * (1 - mean), 0, None) / self["rows"])


class BesideGaussian(NamedTuple):
    """Heads beside Gaussian rows of one variance: clearly sharper, clearly less sharp, and as sharp if not flat."""

    sharper: Flags
    flatter: Flags
    alike: Flags


def beside_gaussian(table: pd.DataFrame) -> BesideGaussian:
    """The heads of a diagnosis beside Gaussian rows; a head with too few rows for a claim may be none of the three."""
    heads = _Heads(table)
    share, exact = heads["entropy_share"], heads["entropy_share_exact"]
    above = exact - share
    apart = heads.differs(above, heads["entropy_share_se"], heads.share_deviation(exact), APART)
    return BesideGaussian(apart & (above > 0), apart & (above < 0), (np.abs(above) <= APART) & ~_is_flat(heads))


def _is_flat(heads: _Heads) -> Flags:
    """True for each head whose spread is too small for agreement with Gaussian rows to say much."""
    return np.sqrt(heads["row_variance"]) < TESTED


def _sharpness(heads: _Heads) -> str:
    """The sharpest heads, and whether Gaussian rows of the same variance would be as sharp."""
    share, saturated = heads["entropy_share"], heads["saturated_rows"] > HALF
    sharp, least = share < HALF, np.argmin(share)
    if saturated.any():
        opening = f"{heads.subject(saturated, 'has', 'have')} a weight above 0.99 in most rows"
        if (others := sharp & ~saturated).any():
            opening += f", and {counted(int(others.sum()), 'more head')} less than half of the largest possible entropy"
    elif sharp.any():
        opening = f"{heads.subject(sharp, 'has', 'have')} less than half of the largest possible entropy"
    elif share[least] > EVEN:
        opening = f"{heads.subject(share > EVEN, 'spreads its', 'spread their')} weight nearly evenly"
    else:
        opening = "no head is sharp" if len(heads) > 1 else "the head is not sharp"
    which = f"the sharpest, {heads.name(least)}, has" if len(heads) > 1 else "it has"
    return f"{upper(opening)}; {which} an entropy share of {_share(share[least])}; {_gaussian(heads)}."


def _gaussian(heads: _Heads) -> str:
    """A clause that compares all heads with Gaussian rows of the same variance."""
    share, exact = heads["entropy_share"], heads["entropy_share_exact"]
    beside, distance = beside_gaussian(heads.table), np.abs(exact - share)
    clauses = []
    for word, flags in (("less sharp", beside.sharper), ("sharper", beside.flatter)):
        if flags.any():
            most = np.argmax(np.where(flags, distance, -1))
            than = f" than {of_heads(int(flags.sum()), len(heads))}" if len(heads) > 1 else ""
            values = f"{_share(exact[most])} instead of {_share(share[most])}{heads.where(most)}"
            clauses.append(f"{word}{than} ({values})")
    least = np.argmin(share)
    if not clauses and distance.max() > APART:
        would = f"Gaussian rows of the same variance would have {_share(exact[least])}"
        return f"{would}, but the rows are too few for a claim"
    if not clauses:
        clauses.append(f"as sharp ({_share(exact[least])})")
        if (flat := _is_flat(heads)).any():
            subject = heads.subject(flat, "has", "have")
            clauses[0] += f", but {subject} a spread below {TESTED:g}, where that says little"
    return f"Gaussian rows of the same variance would be {listed(clauses)}"


def _variance(heads: _Heads) -> str:
    """The variance within rows beside that of independent entries, and the causes of a difference."""
    ratio = heads["variance_ratio"]
    if np.isnan(ratio).all():
        return "The variance within rows has nothing to compare with, because the variance of q or of k is 0."
    far = heads.variance_differs(ratio, heads.relative_error("variance_ratio"))
    clauses = []
    if (larger := far & (ratio > 1)).any():
        clauses.append(_far(heads, larger, np.nanargmax(np.where(larger, ratio, np.nan)), "up to "))
    if (smaller := far & (ratio < 1)).any():
        clauses.append(_far(heads, smaller, np.nanargmin(np.where(smaller, ratio, np.nan)), "down to "))
    if not clauses:
        clauses.append(_near(heads))
    entries = np.where(np.isfinite(ratio), (heads["q_std"] * heads["k_std"]) ** 2, np.nan)
    error = 2 * np.hypot(heads.relative_error("q_std"), heads.relative_error("k_std"))
    if (changed := heads.variance_differs(entries, error)).any():
        factors = [
            _change(heads, flags, entries, to)
            for to, flags in (("up to ", changed & (entries > 1)), ("as little as ", changed & (entries < 1)))
            if flags.any()
        ]
        clauses.append(
            "compared with standard normal entries, the standard deviations of q and k alone multiply it by"
            f" {listed(factors)}"
        )
    return f"{upper('; '.join(clauses))}."


def _change(heads: _Heads, flags: Flags, entries: Floats, to: str) -> str:
    """The largest change to one side among some heads, with its head: `up to 63 in 3 of 12 heads (head 1)`."""
    most = np.argmax(np.where(flags, np.abs(_log(entries)), -1))
    value = f"{to if flags.sum() > 1 else ''}{_rounded(entries[most])}"
    if flags.sum() == 1:
        return f"{value}{heads.where(most)}"
    return f"{value} in {of_heads(int(flags.sum()), len(heads))} ({heads.name(most)})"


_INDEPENDENT = "the variance within rows of independent entries with the same standard deviations"


def _far(heads: _Heads, flags: Flags, most: np.intp, to: str) -> str:
    """A clause on heads whose variance differs to one side from that of independent entries.

    Args:
        heads: all heads.
        flags: True for those that differ.
        most: the one among them that differs most.
        to: words before its value if there are several.
    """
    ratio, lengths, alignment = (heads[name] for name in ("variance_ratio", "length_effect", "alignment_effect"))
    is_aligned = np.abs(_log(alignment)) >= np.abs(_log(lengths))
    counts = {"alignment": (flags & is_aligned).sum(), "the lengths of q and k": (flags & ~is_aligned).sum()}
    causes = [f"{cause} in {count}" if all(counts.values()) else cause for cause, count in counts.items() if count]
    value = f"{to if flags.sum() > 1 else ''}{_rounded(ratio[most])} times"
    effects = f"{_rounded(alignment[most])} by alignment and {_rounded(lengths[most])} by lengths{heads.where(most)}"
    return f"{heads.subject(flags, 'has', 'have')} {value} {_INDEPENDENT}, mostly due to {listed(causes)} ({effects})"


def _near(heads: _Heads) -> str:
    """A clause on heads none of whose variances surely differs from that of independent entries."""
    ratio = heads["variance_ratio"]
    values = f"({_range(ratio)} times)"
    if np.nanmax(np.abs(_log(ratio))) > np.log(FACTOR):
        return f"the rows are too few to claim a difference from {_INDEPENDENT} {values}"
    every = heads.subject(np.isfinite(ratio), "has", "have")
    return f"{every} {_INDEPENDENT}, within a factor of {FACTOR:g} {values}"


def _first_key(heads: _Heads) -> str:
    """A clause on the heads whose first key takes most of the weight; empty if there are none."""
    weight, equal = heads["first_key_weight"], heads.equal_weight
    sinks = (weight > HALF) & heads.differs(
        weight - equal, heads["first_key_weight_se"], heads.share_deviation(equal), 0.0
    )
    if not sinks.any():
        return ""
    most = np.argmax(np.where(sinks, weight, -1))
    rest = heads["entropy_share_without_first"][sinks]
    others = "" if np.isnan(rest).all() else f"; without it, the entropy share is {_median(rest, _share)}"
    subject = heads.subject(sinks, "gives", "give")
    value = f"{_share(weight[most])}{heads.where(most)}"
    return f"{subject} more than half of the weight to the first key, an attention sink ({value}){others}; "


def _divisor(heads: _Heads) -> str:
    """A clause on the divisor that would give the rows the variance 1, if the one in use does not."""
    divisor, unit = heads["unit_divisor"], heads.unit_variance
    if np.isnan(divisor).all():
        return "no divisor gives the rows the variance 1, because the scores of each row have the variance 0"
    if not heads.variance_differs(unit, heads.relative_error("row_variance")).any():
        normal = "that of standard normal entries"
        if not (heads.table["scaling"] == _ROOT).all():
            normal += f" under {_ROOT}"
        is_near = np.nanmax(np.abs(_log(unit))) <= np.log(FACTOR)
        near = (
            f"within a factor of {FACTOR:g} of {normal}"
            if is_near
            else f"and the rows are too few to tell it from {normal}"
        )
        value = _range(np.where(np.isfinite(divisor), heads["row_variance"], np.nan))
        return f"under the divisor in use, {_in_use(heads)}, the variance within rows is {value}, {near}"
    d_k = heads["d_k"][0] if np.ptp(heads["d_k"]) == 0 else np.nan

    def shown(value: float) -> str:
        power = f" = d_k^{number(np.log(value) / np.log(d_k), 0.01)}" if d_k > 1 else ""
        return f"{_rounded(value)}{power}"

    return f"the rows would have the variance 1 under the divisor {_median(divisor, shown)}; in use is {_in_use(heads)}"


def _in_use(heads: _Heads) -> str:
    """The divisor in use: `d_k^1/2 = 8` or `1 (unscaled)`, or its rule alone if it has several values."""
    rule, values = str(heads.table["scaling"].iloc[0]), np.unique(heads["divisor"])
    if rule == UNSCALED:
        return f"1 ({rule})"
    value = f"{values[0]:.4g}"
    return rule if len(values) > 1 or rule == value else f"{rule} = {value}"


def _log(ratio: Floats) -> Floats:
    """Logarithms, finite also for 0; NaN stays NaN."""
    return np.log(np.maximum(ratio, np.finfo(float).tiny))


def _share(value: float) -> str:
    """A share with two decimals."""
    return f"{value:.2f}"


def _rounded(value: float) -> str:
    """A positive number to two or three digits.

    >>> _rounded(0.2143), _rounded(6.081), _rounded(64.0), _rounded(4096.0)
    ('0.214', '6.1', '64', '4100')
    """
    return number(float(value), 0.03 * float(value))


def _range(values: Floats, shown: Callable[[float], str] = _rounded) -> str:
    """The smallest and the largest of some values; a single text if both read the same."""
    low, high = shown(np.nanmin(values)), shown(np.nanmax(values))
    return low if low == high else f"{low} to {high}"


def _median(values: Floats, shown: Callable[[float], str] = _rounded) -> str:
    """The median over heads; with the smallest and the largest value, unless all are within 5%."""
    middle = shown(float(np.nanmedian(values)))
    if np.nanmax(values) <= _CLOSE * np.nanmin(values):
        return middle
    return f"{middle} in the median head ({_range(values, shown)})"
