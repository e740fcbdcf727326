"""The figures of the tables of laws, each with a finding that its table has to support."""

import re
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from experiments.declarations.figure import Finding
from experiments.declarations.tables import Numbers, Tables, rows_of
from experiments.figures.rendering import render_finding
from experiments.figures.style import INK, UNORDERED_COLOURS, Drawing, ordered_colours, panels
from experiments.theory.tables import ENTROPIES, MAIN, N_KEYS
from sdpa.theory.longer_rows import TRAINED
from sdpa.theory.three_scales import SCALES

_WIDTHS = (64, 128)  # d_k of most models
_SHOWN = ("Gaussian", "unit, d_k = 8")  # rows of the sentence on lengths


def render_law(name: str, table: pd.DataFrame) -> list[bytes]:
    """PNG and text of the figure of a table of laws; FindingError if the table does not support its
    title.
    """
    draw, finding = FIGURES[name]
    return render_finding(finding, {name: table}, partial(draw, table))


def _draw_scales(table: pd.DataFrame) -> Drawing:
    """d_k over the number of keys: laws as lines, and computed values as points of the same
    colour.
    """
    figure, [ax] = panels(1, 1, (8.5, 5.2))
    ax.axhspan(*_WIDTHS, color=INK, alpha=0.08, linewidth=0)
    ax.annotate("d_k of most models", (2048, 93), ha="center", va="center")
    for name, colour in zip(MAIN, UNORDERED_COLOURS, strict=False):
        rows = table[table["scale"] == name]
        scale = SCALES[name]
        label = _raised(f"{scale.what}: {scale.formula}")
        ax.plot(rows["n_keys"], rows["law"], color=colour, label=label)
        ax.plot(rows["n_keys"], rows["computed"], "o", color=colour)
    ax.set(ylim=(4, 2e6), yscale="log", ylabel="d_k")
    _along_lengths(ax, table["n_keys"])
    ax.legend(loc="upper right")
    return figure


def _draw_lengths(table: pd.DataFrame) -> Drawing:
    """Left, the spread that keeps attention; right, the power of ln n by which it grows up to the
    next length.
    """
    figure, [spread, power] = panels(2, 2, (10.5, 4.8))
    series = table.groupby(["rows", "target", "value"], sort=False)
    colours = [*ordered_colours(4), *UNORDERED_COLOURS]
    for ((name, target, value), rows), colour in zip(series, colours, strict=False):
        what = "entropy" if target == "entropy" else "largest weight"
        label = f"{name}: {what} {value:g}"
        spread.plot(rows["n_keys"], rows["sigma"], "o-", color=colour, label=label)
        power.plot(rows["n_keys"], rows["power"], "o-", color=colour)
    for exponent, label in ((0.5, "(ln n)^1/2"), (1, "ln n"), (2, "(ln n)^2")):
        power.axhline(exponent, color=INK, linewidth=0.8, linestyle=":")
        side = "top" if exponent < 1 else "bottom"
        power.annotate(_raised(label), (2**20, exponent), ha="right", va=side)
    spread.set(yscale="log", title="standard deviation of the scores in a row")
    ticks = [1, 2, 5, 10, 20, 50]
    spread.set_yticks(ticks, labels=map(str, ticks))
    spread.yaxis.set_minor_locator(NullLocator())
    power.set(ylim=(0, 4), title="power p if it grows as $(\\ln n)^p$ from n to 4n keys")
    for ax in (spread, power):
        _along_lengths(ax, table["n_keys"])
    spread.legend(loc="upper left", fontsize=9)
    return figure


def _draw_rules(table: pd.DataFrame) -> Drawing:
    """The lengths over which each rule keeps an entropy, as bars by rule and entropy."""
    figure, [ax] = panels(1, 1, (8.5, 5.6))
    sources = table.groupby("rule", sort=False)["source"].first()
    heights = dict(zip(sources.index, range(len(sources)), strict=True))
    colours = ordered_colours(len(ENTROPIES))
    for offset, entropy, colour in zip((-0.25, 0, 0.25), ENTROPIES, colours, strict=True):
        rows = table[table["entropy"] == entropy]
        places = rows["rule"].map(heights) + offset
        ends = rows["shortest"], rows["longest"]
        ax.hlines(places, *ends, color=colour, linewidth=6, label=f"{entropy:g} nats")
    ax.axvline(TRAINED, color=INK, linewidth=0.8, linestyle=":")
    labels = [f"{_raised(name)}\n{source}" for name, source in sources.items()]
    ax.set_yticks(range(len(labels)), labels=labels, fontsize=9)
    ax.invert_yaxis()
    _along_lengths(ax, pd.Series(N_KEYS))
    ax.legend(loc="lower left", title="wanted entropy")
    return figure


