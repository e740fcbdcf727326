"""Measure a chunk: with its own generator, on one thread, with finite numbers only."""

import numpy as np

from experiments.harness.experiment import Measurement, load_experiment
from experiments.harness.grid import Chunk
from experiments.harness.seeds import generator


def measure_chunk(chunk: Chunk, seed: int) -> Measurement:
    """Measure a chunk with its own generator; an overflow or an invalid operation is an error, not a value."""
    experiment = load_experiment(chunk.experiment)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        return experiment.measure(chunk.cell, chunk.trials, generator(seed, chunk))
