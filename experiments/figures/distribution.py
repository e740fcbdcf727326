"""Density and kurtosis of one score beside the exact ones.

The exact law has heavier tails than a normal one, with excess kurtosis 6/d_k. The tables belong to a sweep of the
experiment `distribution`: `histogram`, `tests` (Kolmogorov-Smirnov) and `measured`.
"""

from matplotlib.axes import Axes

from experiments.figures.axes import span
from experiments.figures.caption_text import exactly, measured, number, turns
from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.metric_lines import plot_exact, plot_measured, scale_x, scale_y, spans_widely
from experiments.figures.style import INK, note, ordered_colours, panels
from experiments.harness.figures import Default

_FEW = 10
_SURE = 3  # standard errors by which a kurtosis is surely above 0
_SHOWN = 4  # standard deviations on either side in the linear panel


def plot(tables: Tables) -> Drawing:
    """Density on a linear axis, and on a logarithmic one that shows the tails; and the kurtosis."""
    table = tables["measured"]
    figure, [[linear, logarithmic, right]] = panels(1, 3, (11, 4.2), width_ratios=(1, 1, 0.8))
    _densities(linear, tables)
    linear.set_xlim(-_SHOWN, _SHOWN)
    linear.set_title("density of q·k / sqrt(d_k)")
    _densities(logarithmic, tables)
    logarithmic.set_yscale("log")
    seen = tables["histogram"]["density"]
    logarithmic.set_ylim(bottom=seen[seen > 0].min() / 2)
    logarithmic.set_title("the same on a logarithmic axis")
    logarithmic.legend(loc="upper right", fontsize=8.5, handlelength=0.5, borderpad=0)
    plot_exact(right, table["d_k"].to_numpy(), table["score_kurtosis_exact"].to_numpy(), INK)
    for (d_k, rows), colour in zip(
        groups := table.groupby("d_k", sort=False), ordered_colours(len(groups)), strict=True
    ):
        look = {"color": colour, "marker": "o", "linestyle": ""}
        plot_measured(right, [d_k], rows["score_kurtosis"], rows, "score_kurtosis", **look)
    right.set_xlabel("d_k")
    right.set_title("excess kurtosis of q·k (band: 6/d_k)")
    scale_x(right, table, "d_k")
    scale_y(right, table, log=spans_widely(table["score_kurtosis_exact"]))
    note(
        figure,
        f"Points: measured, with 95% intervals for bins with at least {_FEW} scores; pale bands: exact.",
    )
    return figure


def _densities(ax: Axes, tables: Tables) -> None:
    """Measured and exact densities of every d_k; bins without scores have no point.

    A bin with fewer than ten scores has a point without an interval, because its count is not nearly normal.
    """
    groups = tables["histogram"].groupby("d_k", sort=False)
    for (d_k, bins), colour in zip(groups, ordered_colours(len(groups)), strict=True):
        middle = ((bins["low"] + bins["high"]) / 2).to_numpy()
        plot_exact(ax, middle, bins["density_exact"].to_numpy(), colour)
        seen = bins["count"] > 0
        ax.errorbar(
            middle[seen],
            bins["density"][seen],
            (1.96 * bins["density_se"]).where(bins["count"] >= _FEW, 0)[seen],
            color=colour,
            marker="o",
            markersize=2.5,
            elinewidth=0.8,
            linestyle="",
            label=f"d_k = {d_k}",
        )
    ax.set_xlabel("q·k / sqrt(d_k)")


def caption(tables: Tables) -> str:
    """The largest distance of the scores from their exact law, and their kurtosis at both ends."""
    table, distances = tables["measured"], tables["tests"]
    first, last = table.sort_values("d_k").iloc[0], table.sort_values("d_k").iloc[-1]
    p_value = number(float(distances["p_value"].min()), 0.01)
    distance = number(float(distances["statistic"].max()), 1e-5)
    kurtosis = f"the excess kurtosis is {measured(first, 'score_kurtosis')}"
    if first["d_k"] != last["d_k"]:
        kurtosis += f" at d_k = {first['d_k']:g} and {measured(last, 'score_kurtosis')} at {last['d_k']:g}"
    exact = " and ".join(dict.fromkeys(number(float(row["score_kurtosis_exact"])) for row in (first, last)))
    return (
        f"{span(table, 'd_k')}, the distribution function of {first['trials']:,.0f} scores differs from the "
        f"exact one by at most {distance} (Kolmogorov-Smirnov p = {p_value} or more); {kurtosis} (exact: {exact})."
    )


def title(tables: Tables) -> str:
    """The sign of the excess kurtosis, and its fall with d_k."""
    table = tables["measured"].sort_values("d_k")
    known = exactly(table, "score_kurtosis")
    if not (known["score_kurtosis"] > _SURE * known["score_kurtosis_se"]).all():
        return ""
    falls = turns(table, "score_kurtosis") == ("falls",)
    return "Scores have heavier tails than normal ones" + ", less so in wide heads" * falls


FIGURE = Figure(
    shows="Distribution of one score, measured and exact, and its excess kurtosis",
    of="distribution",
    tables=("measured", "histogram", "tests"),
    metrics=("score_variance", "score_kurtosis"),
    default=Default(),
    corrects=("qa-07",),
    plot=plot,
    caption=caption,
    title=title,
)
