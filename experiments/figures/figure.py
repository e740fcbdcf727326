"""The declaration of a figure: its subject, its tables, and its functions for drawing and caption."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import matplotlib.figure
import pandas as pd

from experiments.harness.figures import Default

Drawing: TypeAlias = matplotlib.figure.Figure
Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure, under the name of the module that binds it to FIGURE.

    Attributes:
        title: the heading on the page and the title of the drawing.
        of: the experiment whose sweeps it shows, one drawing for each sweep; or `all-sweeps` (all sweeps together),
            `benchmarks`, `examples` (the worked example of its name) or `walk` (a user's own matrices).
        tables: the kinds of tables that it reads: `measured`, those that `experiments.analysis` derives, or the steps
            of an example. It gets the ones that exist.
        metrics: the columns of the measured table that it shows; the page gives the values of the first.
        default: the sweeps that get it without naming it; none if a sweep must name it.
        corrects: ids of published statements that it shows to be wrong or misleading.
        plot: makes the drawing. It fits and derives nothing; `experiments.analysis` does that.
        caption: one sentence with the measured numbers.
    """

    title: str
    of: str
    tables: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    default: Default | None = None
    corrects: tuple[str, ...] = ()
    plot: Callable[[Tables], Drawing]
    caption: Callable[[Tables], str]

    def chosen(self, tables: Tables) -> dict[str, pd.DataFrame]:
        """The tables that the figure reads."""
        return {kind: tables[kind] for kind in self.tables if kind in tables}


def load_figure(name: str) -> Figure:
    """The `FIGURE` of the module of that name below `experiments.figures`."""
    module = f"{__package__}.{name}"
    figure = importlib.import_module(module).FIGURE
    if not isinstance(figure, Figure):
        raise TypeError(f"{module}.FIGURE: expected a Figure, got {type(figure).__name__}")
    return figure
