"""Measure a chunk: with a generator keyed by its content, on one thread, with the same instructions everywhere.

A chunk's stream depends only on its cell's axes and its number. So additional cells, scalings, sweeps or workers change
no existing draw, and equal cells of two sweeps of one experiment share their draws.
"""

import hashlib
import json

import numpy as np

from experiments.harness.columns import defaults
from experiments.harness.experiment import Measurement
from experiments.harness.grid import Chunk, axis_values, plain
from experiments.harness.processor import require_fixed


def measure_chunk(chunk: Chunk, seed: int) -> Measurement:
    """Measure a chunk with its own generator; an overflow or an invalid operation is an error, not a value.

    Raises:
        FloatingPointError: an overflow, an invalid operation or a division by 0 in NumPy's arithmetic. Underflow is
            allowed: weights of saturated rows are too small for a double.
        RuntimeError: this process does not use the instructions of `experiments.harness.processor`.
    """
    require_fixed()
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return chunk.experiment.measure(chunk.cell, chunk.trials, generator(seed, chunk))


def generator(seed: int, chunk: Chunk) -> np.random.Generator:
    """The chunk's own generator: a seed sequence with the root seed as entropy and `chunk_key` as spawn key.

    Chunks with different keys have independent streams under the same root seed.
    """
    return bit_generator(np.random.SeedSequence(entropy=seed, spawn_key=chunk_key(chunk)))


def chunk_key(chunk: Chunk) -> tuple[int, ...]:
    """Eight 32-bit words of SHA-256 over the experiment's name and the cell's axes, then the chunk's number.

    Treatments (scalings) do not count: they share the draw, so that adding one changes no other row. Axes at their
    default do not count either, so that a new axis keeps the draws of all cells that do not use it. Neither does the
    number of trials.
    """
    usual = {name: plain(value) for name, value in defaults(type(chunk.cell)).items()}
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
