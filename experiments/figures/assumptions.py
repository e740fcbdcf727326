"""Cells of different inputs side by side: each metric over its value in the first cell.

The first cell of the sweep is the reference, such as the textbook case of independent standard normal entries; each
other cell changes an assumption. A point at 1 means that the assumption does not matter to the metric.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from experiments.figures.axes import by_scaling, fixed, under, values_of, varied_axes
from experiments.figures.caption_text import differ, listed, number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.metric_lines import DECLARED, plain_numbers, reach
from experiments.figures.style import INK, legend_above, note, panels, scaling_colours
from experiments.figures.title_text import shared, titled
from experiments.harness.discovery import unusual_axes

_SHOWN = ("score_variance", "row_variance", "max_weight", "query_gradient_norm_median")
_SIZES = ("d_k", "n_keys", "n_queries")
_INCHES_PER_ROW = 0.3
_APART = 0.16  # between the points of the scalings of a cell
_DIGIT = 0.01  # captions give ratios to this share
_MATTERS = 1.1  # a metric within this factor of the reference is called unchanged


def labels(table: pd.DataFrame) -> list[str]:
    """The name of each row's cell: the axes in which it is unusual, or else all that vary.

    >>> labels(pd.DataFrame({"d_k": [4, 4], "key_std": [1.0, 2.0]}))
    ['textbook case', 'key_std = 2']
    """
    found = []
    for _, row in table.iterrows():
        varied = [name for name in varied_axes(table) if name in unusual_axes(row.to_dict()) or name in _SIZES]
        found.append(values_of(row, varied) or "textbook case")
    return found


def plot(tables: Tables) -> Drawing:
    """A panel for each metric: its ratio to the first cell, for each cell and scaling."""
    table = tables["measured"].assign(cell=labels(tables["measured"]))
    cells = list(dict.fromkeys(table["cell"]))
    figure, [axes] = panels(1, len(_SHOWN), (11, 1.5 + _INCHES_PER_ROW * len(cells)), sharey=True)
    for ax, metric in zip(axes, _SHOWN, strict=True):
        _plot_ratios(ax, table, cells, metric)
    axes[0].set_yticks(range(len(cells)), cells)
    axes[0].invert_yaxis()
    handles, names = axes[0].get_legend_handles_labels()
    legend_above(figure, handles, names, len(names))
    note(
        figure,
        f"{fixed(table)} Each point: a metric over its value in the first cell, with the 95% interval of the cell; "
        "pale: of exact values, where known.",
    )
    return figure


def _plot_ratios(ax: Axes, table: pd.DataFrame, cells: Sequence[str], metric: str) -> None:
    colours = scaling_colours(dict(zip(table["scaling"], table["exponent"], strict=True)))
    groups = by_scaling(table, "cell")
    for i, (scaling, rows) in enumerate(groups.items()):
        reference = rows[metric].iloc[0]
        at = np.array([cells.index(cell) for cell in rows["cell"]]) + _APART * (i - (len(groups) - 1) / 2)
        if f"{metric}_exact" in rows:
            ax.plot(
                rows[f"{metric}_exact"] / rows[f"{metric}_exact"].iloc[0],
                at,
                linestyle="",
                marker="|",
                markersize=9,
                markeredgewidth=4,
                color=colours[scaling],
                alpha=0.3,
            )
        look = {"fmt": "o", "markersize": 4, "capsize": 2, "elinewidth": 1}
        ax.errorbar(
            rows[metric] / reference,
            at,
            xerr=reach(rows, metric) / reference,
            color=colours[scaling],
            label=under(scaling),
            **look,
        )
    ax.axvline(1, color=INK, linewidth=0.8, linestyle=":")
    ax.set_xscale("log")
    plain_numbers(ax.xaxis)
    ax.set_title(DECLARED[metric].title, fontsize=9.5)
    ax.set_xlabel("over its value in the first cell", fontsize=8.5)


def caption(tables: Tables) -> str:
    """The cells that change the largest weight under the last scaling, and those that do not."""
    table = tables["measured"].assign(cell=labels(tables["measured"]))
    scaling, rows = list(by_scaling(table, "cell").items())[-1]
    rows = rows.assign(max_weight=rows["max_weight_exact"].fillna(rows["max_weight"]))
    reference, others = rows.iloc[0], rows.iloc[1:]
    ratios = dict(zip(others["cell"], others["max_weight"] / reference["max_weight"], strict=True))
    changed = [
        f"{cell} ({number(ratio, _DIGIT * ratio)} times)" for cell, ratio in ratios.items() if not _is_alike(ratio)
    ]
    alike = [cell for cell, ratio in ratios.items() if _is_alike(ratio)]
    what = f"Compared with the first cell ({reference['cell']}), the mean largest weight {under(scaling)}"
    parts = [f"changes by more than a tenth for {listed(changed)}"] if changed else []
    parts += [f"stays within a tenth for {listed(alike)}"] if alike else []
    sizes = f", at {fixed(table)}".rstrip(".") if fixed(table) else ""
    return f"{what}{sizes}, {'; it '.join(parts) if parts else 'has one cell to show'}."


def _is_alike(ratio: float) -> bool:
    return 1 / _MATTERS < ratio < _MATTERS


def title(tables: Tables) -> str:
    """The cells that clearly sharpen or flatten attention under the last scaling; empty if cells differ in size.

    No title counts them: the shares are those of the list in the config.
    """
    table = tables["measured"]
    if set(varied_axes(table)) & set(_SIZES) or len(table) == table["scaling"].nunique():
        return ""
    scaling = str(table["scaling"].iloc[-1])
    rows = table[table["scaling"] == scaling]
    known = rows["max_weight_exact"].notna()
    weights = rows["max_weight_exact"].fillna(rows["max_weight"])
    rows = rows.assign(max_weight=weights, max_weight_se=rows["max_weight_se"].mask(known, 0.0))
    reference, others = rows.iloc[0], [row for _, row in rows.iloc[1:].iterrows()]
    ratios = [row["max_weight"] / reference["max_weight"] for row in others if differ(row, reference, "max_weight")]
    sharper, flatter = sum(ratio > _MATTERS for ratio in ratios), sum(ratio < 1 / _MATTERS for ratio in ratios)
    if sharper and flatter:
        return shared([f"Some changed assumptions sharpen attention {titled(scaling)}, others flatten it"])
    subject = "All" if sharper + flatter == len(others) else "Some"
    verb = "sharpen" if sharper else "flatten"
    return shared([f"{subject} changed assumptions {verb} attention {titled(scaling)}"] * (sharper + flatter))


FIGURE = Figure(
    shows="Metrics under changed assumptions, over their value in the first cell",
    of="saturation",
    tables=("measured",),
    metrics=("max_weight", "score_variance", "row_variance", "query_gradient_norm_median"),
    plot=plot,
    caption=caption,
    title=title,
)
