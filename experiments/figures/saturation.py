"""Concentration of softmax rows along d_k.

Three measures of the same rows: the largest weight, the entropy and the share of rows with a weight above 0.99.
"""

import math

from matplotlib.axes import Axes

from experiments.figures.axes import by_scaling, first_combination, fixed, span, under
from experiments.figures.caption_text import course, exactness, listed
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import keeps
from experiments.figures.metric_lines import label_lines, plot_metric, reading, scale_x, series
from experiments.figures.style import INK, note, panels
from experiments.harness.figures import Default

_PANELS = ("max_weight", "entropy", "saturated_rows")


def plot(tables: Tables) -> Drawing:
    """One panel per metric, with a mark at ln n, the entropy of equal weights."""
    table = tables["measured"]
    figure, [axes] = panels(1, len(_PANELS), (11, 3.6))
    lines = series(table, "d_k")
    for ax, metric in zip(axes, _PANELS, strict=True):
        plot_metric(ax, lines, "d_k", metric)
        scale_x(ax, table, "d_k")
        ax.set_ylim(bottom=0)
    weight, entropy, share = axes
    for n_keys in {min(table["n_keys"]), max(table["n_keys"])}:
        _mark(entropy, math.log(n_keys), f"ln {n_keys}")
    entropy.set_ylim(top=1.08 * math.log(max(table["n_keys"])))
    label_lines(weight, lines, "d_k", "max_weight")
    label_lines(entropy, lines, "d_k", "entropy")
    # Lines at 0 hide each other, so their labels say that they are there.
    texts = [line.label + ": 0" * (not line.rows["saturated_rows"].any()) for line in lines]
    label_lines(share, lines, "d_k", "saturated_rows", texts)
    note(figure, f"{fixed(table, 'd_k')} {reading(table, *_PANELS)}")
    return figure


def _mark(ax: Axes, value: float, text: str) -> None:
    """A dotted line at a value with its name."""
    ax.axhline(value, color=INK, linestyle=":", linewidth=1, zorder=0)
    ax.annotate(text, (0.02, value), xycoords=("axes fraction", "data"), va="bottom", fontsize=9)


def caption(tables: Tables) -> str:
    """The course of the largest weight under each scaling."""
    table, where = first_combination(tables["measured"], "d_k")
    clauses = [f"{course(rows, 'd_k', 'max_weight')} {under(name)}" for name, rows in by_scaling(table, "d_k").items()]
    largest = "largest weight" if "n_keys" in where else f"largest of {table['n_keys'].iloc[0]} weights"
    what = f"the mean {largest}{where}"
    return f"{span(table, 'd_k')}, {what} {listed(clauses)}{exactness(table, 'max_weight')}."


def title(tables: Tables) -> str:
    """The scalings under which the largest weight does not depend on d_k."""
    return keeps(tables["measured"], "d_k", "max_weight", "attention {}equally sharp", "at every width")


FIGURE = Figure(
    shows="Largest weight, entropy and share of saturated rows against d_k",
    of="saturation",
    tables=("measured",),
    metrics=("max_weight", "entropy", "saturated_rows"),
    default=Default(varied=("d_k",)),
    corrects=("textbook-11", "article-50"),
    plot=plot,
    caption=caption,
    title=title,
)
