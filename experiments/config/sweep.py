"""A sweep: one block of the config with a value for every key, and the cells of its grids."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from experiments.measuring.cells import BaseCell
from experiments.measuring.columns import RULES, as_json, axis_names
from experiments.measuring.experiment import AnyExperiment

Values = Mapping[str, tuple[object, ...]]  # of fields of a cell, by name


@dataclass(frozen=True)
class Sweep:
    """One resolved block of the config: every key has a value, and every value has its type.

    A variant has values of some axes in the place of `values`, and a grid of its own; the sweep
    consists of all grids.
    """

    name: str  # of the block and of its table
    experiment: AnyExperiment
    values: Values  # of every field of the cell, in the cell's order
    trials: int  # of each cell; the maximum in a sweep with a precision
    figures: tuple[str, ...]
    seed: int  # the root of all draws, which every sweep of a config shares
    precision: float | None = None  # the relative standard error that decides the trials
    variants: tuple[Values, ...] = ()
    is_shipped: bool = False  # in a config of this repository, edited or not

    def grids(self) -> list[Values]:
        """The values of every field in each grid, in order."""
        return [{**self.values, **variant} for variant in self.variants or ({},)]

    def spanned(self) -> Values:
        """The different values of every field in all grids, in any order."""
        spanned = {}
        for name in self.values:
            different = {value for grid in self.grids() for value in grid[name]}
            spanned[name] = tuple(different)
        return spanned

    @cached_property
    def cells(self) -> tuple[BaseCell, ...]:
        """One cell per point of each grid, the last axis varying fastest; each has all
        rules.
        """
        cell = self.experiment.cell
        axes = axis_names(cell)
        rules = {name: values for name, values in self.values.items() if name == RULES}
        cells = []
        for grid in self.grids():
            points = itertools.product(*(grid[axis] for axis in axes))
            for point in points:
                values = dict(zip(axes, point, strict=True))
                cells.append(cell(**values, **rules))
        return tuple(cells)

    def parameters(self) -> dict[str, object]:
        """The parameters that determine the table, as plain JSON values.

        The keys are `experiment`, the fields of the cell, `variants` if there are any, and
        `trials`, or `precision` and `max_trials`. The seed stands beside them; name and figures
        change no number.
        """
        parameters = {"experiment": self.experiment.name, **_json_of(self.values)}
        if self.variants:
            parameters["variants"] = [*map(_json_of, self.variants)]
        if self.precision:
            parameters["precision"] = self.precision
            parameters["max_trials"] = self.trials
        else:
            parameters["trials"] = self.trials
        return parameters


def _json_of(values: Values) -> dict[str, object]:
    return {name: [*map(as_json, given)] for name, given in values.items()}
