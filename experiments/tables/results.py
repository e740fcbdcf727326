"""Results of a sweep: its block of the config, and its tables, which know their axes and
metrics. Every later step receives them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from experiments.config.sweep import Sweep
from experiments.measuring.cells import BaseCell
from experiments.measuring.columns import as_json, axis_names, defaults
from experiments.measuring.experiment import MEASURED, AnyExperiment
from experiments.measuring.metric import Metric, relative_error


@dataclass(frozen=True)
class SweepAxes:
    """The axes of cells by name, in their order, each with its usual value.

    Attributes:
        usual: the default of each axis; None for a size, and for an axis without a default.
    """

    usual: Mapping[str, float | str | None]

    @classmethod
    def of_cell(cls, cell: type[BaseCell]) -> "SweepAxes":
        """The axes that a class of cells declares.

        >>> from experiments.measuring.sampling import SampledCell
        >>> usual = SweepAxes.of_cell(SampledCell).usual
        >>> usual["d_k"], usual["inputs"], usual["query_std"]
        (None, 'gaussian', 1.0)
        """
        usual: dict[str, float | str | None] = {}
        for name in axis_names(cell):
            value = defaults(cell).get(name, 0)
            usual[name] = None if isinstance(value, int) else as_json(value)
        return cls(usual)

    def among(self, table: pd.DataFrame, *but: str) -> list[str]:
        """The axes among the columns of a table, in its order; without some."""
        return [name for name in table.columns if name in self.usual and name not in but]

    def varied(self, table: pd.DataFrame, *shown: str) -> list[str]:
        """The axes with more than one value in a table, besides those shown."""
        return [name for name in self.among(table, *shown) if len(table[name].unique()) > 1]


class Results(dict[str, pd.DataFrame]):
    """The tables of a sweep by kind: the main one as `measured`, and the derived ones.

    Args:
        sweep: the block of the config.
        tables: by kind.
        failed: the error of each derived table that could not be made.
    """

    def __init__(
        self,
        sweep: Sweep,
        tables: Mapping[str, pd.DataFrame],
        failed: Sequence[Exception] = (),
    ) -> None:
        super().__init__(tables)
        self.sweep = sweep
        self.failed = failed

    @property
    def name(self) -> str:
        """The name of the sweep."""
        return self.sweep.name

    @property
    def experiment(self) -> AnyExperiment:
        """The experiment of the sweep."""
        return self.sweep.experiment

    @property
    def measured(self) -> pd.DataFrame:
        """The main table: rows with their cells (`experiments.tables.rows`)."""
        return self[MEASURED]

    @property
    def axes(self) -> SweepAxes:
        """The axes of the cells of the sweep."""
        return SweepAxes.of_cell(self.experiment.cell)

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics of the main table by name."""
        every = self.experiment.metrics
        return {metric.name: metric for metric in every if metric.name in self.measured}

    def lacking(self, columns: Collection[str] | None = None) -> list[str]:
        """The metrics that the main table lacks because they were declared later: all, or those
        among some columns.
        """
        lost = (
            metric.name for metric in self.experiment.metrics if metric.name not in self.metrics
        )
        return [name for name in lost if columns is None or name in columns]

    def unreached(self) -> str:
        """That a cell missed the precision of the sweep, in words; empty if none did."""
        wanted = self.sweep.precision
        error = relative_error(self.metrics.values(), self.measured.to_dict("records"))
        if wanted is None or error <= wanted:
            return ""
        far = f"got the relative error {error:.2g}, expected the precision {wanted:g}"
        return f"{self.name}: {far}; a larger max_trials may reach it, unless a value is 0"
