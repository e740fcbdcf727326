"""The picture of the densities of dot products, and of their kurtosis."""

from experiments.figures.axes import scale_x, scale_y
from experiments.figures.lines import plot_exact, plot_measured
from experiments.figures.shown import Shown
from experiments.figures.style import INK, Drawing, colours_of, subplots

_FEW = 10  # scores; a bin with fewer has no interval, because its count is not nearly normal


def distribution(shown: Shown) -> Drawing:
    """Density on a linear axis, and on a logarithmic one that shows the tails; and the kurtosis."""
    table = shown.rows
    histogram = shown.tables["histogram"]
    colours = colours_of(table["d_k"])
    figure, [linear, logarithmic, right] = subplots(3, 3, (11, 4.2), width_ratios=(1, 1, 0.8))
    for ax in (linear, logarithmic):
        for d_k, bins in histogram.groupby("d_k"):
            colour = colours[d_k]
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
    for d_k, rows in table.groupby("d_k"):
        plot_measured(right, rows, "d_k", metric, color=colours[d_k], marker="o", linestyle="")
    right.set_xlabel("d_k")
    right.set_title("excess kurtosis of q·k (line: 6/d_k)")
    scale_x(right, table["d_k"])
    scale_y(right, table[f"{metric}_exact"].to_numpy())
    return figure


DRAWINGS = {"distribution": distribution}
