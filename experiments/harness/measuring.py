"""Measure a chunk: with its own generator, on one thread, with the same instructions everywhere.

This module is a root of the fingerprint of measurements: a change of its code, or of the code that it imports, makes
every record stale.
"""

import numpy as np

from experiments.harness.experiment import Measurement
from experiments.harness.grid import Chunk
from experiments.harness.processor import require_fixed
from experiments.harness.seeds import generator


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
