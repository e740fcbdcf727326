"""The cells that are timed."""

from experiments.draws import Cell
from sdpa import Scaling

SCALINGS = tuple(map(Scaling.parse, ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3")))
# d_k, n_keys, n_queries: square cells small and large, many keys, wide keys, and rows so short that calls cost most.
CELLS = ((64, 64, 64), (512, 512, 512), (16, 4096, 64), (512, 64, 64), (64, 512, 64), (4, 16, 16))
LARGEST = (4096, 16384, 64)
# What is swept to see how time and memory grow, with the others at their usual.
GROWTH = {
    "d_k": (128, 256, 512, 1024, 2048, 4096),
    "n_keys": (128, 512, 1024, 4096, 8192, 16384),
    "trials": (256, 512, 1024, 2048, 4096),
}
USUAL = {"d_k": 64, "n_keys": 64, "trials": 16}


def cell_of(d_k: int, n_keys: int, n_queries: int) -> Cell:
    """The cell of a size, under the four scalings of the common story."""
    return Cell(d_k=d_k, n_keys=n_keys, n_queries=n_queries, scaling=SCALINGS)
