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


def chunks(
    experiment: AnyExperiment, cell: Cell, trials: int, first_index: int = 0
) -> Iterator[Chunk]:
    """The chunks of a cell, in merge order: each of the cell's `chunk_trials`, the last of those
    left over.

    >>> from experiments.kinds.distribution.cell import EXPERIMENT, Cell
    >>> [(chunk.index, chunk.trials) for chunk in chunks(EXPERIMENT, Cell(d_k=2**20), 30)]
    [(0, 16), (1, 14)]
    """
    size = cell.chunk_trials
    for index, first in enumerate(range(0, trials, size), first_index):
        yield Chunk(experiment, cell, index, min(size, trials - first))


def measure_chunk(chunk: Chunk, seed: int) -> Measurement:
    """Measure a chunk with its own generator; an overflow or an invalid operation is an error, not
    a value.

    Raises:
        FloatingPointError: an overflow, an invalid operation or a division by 0 in NumPy's
            arithmetic. Underflow is allowed: weights of saturated rows are too small for a double.
        RuntimeError: this process does not use the instructions of
            `experiments.measuring.processor`.
    """
    require_fixed()
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return chunk.experiment.measure(chunk.cell, chunk.trials, generator(seed, chunk))


def generator(seed: int, chunk: Chunk) -> np.random.Generator:
    """The chunk's own generator: a seed sequence with the root seed as entropy and `chunk_key` as
    spawn key.

    Chunks with different keys have independent streams under the same root seed.
    """
    return bit_generator(np.random.SeedSequence(entropy=seed, spawn_key=chunk_key(chunk)))


def chunk_key(chunk: Chunk) -> tuple[int, ...]:
    """Eight 32-bit words of SHA-256 over the experiment's name and the cell's axes, then the
    chunk's number.

    Treatments (scalings) do not count: they share the draw, so that adding one changes no other
    row. Axes at their default do not count either, so that a new axis keeps the draws of all cells
    that do not use it. Neither does the number of trials.
    """
    usual = {name: as_json(value) for name, value in defaults(type(chunk.cell)).items()}
    axes = {
        name: value if isinstance(value, str) else float(value)
        for name, value in axis_values(chunk.cell).items()
        if value != usual.get(name)
    }
    content = json.dumps([chunk.experiment.name, axes], sort_keys=True)
    digest = hashlib.sha256(content.encode()).digest()
    return (*np.frombuffer(digest, dtype="<u4").tolist(), chunk.index)


def bit_generator(seed: int | np.random.SeedSequence) -> np.random.Generator:
    """The generator behind all draws, SFC64: NumPy's fastest for normal numbers.

    >>> bit_generator(0).standard_normal() == bit_generator(0).standard_normal()
    True
    """
    return np.random.Generator(np.random.SFC64(seed))
