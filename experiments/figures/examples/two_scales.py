"""The figure of the example two scales."""

from experiments.figures.axes import plain
from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import sizes
from experiments.figures.style import INK, note, panels


def plot(tables: Tables) -> Drawing:
    """Two bar charts on one scale: the weights of four small scores, and of the same scores times 20."""
    scores, weights = (tables[step] for step in ("scores", "weights"))
    figure, [axes] = panels(1, 2, (9, 3.6), sharey=True)
    for ax, (scale, row) in zip(axes, weights.iterrows(), strict=True):
        bars = ax.bar(row.index, row, color=INK, alpha=0.6)
        ax.bar_label(bars, [number(weight, 0.001) for weight in row], fontsize=9)
        ax.set_title(f"weights of scores {', '.join(plain(float(score)) for score in scores.loc[scale])}")
        ax.set_xlabel("position")
        ax.set_ylim(0, 1.08)
    note(figure, "The same four scores, unchanged and times 20.")
    return figure


def caption(tables: Tables) -> str:
    """Largest weight and entropy at both scales."""
    scores, spread = tables["scores"], tables["spread"]
    small, large = ([number(spread.loc[scale, name], 0.001) for name in spread] for scale in ("small", "large"))
    named = [", ".join(plain(float(score)) for score in scores.loc[scale]) for scale in ("small", "large")]
    return (
        f"With {sizes(tables)}, the largest weight is {small[0]} for the scores ({named[0]}) and "
        f"{large[0]} for ({named[1]}); the entropy is {small[1]} and {large[1]} nats."
    )


FIGURE = Figure(
    shows="Weights of four small scores, and of the same scores magnified",
    of="examples",
    tables=("scores", "weights", "spread"),
    plot=plot,
    caption=caption,
)
