"""The figure of the example variance sweep."""

from experiments.figures.caption_text import number
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.lines import plot_exact
from experiments.figures.style import INK, note, panels


def plot(tables: Tables) -> Drawing:
    """Points on the exact line y = d_k, with both axes logarithmic."""
    rows = tables["variances"]
    figure, [[ax]] = panels(1, 1, (7, 4.4))
    d_k = rows.index.astype(int).to_numpy()
    plot_exact(ax, d_k, rows["exact"].to_numpy(), INK)
    ax.plot(d_k, rows["sample"], color=INK, marker="o", linestyle="")
    for set_scale in (ax.set_xscale, ax.set_yscale):
        set_scale("log", base=2)
    ax.set_xticks(d_k, rows.index)
    ax.set_yticks(d_k, rows.index)
    ax.set_xlabel("d_k")
    ax.set_title("variance of unscaled scores")
    note(figure, "Points: 10,000 scores each, from the article's own stream of random numbers. Band: exact, y = d_k.")
    return figure


def caption(tables: Tables) -> str:
    """The last point with its exact value, and the point furthest from its exact value."""
    rows = tables["variances"]
    last, away = rows.iloc[-1], rows["errors away"].abs()
    return (
        f"At d_k = {rows.index[-1]}, the sample variance of the article's 10,000 scores is "
        f"{number(last['sample'], 0.1)} and the exact variance of a score is {number(last['exact'], 1)}; the "
        f"sample furthest off, at d_k = {away.idxmax()}, lies {number(away.max(), 0.1)} standard errors away."
    )


FIGURE = Figure(
    shows="Variance of one sample of scores at each d_k",
    of="examples",
    tables=("variances",),
    plot=plot,
    caption=caption,
)