def _along_lengths(ax: Axes, n_keys: pd.Series) -> None:
    """The axis of row lengths, 1k for 1024."""
    ticks = sorted(n_keys.unique())
    ax.set(xscale="log", xlabel="keys in a row, n")
    ax.set_xticks(ticks, labels=map(_length, ticks))
    ax.xaxis.set_minor_locator(NullLocator())


def _length(n: int) -> str:
    if n < 1024:
        return str(n)
    return f"{n // 1024}k" if n < 2**20 else "1M"


def _raised(text: str) -> str:
    """A label with its powers typeset.

    >>> _raised("(ln n)^1/2")
    '(ln n)$^{1/2}$'
    """
    return re.sub(r"\^\(?([\d/]+)\)?", r"$^{\1}$", text).replace("|J|_F", "$|J|_F$")


def _computed(table: pd.DataFrame, scale: str) -> pd.Series:
    return table[table["scale"] == scale].set_index("n_keys")["computed"]


def _powers(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Local powers of exact crossings: of ln n for the typical one; of n for the mean one over ln
    n.
    """
    typical = np.log(_computed(table, "typical"))
    mean = np.log(_computed(table, "mean"))
    ln_n = np.log(mean.index.to_series())
    log_ln_n = np.log(ln_n)
    of_typical = typical.diff() / log_ln_n.diff()
    of_mean = (mean - log_ln_n).diff() / ln_n.diff()
    return of_typical.dropna(), of_mean.dropna()


def _scales(tables: Tables) -> Numbers:
    """None unless the powers are 3 and 2 within a tenth, the second one from 64 keys on."""
    table = tables["scales"]
    of_typical, of_mean = _powers(table)
    from_3 = (of_typical - 3).abs()
    from_2 = (of_mean.loc[256:] - 2).abs()
    typical = _computed(table, "typical")[4096]
    mean = _computed(table, "mean")[4096]
    holds = max(*from_3, *from_2) < 0.1
    return {"typical": typical, "mean": mean / 1e6} if holds else None


def _three_nats(tables: Tables, rows: str) -> pd.Series:
    found = rows_of(tables, "lengths", rows=rows, target="entropy", value=3.0)
    return found.set_index("n_keys")["power"].dropna()


def _lengths(tables: Tables) -> Numbers:
    """None unless the power falls at each step for Gaussian rows, through 1, and rises for short
    unit keys.
    """
    gaussian, unit = (_three_nats(tables, rows) for rows in _SHOWN)
    first = gaussian.iloc[0]
    last = gaussian.iloc[-1]
    is_falling = (gaussian.diff().dropna() < 0).all()
    is_rising = (unit.loc[256:].diff().dropna() > 0).all()
    passes_1 = first > 1.5 and last < 0.75
    holds = is_falling and passes_1 and is_rising and unit.min() > 2
    return {"first": first, "last": last, "unit": unit.iloc[-1]} if holds else None


def _rules(tables: Tables) -> Numbers:
    """None unless for each entropy another rule for Gaussian rows holds over the widest range of
    lengths.
    """
    table = tables["rules"]
    is_gaussian = ~table["rule"].str.contains("unit")
    table = table[is_gaussian]
    width = table["longest"] / table["shortest"]
    places = width.groupby(table["entropy"]).idxmax()
    widest = table.loc[places, "rule"]
    none = table.query("rule == '1 (no rule)' and entropy == 3")[["shortest", "longest"]]
    return dict(none.iloc[0]) if widest.nunique() == len(ENTROPIES) else None


FIGURES = {
    "scales": (
        _draw_scales,
        Finding(
            title="Typical Jacobians cross near the cube of ln n, mean squares near n squared",
            sentence="With 4096 keys and standard normal q and k, the unscaled median of |J|_F "
            "falls below that under d_k^1/2 at d_k = {typical:.0f}, and its root mean square at "
            "{mean:.1f} million. Lines: laws; points: exact for root mean squares, within 1% for "
            "medians.",
            numbers=_scales,
        ),
    ),
    "lengths": (
        _draw_lengths,
        Finding(
            title="No single power of ln n keeps the entropy of all rows",
            sentence="The power of ln n that keeps an entropy of 3 nats falls from {first:.2f} to "
            "{last:.2f} for Gaussian scores, and rises to {unit:.2f} for unit keys of width 8. "
            "Left: the exact spread that keeps the value in the legend, entropy in nats or "
            "largest weight. Right: its slope from one length to the next.",
            numbers=_lengths,
        ),
    ),
    "rules": (
        _draw_rules,
        Finding(
            title="Which rule of length holds depends on the wanted entropy",
            sentence="Without a rule, a mean entropy of 3 nats at 4096 keys stays within 10% from "
            "{shortest} to {longest} keys. Bars: lengths from 16 to 1M over which a rule, fitted "
            "at 4096 keys (dotted), does so; exact, for Gaussian scores but in the last rule.",
            numbers=_rules,
        ),
    ),
}
