"""The figure of the example permutation."""

from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.heatmaps import Panel, heatmaps
from experiments.figures.style import note


def plot(tables: Tables) -> Drawing:
    """Two pairs of heatmaps: the outputs of words in one order and in another, with common colours in each pair."""
    words, dog = (-0.5, 0.35), (-0.2, 0.75)
    grid = [
        [Panel("outputs", "outputs, in order", words, 3), Panel("shuffled", "outputs, shuffled", words, 3)],
        [Panel("dog_bites_man", "dog bites man", dog, 3), Panel("man_bites_dog", "man bites dog", dog, 3)],
    ]
    figure = heatmaps(tables, grid, (8.5, 7.5))
    note(figure, "Rows: words. Columns: entries of the output. Darker means more.")
    return figure


def caption(tables: Tables) -> str:
    """The largest difference of a word's two outputs."""
    steps = ("difference", "swap_difference")
    apart = max(tables[step].to_numpy().max() for step in steps)
    if apart == 0:
        return "Without a mask, every word keeps its output to 12 decimals if the words change places."
    return f"Without a mask, an output differs by up to {apart:.2g} if the words change places."


FIGURE = Figure(
    shows="Outputs of words in two orders: rows move with their words",
    of="examples",
    tables=("outputs", "shuffled", "dog_bites_man", "man_bites_dog", "difference", "swap_difference"),
    plot=plot,
    caption=caption,
)
