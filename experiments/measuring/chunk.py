"""A chunk of trials: measured with a generator of its own, on one thread, and with the same CPU
instructions on every machine, so that bytes agree.

A chunk's stream depends only on its cell's axes and its number. So additional cells, scalings,
sweeps or workers change no existing draw, and equal cells of two sweeps of one experiment share
their draws.
"""

import hashlib
import json
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from experiments.measuring.cells import BaseCell
from experiments.measuring.columns import Json, as_json, axis_defaults, axis_values, cell_fields
from experiments.measuring.experiment import AnyExperiment, Measurement
from experiments.measuring.packing import pack, unpack
from experiments.measuring.processor import require_fixed


@dataclass(frozen=True)
class Chunk:
    """Trials of one cell that share a random stream."""

    experiment: AnyExperiment
    cell: BaseCell  # with all rules
    index: int  # within the cell, from 0; far larger for the chunks of a pilot
    trials: int
    seed: int  # the root of all draws

    @classmethod
    def of_cell(
        cls, experiment: AnyExperiment, cell: BaseCell, trials: int, seed: int, first_index: int = 0
    ) -> Iterator[Self]:
        """The chunks of a cell, in merge order: each of the cell's `chunk_trials`, the last of
        those left over.

        >>> from experiments.kinds.saturation.cell import EXPERIMENT, Cell
        >>> cell = Cell(d_k=4, n_keys=2**14, scaling=())
        >>> [(chunk.index, chunk.trials) for chunk in Chunk.of_cell(EXPERIMENT, cell, 20, 0)]
        [(0, 15), (1, 5)]
        """
        size = cell.chunk_trials
        for index, first in enumerate(range(0, trials, size), first_index):
            yield cls(experiment, cell, index, min(size, trials - first), seed)

    def packed(self) -> bytes:
        """The measurement as bytes, for the store; runs in a worker.

        Raises:
            FloatingPointError: a number of the measurement is not finite.
        """
        return pack(self.measure())

    def unpacked(self, content: bytes) -> Measurement:
        """The measurement from its bytes, equal to the bit."""
        kind = typing.get_type_hints(self.experiment.measure)["return"]
        measurement: Measurement = unpack(kind, content)
        return measurement

    def measure(self) -> Measurement:
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
            return self.experiment.measure(self.cell, self.trials, self.generator())

    def generator(self) -> np.random.Generator:
        """The chunk's own generator: SFC64, NumPy's fastest for normal numbers, with the root seed
        as entropy and `key` as spawn key.

        Chunks with different keys have independent streams under the same root seed.
        """
        sequence = np.random.SeedSequence(entropy=self.seed, spawn_key=self.key)
        return np.random.Generator(np.random.SFC64(sequence))

    @property
    def key(self) -> tuple[int, ...]:
        """Eight 32-bit words of SHA-256 over the experiment's name and the cell's axes, then the
        chunk's number.

        Scaling rules do not count: they share the draw, so that adding one changes no other
        row. Axes at their default do not count either, so that a new axis keeps the draws of all
        cells that do not use it. Neither does the number of trials.
        """
        usual = axis_defaults(type(self.cell))
        axes = {
            name: value if isinstance(value, str) else float(value)
            for name, value in axis_values(self.cell).items()
            if value != usual.get(name)
        }
        content = json.dumps([self.experiment.name, axes], sort_keys=True)
        digest = hashlib.sha256(content.encode()).digest()
        return (*np.frombuffer(digest, dtype="<u4").tolist(), self.index)

    def parameters(self) -> dict[str, object]:
        """All but the seed, as plain JSON values."""
        fields = cell_fields(type(self.cell))
        return {
            "experiment": self.experiment.name,
            "cell": {name: _json_of(getattr(self.cell, name)) for name in fields},
            "chunk": self.index,
            "trials": self.trials,
        }


def _json_of(value: object) -> Json | list[Json]:
    return [as_json(item) for item in value] if isinstance(value, tuple) else as_json(value)
