"""The variance of scores against their dimension, of one sample each, on the line y = d_k."""

from matplotlib.figure import Figure

from experiments.figures import Tables
from experiments.figures.heatmaps import matrix
from experiments.figures.lines import draw_exact
from experiments.figures.style import INK, note, panels
from experiments.figures.words import number


def draw(tables: Tables) -> Figure:
    """Points on the exact line."""
    sample, exact = (
        matrix(tables["examples"], "sweep", panel).loc["variance"] for panel in ("one sample of 10,000", "exact")
    )
    figure, [[ax]] = panels(1, 1, (6, 4))
    d_k = sample.index.astype(int).to_numpy()
    draw_exact(ax, d_k, exact.to_numpy(), INK)
    ax.plot(d_k, sample, color=INK, marker="o", linestyle="")
    ax.set_xlabel("d_k")
    ax.set_title("variance of unscaled scores")
    note(figure, "Points: 10,000 scores each, of the article's own stream of random numbers. Band: exact, y = d_k.")
    return figure


def caption(tables: Tables) -> str:
    """The last point, and its exact value."""
    sample = matrix(tables["examples"], "sweep", "one sample of 10,000").loc["variance"]
    d_k = sample.index[-1]
    return (
        f"At d_k = {d_k} the variance of the article's 10,000 scores is {number(sample.iloc[-1], 0.1)}, exactly {d_k}."
    )
