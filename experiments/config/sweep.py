"""A sweep: one block of the config with a value for every key, and the cells of its grids."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.measuring.columns import as_json, axis_names, treatment_names
from experiments.measuring.experiment import Cell, Experiment


@dataclass(frozen=True)
class Sweep:
    """One resolved block of the config: every key has a value, and every value has its type.

    A variant has values of some axes in the place of `values`, and a grid of its own; the sweep consists of all grids.
    """

    name: str  # of the block and of its table
    experiment: Experiment
    values: Mapping[str, tuple[Any, ...]]  # of every field of the cell, in the cell's order
    trials: int  # of each cell; the maximum in a sweep with a precision
    figures: tuple[str, ...]
    precision: float | None = None  # the relative standard error that determines the number of trials
    variants: tuple[Mapping[str, tuple[Any, ...]], ...] = ()

    def grids(self) -> list[dict[str, tuple[Any, ...]]]:
        """The values of every field in each grid, in order."""
        return [{**self.values, **variant} for variant in self.variants or ({},)]

    def cells(self) -> list[Cell]:
        """One cell per point of each grid of axes, the last axis varying fastest; each cell holds all treatments."""
        cell = self.experiment.cell
        axes, treatments = axis_names(cell), treatment_names(cell)
        fixed = {name: self.values[name] for name in treatments}
        points = (point for grid in self.grids() for point in itertools.product(*(grid[name] for name in axes)))
        return [cell(**dict(zip(axes, point, strict=True)), **fixed) for point in points]

    def parameters(self) -> dict[str, Any]:
        """The parameters that determine the table, as plain JSON values.

        The keys are `experiment`, the fields of the cell, `variants` if there are any, and `trials`, or `precision` and
        `max_trials`. Name and figures do not belong to them: they change no number.
        """
        values: dict[str, Any] = {"experiment": self.experiment.name, **_plain_values(self.values)}
        if self.variants:
            values["variants"] = [_plain_values(variant) for variant in self.variants]
        precise = {"precision": self.precision, "max_trials": self.trials}
        return values | (precise if self.precision else {"trials": self.trials})


def _plain_values(values: Mapping[str, tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [as_json(value) for value in given] for name, given in values.items()}
