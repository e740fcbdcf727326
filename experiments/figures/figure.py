"""The declaration of a figure: its subject, its tables, and its functions for drawing, title and caption."""

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
        shows: a fixed phrase of at most twelve words, for lists of figures and where the tables support no finding.
        of: the experiment whose sweeps it shows, one drawing for each sweep; or `all-sweeps` (all sweeps together),
            `benchmarks`, `examples` (the worked example of its name) or `walk` (a user's own matrices).
        tables: the kinds of tables that it reads: `measured`, those that `experiments.analysis` derives, or the steps
            of an example. It gets the ones that exist.
        metrics: the columns of the measured table that it shows; the page gives the values of the first.
        default: the sweeps that get it without naming it; none if a sweep must name it.
        is_slide: True if its PNG is a slide: a large title, and no caption.
        corrects: ids of published statements that it shows to be wrong or misleading.
        plot: makes the drawing. It fits and derives nothing; `experiments.analysis` does that.
        caption: one sentence with the measured numbers.
        title: the finding that the tables support, of at most twelve words and without numbers; empty if there is
            none. None for worked examples, which show one calculation. Without a finding, drawings have `shows` as
            their title.
    """

    shows: str
    of: str
    tables: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    default: Default | None = None
    is_slide: bool = False
    corrects: tuple[str, ...] = ()
    plot: Callable[[Tables], Drawing]
    caption: Callable[[Tables], str]
    title: Callable[[Tables], str] | None = None

    def heading(self, tables: Tables) -> str:
        """The title of a drawing of these tables."""
        return (self.title(self.chosen(tables)) if self.title else "") or self.shows

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
