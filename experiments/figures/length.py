"""Entropy and largest weight along n_keys.

With the divisor fixed by d_k, longer rows spread their weights over more keys. The figure shows each rule beside equal
weights, with entropy ln n and largest weight 1/n.
"""

import numpy as np

from experiments.figures.axes import by_scaling, first_combination, fixed, span, under
from experiments.figures.caption_text import course, exactness, listed, turns
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.keeping import UNCHANGED, changes, keeps
from experiments.figures.metric_lines import label_lines, plot_metric, reading, scale_x, scale_y, series
from experiments.figures.style import INK, note, panels
from experiments.harness.figures import Default


def plot(tables: Tables) -> Drawing:
    """Entropy below its bound ln n, and the largest weight above its bound 1/n."""
    table = tables["measured"]
    figure, [[left, right]] = panels(1, 2, (9, 4))
    lines = series(table, "n_keys")
    n_keys = np.sort(table["n_keys"].unique())
    for ax, metric, bound, name, offset in (
        (left, "entropy", np.log(n_keys), "ln n_keys", (0, 8)),
        (right, "max_weight", 1 / n_keys, "1/n_keys", (0, -14)),
    ):
        plot_metric(ax, lines, "n_keys", metric)
        ax.margins(y=0.12)
        ax.plot(n_keys, bound, color=INK, linestyle=":", linewidth=1, marker="_" if len(n_keys) == 1 else "")
        ax.annotate(name, (n_keys[-1], bound[-1]), xytext=offset, textcoords="offset points", ha="right")
        scale_x(ax, table, "n_keys")
        scale_y(ax, table, metric)
    label_lines(right, lines, "n_keys", "max_weight")
    note(figure, f"{fixed(table, 'n_keys')} {reading(table, 'entropy', 'max_weight')}")
    return figure


def caption(tables: Tables) -> str:
    """The course of the largest weight under each scaling."""
    table, where = first_combination(tables["measured"], "n_keys")
    clauses = [
        f"{course(rows, 'n_keys', 'max_weight')} {under(name)}" for name, rows in by_scaling(table, "n_keys").items()
    ]
    width = "" if where else f" at d_k = {table['d_k'].iloc[0]}"
    what = f"the mean largest weight{where} {listed(clauses)}"
    return f"{span(table, 'n_keys')}{width}, {what}{exactness(table, 'max_weight')}."


def title(tables: Tables) -> str:
    """The scalings under which the largest weight does not depend on n_keys, or else the growth of the entropy."""
    table = tables["measured"]
    sizes = changes(table, "n_keys", "max_weight").values()
    if any(size <= UNCHANGED for size in sizes):
        return keeps(table, "n_keys", "max_weight", "the largest weight {}level", "in longer rows")
    if all(turns(line.rows, "entropy") == ("rises",) for line in series(table, "n_keys")):
        return "Longer rows spread attention over more keys" + " under every rule here" * (len(sizes) > 1)
    return ""


FIGURE = Figure(
    shows="Entropy and largest weight against the number of keys",
    of="saturation",
    tables=("measured",),
    metrics=("max_weight", "entropy"),
    default=Default(varied=("n_keys",)),
    plot=plot,
    caption=caption,
    title=title,
)
