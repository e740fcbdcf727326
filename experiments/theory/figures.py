"""The figures of the tables of laws, each with a finding that its table has to support."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from experiments.analysis.results import Results
from experiments.analysis.written import csv_bytes
from experiments.engine.products import Product, build
from experiments.engine.reporter import ALOUD, Reporter
from experiments.figures.figure import Drawing
from experiments.figures.findings import Finding, FindingError, rows_of
from experiments.figures.rendering import render
from experiments.figures.style import INK, UNORDERED_COLOURS, ordered_colours, panels
from experiments.paths import DRAWN, THEORY
from experiments.theory.tables import ENTROPIES, MAIN, TABLES
from sdpa.theory.longer_rows import TRAINED
from sdpa.theory.three_scales import SCALES

_WIDTHS = (64, 128)  # d_k of most models


def write_theory(results: Path, report: Reporter = ALOUD) -> None:
    """Write the tables of laws and draw their figures, unless they are up to date.

    Raises:
        FindingError: a table does not support the title of its figure.
    """
    folder = results / THEORY
    tables = {name: folder / f"{name}.csv" for name in TABLES}
    written = [Product((path,), partial(_written, name)) for name, path in tables.items()]
    build(results, written, report, are_slow=True)
    files = {name: tuple(folder / f"{name}{suffix}" for suffix in DRAWN) for name in tables}
    drawn = [
        Product(files[name], partial(_drawn, name, path), (path,)) for name, path in tables.items()
    ]
    build(results, drawn, report)


def _written(name: str) -> list[bytes]:
    return [csv_bytes(TABLES[name]())]


def _drawn(name: str, path: Path) -> list[bytes]:
    table, (draw, finding) = pd.read_csv(path), FIGURES[name]
    shown = Results(None, {name: table})
    if not finding.holds(shown):
        raise FindingError(f"{path} does not support: {finding.title}")
    caption = finding.sentence.format(**finding.values(shown))
    return [*render(lambda: draw(table), finding.title, caption).values()]


def _draw_scales(table: pd.DataFrame) -> Drawing:
    """d_k over the number of keys: laws as lines, and computed values as points of the same
    colour.
    """
    figure, [ax] = panels(1, 1, (8.5, 5.2))
    ax.axhspan(*_WIDTHS, color=INK, alpha=0.08, linewidth=0)
    ax.annotate("d_k of most models", (2048, 93), ha="center", va="center")
    for name, colour in zip(MAIN, UNORDERED_COLOURS, strict=False):
        rows, scale = table[table["scale"] == name], SCALES[name]
        ax.plot(
            rows["n_keys"],
            rows["law"],
            color=colour,
            label=_raised(f"{scale.what}: {scale.formula}"),
        )
        ax.plot(rows["n_keys"], rows["computed"], "o", color=colour)
    ax.set(ylim=(4, 2e6), yscale="log", ylabel="d_k")
    _along_lengths(ax, table)
    ax.legend(loc="upper right")
    return figure


def _draw_lengths(table: pd.DataFrame) -> Drawing:
    """Left, the spread that keeps attention; right, the power of ln n by which it grows up to the
    next length.
    """
    figure, axes = panels(2, 2, (10.5, 4.8))
    series = table.groupby(["rows", "target", "value"], sort=False)
    for (key, rows), colour in zip(series, [*ordered_colours(4), *UNORDERED_COLOURS], strict=False):
        name, target, value = key
        what = f"entropy {value:g}" if target == "entropy" else f"largest weight {value:g}"
        for ax, column in zip(axes, ("sigma", "power"), strict=True):
            ax.plot(rows["n_keys"], rows[column], "o-", color=colour, label=f"{name}: {what}")
    for power, label in ((0.5, "(ln n)^1/2"), (1, "ln n"), (2, "(ln n)^2")):
        axes[1].axhline(power, color=INK, linewidth=0.8, linestyle=":")
        axes[1].annotate(
            _raised(label), (2**20, power), ha="right", va="top" if power < 1 else "bottom"
        )
    axes[0].set(yscale="log", title="standard deviation of the scores in a row")
    axes[0].set_yticks([1, 2, 5, 10, 20, 50], labels=["1", "2", "5", "10", "20", "50"])
    axes[0].yaxis.set_minor_locator(NullLocator())
    axes[1].set(ylim=(0, 4), title="power p if it grows as $(\\ln n)^p$ from n to 4n keys")
    for ax in axes:
        _along_lengths(ax, table)
    axes[0].legend(loc="upper left", fontsize=9)
    return figure


def _draw_rules(table: pd.DataFrame) -> Drawing:
    """The lengths over which each rule keeps an entropy, as bars by rule and entropy."""
    figure, [ax] = panels(1, 1, (8.5, 5.6))
    names = table["rule"].unique().tolist()
    for i, (entropy, colour) in enumerate(
        zip(ENTROPIES, ordered_colours(len(ENTROPIES)), strict=True)
    ):
        rows = table[table["entropy"] == entropy]
        places = [names.index(name) + 0.25 * (i - 1) for name in rows["rule"]]
        ax.hlines(
            places,
            rows["shortest"],
            rows["longest"],
            color=colour,
            linewidth=6,
            label=f"{entropy:g} nats",
        )
    ax.axvline(TRAINED, color=INK, linewidth=0.8, linestyle=":")
    sources = table.groupby("rule", sort=False)["source"].first()
    ax.set_yticks(
        range(len(names)),
        labels=[f"{_raised(name)}\n{sources[name]}" for name in names],
        fontsize=9,
    )
    ax.invert_yaxis()
    _along_lengths(ax, pd.DataFrame({"n_keys": [4**power for power in range(2, 11)]}))
    ax.legend(loc="lower left", title="wanted entropy")
    return figure


def _along_lengths(ax: Axes, table: pd.DataFrame) -> None:
    n_keys = sorted(table["n_keys"].unique())
    ax.set(xscale="log", xlabel="keys in a row, n")
    ax.set_xticks(
        n_keys,
        labels=[f"{n}" if n < 1024 else f"{n // 1024}k" if n < 2**20 else "1M" for n in n_keys],
    )
    ax.xaxis.set_minor_locator(NullLocator())


def _raised(text: str) -> str:
    """A label with its powers typeset.

    >>> _raised("(ln n)^1/2")
    '(ln n)$^{1/2}$'
    """
    return re.sub(r"\^\(?([\d/]+)\)?", r"$^{\1}$", text).replace("|J|_F", "$|J|_F$")


def _computed(table: pd.DataFrame, scale: str) -> pd.Series:
    return table[table["scale"] == scale].set_index("n_keys")["computed"]


def _powers(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Local powers of exact crossings: of ln n for the typical one; of n for the mean one over ln
    n.
    """
    logs = {name: np.log(_computed(table, name)) for name in ("typical", "mean")}
    ln_n = np.log(logs["mean"].index.to_series())
    mean = (logs["mean"] - np.log(ln_n)).diff() / ln_n.diff()
    return {
        "typical": (logs["typical"].diff() / np.log(ln_n).diff()).dropna(),
        "mean": mean.dropna(),
    }


