"""Pictures of their own: each function draws the figure of its name, declared in
`experiments.declarations`.

They fit and derive nothing: `experiments.analysis` does that.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from experiments.analysis.freezing import spreads
from experiments.analysis.results import SweepAxes
from experiments.errors import counted
from experiments.figures.lines import (
    legend,
    plain_numbers,
    plot_exact,
    plot_measured,
    plot_metric,
    reach,
    scale_x,
    scale_y,
    series,
)
from experiments.figures.shown import Shown
from experiments.figures.style import (
    INK,
    Drawing,
    empty,
    in_colours,
    panels,
    scaling_colours,
)
from experiments.figures.words import under, values_of
from experiments.measuring.rules import Floats
from sdpa.scaling import SCALED

_SIZES = ("d_k", "n_keys", "n_queries")
_CHANGED = ("score_variance", "row_variance", "max_weight", "query_gradient_norm_median")
_LEAST_RATIO = 1 / 16  # on the axis of changed assumptions
_APART = 0.16  # between the points of the scalings of a cell
_FREEZING = {
    "entropy_share": "entropy / ln n_keys",
    "collision": "$\\sum w^2$, the sum of squared weights",
}
_FEW = 10  # scores; a bin with fewer has no interval, because its count is not nearly normal


def assumptions(shown: Shown) -> Drawing:
    """A panel for each metric: its ratio to the first cell, for each cell and scaling; far smaller
    ones at the edge.
    """
    results = shown.results
    table = shown.rows.assign(cell=labels(shown.rows, results.axes))
    cells = list(dict.fromkeys(table["cell"]))
    colours = scaling_colours(table["scaling"])
    groups = table.groupby("scaling", sort=False)
    size = 11, 1.5 + 0.3 * len(cells)
    figure, axes = panels(len(_CHANGED), len(_CHANGED), size, sharey=True)
    for ax, metric in zip(axes, _CHANGED, strict=True):
        for i, (scaling, rows) in enumerate(groups):
            beside = _APART * (i - (len(groups) - 1) / 2)
            heights = np.array([cells.index(cell) for cell in rows["cell"]])
            at = heights + beside
            _plot_ratios(ax, rows, metric, at, color=colours[scaling], label=under(scaling))
        ax.axvline(1, color=INK, linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_xlim(left=max(ax.get_xlim()[0], _LEAST_RATIO))
        plain_numbers(ax.xaxis)
        ax.set_title(results.metrics[metric].title, fontsize=9.5)
        ax.set_xlabel("over its value in the first row", fontsize=8.5)
    axes[0].set_yticks(range(len(cells)), cells)
    axes[0].invert_yaxis()
    legend(axes[0])
    return figure


def _plot_ratios(
    ax: Axes, rows: pd.DataFrame, metric: str, at: Floats, *, color: Any, label: str
) -> None:
    """A metric over its value in the first row, at heights; small ratios as numbers at the edge."""
    if f"{metric}_exact" in rows:
        exact = rows[f"{metric}_exact"]
        ax.plot(
            exact / exact.iloc[0],
            at,
            "|",
            color=color,
            markersize=9,
            markeredgewidth=4,
            alpha=0.3,
        )
    first = rows[metric].iloc[0]
    ratio = rows[metric] / first
    ax.errorbar(
        ratio,
        at,
        xerr=reach(rows, metric) / first,
        fmt="o",
        color=color,
        label=label,
        markersize=4,
        capsize=2,
        elinewidth=1,
    )
    is_far = ratio < _LEAST_RATIO
    for y, value in zip(at[is_far], ratio[is_far], strict=True):
        ax.text(
            0.02,
            y,
            f"← {value:.0e}",
            color=color,
            transform=ax.get_yaxis_transform(),
            va="center",
            fontsize=8,
        )


def labels(table: pd.DataFrame, axes: SweepAxes) -> list[str]:
    """The name of each row's cell: its sizes and the axes in which it is unusual, of those that
    vary.

    >>> labels(pd.DataFrame({"d_k": [4, 4], "key_std": [1.0, 2.0]}), SweepAxes({"d_k": None, "key_std": 1.0}))
    ['textbook case', 'key std = 2']
    """
    found = []
    varied = axes.varied(table)
    for _, row in table.iterrows():
        changed = axes.changed(row)
        named = [name for name in varied if name in changed or name in _SIZES]
        found.append(values_of(row, named) or "textbook case")
    return found


def correlation(shown: Shown) -> Drawing:
    """Left: the weight of the own key. Right: the power that keeps the largest weight, for
    neighbouring d_k.
    """
    results = shown.results
    figure, [left, right] = panels(2, 2, (9.5, 4))
    lines = series(shown.rows, results.axes, "correlation", "d_k")
    plot_metric(left, lines, "correlation", "own_weight")
    rule = shown.rows["scaling"].iloc[0]
    left.set_title(f"{results.metrics['own_weight'].title}, {under(rule)}")
    left.legend(fontsize=9, loc="lower right")
    left.set_ylim(0, 1.02)
    steady = shown.beside("steady")
    if len(steady):
        for (small, large), rows, colour in in_colours(steady, ["from_d_k", "to_d_k"]):
            rows = rows.sort_values("correlation")
            plot_exact(right, rows["correlation"], rows["power_exact"], colour)
            right.errorbar(
                rows["correlation"],
                rows["power"],
                # An interval that leaves the sweep's powers has no end there.
                np.nan_to_num(reach(rows, "power")),
                marker="o",
                capsize=2,
                elinewidth=1,
                label=f"d_k = {small} to {large}",
                color=colour,
            )
        right.legend(fontsize=9, loc="center right")
    for power, name in ((1 / 2, "1/2"), (1, "1")):
        right.axhline(power, color=INK, linestyle=":", linewidth=0.8, zorder=0)
        right.text(
            1.01, power, name, transform=right.get_yaxis_transform(), va="center", fontsize=9
        )
    right.set_xlabel("correlation")
    right.set_title("power of d_k that keeps the largest weight")
    return figure


def freezing(shown: Shown) -> Drawing:
    """Entropy and collision against sigma / sigma_c: measured rows on the exact curves of each
    n_keys, and their limit.

    For many keys, the entropy is the share 1 - (sigma / sigma_c)^2 of ln n below sigma_c, and 0
    above it.
    """
    results = shown.results
    if "curves" not in results:
        return empty(
            (10, 4.4),
            "No curves: they need Gaussian inputs, and three values of d_k and of n_keys.",
        )
    figure, axes = panels(2, 2, (10, 4.4))
    table = results.measured
    curves = results["curves"]
    sigma = spreads(table)
    shares = {
        "entropy_share": table["entropy"] / np.log(table["n_keys"]),
        "collision": 1 - table["jacobian_trace"],
    }
    limit = curves.drop_duplicates("ratio")
    for ax, (metric, title) in zip(axes, _FREEZING.items(), strict=True):
        ax.set_xscale("log")
        ax.axvline(1, color=INK, linewidth=0.8, linestyle=":")
        label = "under d_k^1/2, any d_k"
        for n_keys, curve, colour in in_colours(curves, "n_keys"):
            named = f"n_keys = {n_keys}"
            ax.plot(curve["ratio"], curve[metric], color=colour, linewidth=1.2, label=named)
            freezing_sigma = curve["freezing_sigma"].iloc[0]
            ratio = sigma[table["n_keys"] == n_keys] / freezing_sigma
            ax.scatter(
                ratio,
                shares[metric][ratio.index],
                color=colour,
                s=22,
                edgecolors="white",
                linewidths=0.5,
                zorder=3,
            )
            ratio = ratio[table["scaling"] == SCALED]
            ax.scatter(
                ratio,
                shares[metric][ratio.index],
                s=60,
                facecolors="none",
                edgecolors=INK,
                zorder=4,
                label=label,
            )
            label = ""  # once in the legend
        ratios = curves["ratio"]
        ax.set_xlim(ratios.min(), 1.1 * ratios.max())
        plain_numbers(ax.xaxis)
        limits = limit[f"{metric}_limit"]
        ax.plot(limit["ratio"], limits, color=INK, linestyle="--", label="many keys")
        ax.set_xlabel("spread of the scores over $\\sigma_c = \\sqrt{2 \\ln n_\\mathrm{keys}}$")
        ax.set_title(title)
    legend(axes[0])
    return figure


def distribution(shown: Shown) -> Drawing:
    """Density on a linear axis, and on a logarithmic one that shows the tails; and the kurtosis."""
    table = shown.rows
    histogram = shown.beside("histogram")
    figure, [linear, logarithmic, right] = panels(3, 3, (11, 4.2), width_ratios=(1, 1, 0.8))
    for ax in (linear, logarithmic):
        for d_k, bins, colour in in_colours(histogram, "d_k"):
            middle = (bins["low"] + bins["high"]) / 2
            plot_exact(ax, middle, bins["density_exact"], colour)
            seen = bins["count"] > 0
            error = (1.96 * bins["density_se"]).where(bins["count"] >= _FEW, 0)
            ax.errorbar(
                middle[seen],
                bins["density"][seen],
                error[seen],
                color=colour,
                marker="o",
                markersize=2.5,
                elinewidth=0.8,
                linestyle="",
                label=f"d_k = {d_k}",
            )
        ax.set_xlabel("q·k / sqrt(d_k)")
    linear.set_xlim(-4, 4)
    linear.set_title("density of q·k / sqrt(d_k)")
    logarithmic.set_yscale("log")
    density = histogram["density"]
    least = density[density > 0].min()
    logarithmic.set_ylim(bottom=least / 2)
    logarithmic.set_title("the same on a logarithmic axis")
    logarithmic.legend(loc="upper right", fontsize=8.5, handlelength=0.5, borderpad=0)
    metric = "score_kurtosis"
    plot_exact(right, table["d_k"], table[f"{metric}_exact"], INK)
    for _, rows, colour in in_colours(table, "d_k"):
        plot_measured(right, rows, "d_k", metric, color=colour, marker="o", linestyle="")
    right.set_xlabel("d_k")
    right.set_title("excess kurtosis of q·k (band: 6/d_k)")
    scale_x(right, table, "d_k")
    scale_y(right, table, f"{metric}_exact", may_be_log=True)
    return figure


def calibration(shown: Shown) -> Drawing:
    """The z-scores as a histogram and in order, beside N(0, 1), and the p-values of cells in order,
    if uniform.
    """
    figure, [left, middle, right] = panels(3, 3, (11, 4.2))
    results = shown.results
    scores = results["z_scores"]["of_own_error"].dropna()
    z = np.sort(scores.to_numpy())
    p = np.sort(results["cells"]["p_value"].to_numpy())
    x = np.linspace(-4, 4, 200)
    left.hist(z, bins=np.arange(-5, 5.01, 0.25), density=True, color=INK, alpha=0.3)
    left.plot(x, stats.norm.pdf(x), color=INK)
    left.set_xlim(-4.5, 4.5)
    left.set_title(f"density of {len(z)} z-scores, line: N(0, 1)")
    left.set_xlabel("z = (measured − exact) / standard error")
    for ax, expected, found in (
        (middle, stats.norm.ppf(_places(len(z))), z),
        (right, _places(len(p)), p),
    ):
        # thousands of points
        ax.plot(expected, found, color=INK, marker=".", linestyle="", rasterized=True)
        ax.axline((0, 0), slope=1, color=INK, linewidth=0.8)
    middle.set_title("z-scores in order")
    middle.set_xlabel("expected under N(0, 1)")
    ranks = np.arange(1, len(p) + 1)
    from_above = len(p) + 1 - ranks
    low = stats.beta.ppf(0.025, ranks, from_above)
    high = stats.beta.ppf(0.975, ranks, from_above)
    right.fill_between(_places(len(p)), low, high, color=INK, alpha=0.15, linewidth=0)
    right.set_title(f"p-values of {counted(len(p), 'cell')} in order")
    right.set_xlabel("expected if uniform")
    return figure


def _places(count: int) -> Floats:
    """The expected places of that many uniform numbers in order: (i + 1/2) / n for i from 0."""
    return (np.arange(count) + 0.5) / count
