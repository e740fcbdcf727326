"""One drawing module per figure: tables in, a drawing and its caption out; `style` and `lines` are what they share.

An experiment says by name which figures draw its tables. A figure module offers

    draw(tables) -> matplotlib Figure
    caption(tables) -> one sentence with the measured numbers

where `tables["measured"]` is the sweep's own table and the others are what `experiments.analysis` derived from it.
Figures of the suite get the tables of `suite_tables` instead.
The figure of a worked example is in `experiments.figures.examples` and gets the steps of its example.
"""

import importlib
from collections.abc import Mapping
from types import ModuleType

import pandas as pd

Tables = Mapping[str, pd.DataFrame]

SUITE_FIGURES = ("calibration",)


def load_figure(name: str) -> ModuleType:
    """The module that draws the figure of that name."""
    return importlib.import_module(f"experiments.figures.{name}")
