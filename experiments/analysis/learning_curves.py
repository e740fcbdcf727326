"""The learning curves of training: the means over runs of everything that runs record, by step.

The table `history` beside a main table of `training` comes in; the derived table `learning_curves` comes out.
"""

from experiments.analysis.derived import Derived
from experiments.harness.columns import axis_columns
from experiments.training import HISTORY, HISTORY_COLUMNS

LEARNING_CURVES = Derived(
    "learning_curves",
    needs=frozenset({"step", "loss"}),
    columns=lambda experiment: (*axis_columns(experiment.cell), *HISTORY_COLUMNS),
    derive=lambda _, tables: tables[HISTORY],
    source=HISTORY,
)
