"""Queries and keys of A, B and C as arrows in the plane."""

from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.heatmaps import matrix
from experiments.figures.style import note, ordered_colours, panels
from experiments.figures.words import number


def draw(tables: Tables) -> Figure:
    """Solid arrows for queries, dashed ones for keys."""
    figure, [[ax]] = panels(1, 1, (5.4, 5))
    for kind, style, offset in (("query", "-", (6, 6)), ("key", "--", (6, -12))):
        for (name, arrow), colour in zip(
            matrix(tables["examples"], "arrows", kind).iterrows(), ordered_colours(3), strict=True
        ):
            look = {
                "arrowstyle": "-|>",
                "color": colour,
                "linestyle": style,
                "linewidth": 1.6,
                "shrinkA": 0,
                "shrinkB": 0,
            }
            ax.annotate("", (arrow["x"], arrow["y"]), (0, 0), arrowprops=look)
            ax.annotate(f"{kind} {name}", (arrow["x"], arrow["y"]), offset, textcoords="offset points", color=colour)
    ax.set_xlim(-0.05, 1.25)
    ax.set_ylim(-0.05, 1.2)
    ax.set_aspect("equal")
    ax.set_title("queries (solid) and keys (dashed)")
    note(figure, "A score is the product of the lengths and of the cosine of the angle between query and key.")
    return figure


def caption(tables: Tables) -> str:
    """With which key each query scores most."""
    queries, keys = (matrix(tables["examples"], "arrows", kind) for kind in ("query", "key"))
    scores = queries @ keys.T
    return (
        f"A scores most with its own key, {number(scores.loc['A', 'A'], 0.01)}, C with its own, "
        f"{number(scores.loc['C', 'C'], 0.01)}, and B the same with all, {number(scores.loc['B', 'B'], 0.01)}."
    )
