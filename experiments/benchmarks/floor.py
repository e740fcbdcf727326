"""The least work of any plain way to measure a cell, each part timed alone.

The parts are the cell's normal numbers, a matrix product, and an exponential for each score and scaling. All use arrays
that stay in cache and are reused. The floor is the sum of the three times; a ratio over it says how much a way loses to
everything else, such as sums and memory traffic.
"""

from functools import partial

import numpy as np

from experiments.benchmarks.timing import Task
from experiments.harness.seeds import bit_generator
from experiments.sampling import Cell, block_queries, block_trials
from sdpa.box_muller import single_normals

_CACHED = 2**15


def floor_tasks(cell: Cell) -> dict[str, tuple[Task, float]]:
    """Each part as a task, and how many times a trial runs it.

    Args:
        cell: sizes, scalings and precision.

    Returns:
        By name, a task and its repetitions per trial, which may be a fraction: a task draws or exponentiates 2^15
        numbers, or multiplies the matrices of a block.
    """
    trials, queries = block_trials(cell), block_queries(cell)
    rng, dtype = bit_generator(0), cell.dtype
    drawn, exponents = np.empty(_CACHED), -np.abs(rng.standard_normal(_CACHED)).astype(dtype)
    q, k = (rng.standard_normal((trials, n, cell.d_k)).astype(dtype) for n in (queries, cell.n_keys))
    scores, powers = np.empty((trials, queries, cell.n_keys), dtype), np.empty(_CACHED, dtype)
    is_single = dtype == np.float32
    draw: Task = partial(single_normals, rng, drawn.shape) if is_single else partial(rng.standard_normal, out=drawn)
    return {
        "floor: normals": (draw, cell.numbers / drawn.size),
        "floor: product": (
            lambda: np.matmul(q, k.swapaxes(-1, -2), out=scores),
            cell.n_queries / queries / trials,
        ),
        "floor: exponentials": (
            lambda: np.exp(exponents, out=powers),
            len(cell.scaling) * cell.scores / powers.size,
        ),
    }
