"""One drawing module per figure: tables in, a drawing and its caption out; `style` and `lines` are what they share.

An experiment says by name which figures draw its tables. A figure module offers

    draw(tables) -> matplotlib Figure
    caption(tables) -> one sentence with the measured numbers

where `tables["measured"]` is the sweep's own table, the others are what `experiments.analysis` derived from it, and
`tables["suite"]` has the verdicts of all sweeps. Figures of the suite get the tables of `suite_tables` instead.
"""

import importlib
from collections.abc import Mapping
from types import ModuleType

import pandas as pd

Tables = Mapping[str, pd.DataFrame]

SUITE_FIGURES = ("calibration",)
# Of the record: what its sources show, from `tables["examples"]`.
RECORD_FIGURES = (
    "notebook_rows",
    "dog_bites_man",
    "cat_sat_down",
    "article_sweep",
    "article_scales",
    "four_words",
    "query_key_arrows",
    "abc_by_hand",
    "article_comparison",
)


def load_figure(name: str) -> ModuleType:
    """The module that draws the figure of that name."""
    return importlib.import_module(f"experiments.figures.{name}")