def _of_scales(tables: Results) -> dict[str, Any]:
    exact = {name: _computed(tables["scales"], name)[4096] for name in ("typical", "mean")}
    return {
        "typical": exact["typical"],
        "mean": exact["mean"] / 1e6,
        "least": _powers(tables["scales"])["typical"].min(),
    }


def _scales_hold(tables: Results) -> bool:
    """True if the powers are 3 and 2 within a tenth, the second one from 64 keys on."""
    found = _powers(tables["scales"])
    return bool(
        (found["typical"] - 3).abs().max() < 0.1 and (found["mean"].loc[256:] - 2).abs().max() < 0.1
    )


def _three_nats(tables: Results, rows: str = "Gaussian") -> pd.Series:
    return (
        rows_of(tables, "lengths", rows=rows, target="entropy", value=3.0)
        .set_index("n_keys")["power"]
        .dropna()
    )


def _lengths_hold(tables: Results) -> bool:
    """True if the power falls at each step for Gaussian rows, through 1, and rises for short unit
    keys.
    """
    gaussian, unit = _three_nats(tables), _three_nats(tables, "unit, d_k = 8")
    falls = (
        (gaussian.diff().dropna() < 0).all() and gaussian.iloc[0] > 1.5 and gaussian.iloc[-1] < 0.75
    )
    return bool(falls and (unit.loc[256:].diff().dropna() > 0).all() and unit.min() > 2)


def _widest(tables: Results) -> pd.DataFrame:
    """For each entropy, the rule for Gaussian rows that holds over the widest range of lengths."""
    table = tables["rules"][~tables["rules"]["rule"].str.contains("unit")]
    width = table["longest"] / table["shortest"]
    return table.loc[width.groupby(table["entropy"]).idxmax()].set_index("entropy")


FIGURES = {
    "scales": (
        _draw_scales,
        Finding(
            drawing="theory/scales",
            title="Typical Jacobians cross near the cube of ln n, mean squares near n squared",
            sentence="Unscaled, standard normal q and k. Lines: laws; points: exact for r.m.s., "
            "within 1% for medians. "
            "With 4096 keys, the median of |J|_F falls below that under d_k^1/2 at d_k = "
            "{typical:.0f}, and its r.m.s. "
            "at {mean:.1f} million.",
            values=_of_scales,
            holds=_scales_hold,
        ),
    ),
    "lengths": (
        _draw_lengths,
        Finding(
            drawing="theory/lengths",
            title="No single power of ln n keeps the entropy of all rows",
            sentence="Exact. Left: the spread that keeps the value in the legend, entropy in nats "
            "or largest weight. "
            "Right: its slope from one length to the next. For 3 nats over Gaussian scores, the "
            "power falls from "
            "{first:.2f} to {last:.2f}; for unit keys of width 8 it rises to {unit:.2f}.",
            values=lambda tables: {
                "first": _three_nats(tables).iloc[0],
                "last": _three_nats(tables).iloc[-1],
                "unit": _three_nats(tables, "unit, d_k = 8").iloc[-1],
            },
            holds=_lengths_hold,
        ),
    ),
    "rules": (
        _draw_rules,
        Finding(
            drawing="theory/rules",
            title="Which rule of length holds depends on the wanted entropy",
            sentence="Bars: lengths from 16 to 1M over which a rule, fitted at 4096 keys "
            "(dotted), keeps the mean "
            "entropy within 10%; exact, for Gaussian scores but in the last rule. Without a rule, "
            "3 nats hold from "
            "{shortest} to {longest} keys.",
            values=lambda tables: dict(
                tables["rules"]
                .query("rule == '1 (no rule)' and entropy == 3")[["shortest", "longest"]]
                .iloc[0]
            ),
            holds=lambda tables: _widest(tables)["rule"].nunique() == len(ENTROPIES),
        ),
    ),
}
