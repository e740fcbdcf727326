"""Draws of Q and K for all experiments: the cell, its scalings as columns, and the draw itself, in blocks.

The sizes of blocks and chunks determine the random numbers of each trial: a change here changes every table.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from experiments.harness.columns import Column, Meaning
from sdpa import LAWS, InputLaw, Scaling

Floats = npt.NDArray[np.floating]

# A block's scores take 512 KiB, which fits into the second-level cache of current cores; its inputs at most 8 MiB.
_BLOCK_SCORES = 2**16
_BLOCK_INPUTS = 2**20
# A matrix product reads all keys once for its queries. With fewer queries than this it waits for memory, so long rows
# are scored 128 at a time, up to 8 MiB.
_PRODUCT_QUERIES, _MAX_BLOCK_SCORES = 128, 2**20
# Numbers drawn in a chunk: a few tenths of a second of work, much less than a sweep, and much more than the overhead.
_CHUNK_NUMBERS = 2**24
_MAX_CHUNK_TRIALS = 1024  # unless a block has more
_MAX_CHUNK_ROWS = 2**17  # a worker keeps their norms until the chunk is complete

TREATMENT = (
    Column("scaling", "str", "scaling rule"),
    Column("exponent", "float", "p if the divisor is d_k^p; empty for any other rule", may_be_empty=True),
    Column("divisor", "float", "divisor of the scores"),
)

NAMED = (Scaling, InputLaw)  # types of the parameters that a config names

_Size = Annotated[int, Ge(1), Le(2**31)]


@dataclass(frozen=True)
class Cell:
    """One point of the grid, and the scalings applied to its draws."""

    d_k: Annotated[_Size, Meaning("width of queries and keys")]
    n_keys: Annotated[_Size, Ge(2), Meaning("keys per draw, the length of a softmax row")]
    scaling: tuple[Scaling, ...]
    n_queries: Annotated[_Size, Meaning("queries per draw, the number of rows that share one K")] = 64
    inputs: Annotated[InputLaw, Meaning("law of the entries of q and k: mean 0, variance 1 before input_std")] = LAWS[
        "gaussian"
    ]
    input_std: Annotated[float, Ge(1e-6), Le(1e6), Meaning("standard deviation of the entries of q and k")] = 1.0

    def divisors(self) -> list[float]:
        """The divisor of each scaling, in order."""
        return [scaling.divisor(self.d_k, self.n_keys) for scaling in self.scaling]

    @property
    def divisor(self) -> float:
        """The divisor of a cell with one scaling."""
        (divisor,) = self.divisors()
        return divisor

    def treatments(self) -> Iterator[dict[str, Any]]:
        """The fields of TREATMENT for each scaling, in order."""
        for scaling, divisor in zip(self.scaling, self.divisors(), strict=True):
            exponent = math.nan if scaling.exponent is None else float(scaling.exponent)
            yield {
                "scaling": scaling.name,
                "exponent": exponent,
                "divisor": divisor,
            }

    def stamp(self) -> dict[str, Any]:
        """The values behind the names of the law and of the scalings: sampler, moments and divisors."""
        rules = [[rule.name, str(rule.exponent), str(rule.power_of("d_k"))] for rule in self.scaling]
        return {"inputs": [self.inputs.sample, *self.inputs.moments], "rules": rules, "divisors": self.divisors()}

    @property
    def scores(self) -> int:
        """Scores of one draw."""
        return self.n_queries * self.n_keys

    @property
    def numbers(self) -> int:
        """Entries of Q and K of one draw, and a gradient for each score."""
        return (self.n_queries + self.n_keys) * self.d_k + self.scores


def sample_inputs(cell: Cell, trials: int, rng: np.random.Generator) -> tuple[Floats, Iterator[tuple[slice, Floats]]]:
    """Keys (trials, n_keys, d_k), and the queries in blocks (which rows, (trials, block, d_k)), drawn on demand."""
    keys = _inputs(cell, rng, trials, cell.n_keys)

    def queries() -> Iterator[tuple[slice, Floats]]:
        size = block_queries(cell)
        for first in range(0, cell.n_queries, size):
            rows = slice(first, min(first + size, cell.n_queries))
            yield rows, _inputs(cell, rng, trials, rows.stop - first)

    return keys, queries()


def _inputs(cell: Cell, rng: np.random.Generator, trials: int, rows: int) -> Floats:
    drawn = cell.inputs.sample(rng, (trials, rows, cell.d_k))
    drawn *= cell.input_std
    return drawn


def block_trials(cell: Cell) -> int:
    """Number of trials drawn and scored at once."""
    inputs = (cell.n_keys + cell.n_queries) * cell.d_k
    return max(1, min(_BLOCK_SCORES // cell.scores, _BLOCK_INPUTS // inputs))


def block_queries(cell: Cell) -> int:
    """Number of queries scored at once; less than all only if one trial makes a whole block."""
    long_rows = min(_PRODUCT_QUERIES, _MAX_BLOCK_SCORES // cell.n_keys)
    return min(cell.n_queries, max(1, _BLOCK_SCORES // cell.n_keys, long_rows))


def chunk_trials(cell: Cell) -> int:
    """Trials of a chunk: whole blocks, independent of the scalings and of the number of trials requested."""
    trials = min(_CHUNK_NUMBERS // cell.numbers, _MAX_CHUNK_ROWS // cell.n_queries, _MAX_CHUNK_TRIALS)
    return max(1, trials // block_trials(cell)) * block_trials(cell)
