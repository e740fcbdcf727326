"""The picture of single rows: heat maps of their weights."""

from experiments.figures.maps import plot_plane
from experiments.figures.shown import Shown
from experiments.figures.style import SEQUENTIAL, Drawing, subplots
from experiments.figures.words import divided

_MAX_COLUMNS = 4


def rows(shown: Shown) -> Drawing:
    """One heat map of weights per d_k and scaling, of the first draw; darker is a larger weight."""
    table = shown.rows
    groups = list(table.groupby(["d_k", "scaling"], sort=False))
    columns = min(table["scaling"].nunique(), _MAX_COLUMNS)
    size = 9, 1.1 + 2.1 * -(-len(groups) // columns)
    figure, axes = subplots(len(groups), columns, size, sharex=True, sharey=True)
    for ax, ((d_k, scaling), drawn) in zip(axes, groups, strict=True):
        weights = drawn.pivot_table(index="query", columns="key", values="weight")
        image = plot_plane(ax, weights, most=32 // columns, cmap=SEQUENTIAL, vmin=0, vmax=1)
        largest = weights.max(axis=1).mean()
        ax.set_title(f"d_k = {d_k}, {divided(scaling)}\nmean of largest: {largest:.2f}")
    axes[0].invert_yaxis()
    figure.colorbar(image, ax=axes, label="weight", shrink=0.8, pad=0.01, aspect=30)
    return figure


DRAWINGS = {"rows": rows}
