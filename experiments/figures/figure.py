"""The declaration of a figure: its subject, its tables, and the functions that draw it and write its caption."""

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
        of: the experiment whose sweeps it shows, each in a drawing of its own; or `all-sweeps` (all sweeps together),
            `benchmarks`, `examples` (the worked example of its name) or `walk` (a user's own matrices).
        tables: the kinds of tables that it reads, `measured` and those that `experiments.analysis` derives; of an
            example, its steps. It gets those of them that there are.
        metrics: the columns of the measured table that it is about; the page gives the values of the first.
        default: the sweeps that have it without naming it; none if it must be named.
        corrects: ids of published statements that it shows to be wrong or misleading.
        plot: makes the drawing. It fits nothing and derives nothing: that is for `experiments.analysis`.
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
        """Those tables that the figure reads."""
        return {kind: tables[kind] for kind in self.tables if kind in tables}


def load_figure(name: str) -> Figure:
    """The `FIGURE` of the module of that name below `experiments.figures`."""
    module = f"{__package__}.{name}"
    figure = importlib.import_module(module).FIGURE
    if not isinstance(figure, Figure):
        raise TypeError(f"{module}.FIGURE: expected a Figure, got {type(figure).__name__}")
    return figure
