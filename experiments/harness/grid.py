"""From a sweep of the config to its cells and their chunks of trials."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.harness.columns import axis_names, defaults, treatment_names
from experiments.harness.experiment import Cell, Experiment


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
        values: dict[str, Any] = _plain_values(self.values)
        if self.variants:
            values["variants"] = [_plain_values(variant) for variant in self.variants]
        precise = {"precision": self.precision, "max_trials": self.trials}
        return {
            "experiment": self.experiment.name,
            **values,
            **(precise if self.precision else {"trials": self.trials}),
        }


def _plain_values(values: Mapping[str, tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [plain(value) for value in given] for name, given in values.items()}


@dataclass(frozen=True)
class Chunk:
    """Trials of one cell that one worker measures with one generator."""

    experiment: Experiment
    cell: Cell  # with all treatments
    index: int  # within the cell, from 0; far larger for the chunks of a pilot
    trials: int


def plain(value: Any) -> Any:
    """A parameter as in tables and JSON: numbers stay numbers, everything else becomes its name.

    >>> from sdpa import Scaling
    >>> plain(0.5), plain(Scaling.parse("d_k^1/2"))
    (0.5, 'd_k^1/2')
    """
    return value if isinstance(value, int | float) else str(value)


def axis_values(cell: Cell) -> dict[str, Any]:
    """The axes of a cell and their values, as in a table."""
    return {name: plain(getattr(cell, name)) for name in axis_names(type(cell))}


def describe(cell: Cell) -> str:
    """The name of a cell in messages: its sizes, and other axes unless they have their default.

    >>> from experiments.sampling import Cell
    >>> describe(Cell(d_k=8, n_keys=64, scaling=(), key_std=2.0))
    'd_k=8, n_keys=64, n_queries=64, key_std=2.0'
    """
    usual = defaults(type(cell))
    return ", ".join(
        f"{name}={value}"
        for name, value in axis_values(cell).items()
        if isinstance(value, int) or name not in usual or value != plain(usual[name])
    )


def chunks(experiment: Experiment, cell: Cell, trials: int, first_index: int = 0) -> Iterator[Chunk]:
    """The chunks of a cell, in merge order: each of the experiment's `chunk_trials`, the last of those left over.

    >>> from experiments.distribution import EXPERIMENT, Cell
    >>> [(chunk.index, chunk.trials) for chunk in chunks(EXPERIMENT, Cell(d_k=2**20), 30)]
    [(0, 16), (1, 14)]
    """
    size = experiment.chunk_trials(cell)
    for index, first in enumerate(range(0, trials, size), first_index):
        yield Chunk(experiment, cell, index, min(size, trials - first))
