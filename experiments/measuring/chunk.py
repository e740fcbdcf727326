"""A chunk of trials: measured with a generator of its own, on one thread, with the same
instructions everywhere.

A chunk's stream depends only on its cell's axes and its number. So additional cells, scalings,
sweeps or workers change no existing draw, and equal cells of two sweeps of one experiment share
their draws.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from experiments.measuring.columns import as_json, axis_values, defaults
from experiments.measuring.experiment import AnyExperiment, Cell, Measurement
from experiments.measuring.processor import require_fixed


@dataclass(frozen=True)
class Chunk:
    """Trials of one cell that share a random stream."""

    experiment: AnyExperiment
    cell: Cell  # with all treatments
    index: int  # within the cell, from 0; far larger for the chunks of a pilot
    trials: int

    @classmethod
    def of_cell(
        cls, experiment: AnyExperiment, cell: Cell, trials: int, first_index: int = 0
    ) -> Iterator[Self]:
        """The chunks of a cell, in merge order: each of the cell's `chunk_trials`, the last of
        those left over.

        >>> from experiments.kinds.distribution.cell import EXPERIMENT, Cell
        >>> [(chunk.index, chunk.trials) for chunk in Chunk.of_cell(EXPERIMENT, Cell(d_k=2**20), 30)]
        [(0, 16), (1, 14)]
        """
        size = cell.chunk_trials
        for index, first in enumerate(range(0, trials, size), first_index):
            yield cls(experiment, cell, index, min(size, trials - first))

    def measure(self, seed: int) -> Measurement:
        """Measure with a generator of its own; an overflow or an invalid operation is an error, not
        a value.

        Raises:
            FloatingPointError: an overflow, an invalid operation or a division by 0 in NumPy's
                arithmetic. Underflow is allowed: weights of saturated rows are too small for a
                double.
            RuntimeError: this process does not use the instructions of
                `experiments.measuring.processor`.
        """
        require_fixed()
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            return self.experiment.measure(self.cell, self.trials, self.generator(seed))

    def generator(self, seed: int) -> np.random.Generator:
        """The chunk's own generator: SFC64, NumPy's fastest for normal numbers, with the root seed
        as entropy and `key` as spawn key.

        Chunks with different keys have independent streams under the same root seed.
        """
        sequence = np.random.SeedSequence(entropy=seed, spawn_key=self.key)
        return np.random.Generator(np.random.SFC64(sequence))

    @property
    def key(self) -> tuple[int, ...]:
        """Eight 32-bit words of SHA-256 over the experiment's name and the cell's axes, then the
        chunk's number.

        Treatments (scalings) do not count: they share the draw, so that adding one changes no other
        row. Axes at their default do not count either, so that a new axis keeps the draws of all
        cells that do not use it. Neither does the number of trials.
        """
        usual = {name: as_json(value) for name, value in defaults(type(self.cell)).items()}
        axes = {
            name: value if isinstance(value, str) else float(value)
            for name, value in axis_values(self.cell).items()
            if value != usual.get(name)
        }
        content = json.dumps([self.experiment.name, axes], sort_keys=True)
        digest = hashlib.sha256(content.encode()).digest()
        return (*np.frombuffer(digest, dtype="<u4").tolist(), self.index)
