"""Draws of Q and K for all experiments: the cell, its scalings as columns, and the draw itself, in blocks.

A trial is one draw of (Q, K). Three sizes divide the trials of a cell:

    chunk   trials with their own generator and their own record in the store (`chunk_trials`)
    block   trials drawn and scored at once, so that their scores stay in cache (`block_trials`)
    rows    queries of a block scored at once, fewer than all only in long rows (`block_queries`)

These sizes determine the random numbers of each trial: a change here changes every table. None of them depends on the
scalings, so that an additional scaling sees the same draws.
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
    """One point of the grid, and the scalings applied to its draws.

    Entries of q and k are input_std times independent entries of the law `inputs`, so that Var[q.k] = d_k input_std^4.

    Attributes:
        d_k: width of queries and keys.
        n_keys: keys per draw.
        scaling: treatments of the same draw, not an axis; their order is the order of the rows of a table.
        n_queries: queries per draw.
        inputs: law of the entries before input_std.
        input_std: standard deviation of the entries.

    >>> cell = Cell(d_k=64, n_keys=64, scaling=(Scaling.parse("unscaled"), Scaling.parse("d_k^1/2")))
    >>> cell.divisors(), cell.scores, cell.numbers
    ([1.0, 8.0], 4096, 12288)
    """

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
        """The divisor of a cell with one scaling; ValueError for any other number of scalings.

        The exact values of `sdpa.theory` hold for one divisor, so analysis makes such a cell for each row of a table.
        """
        (divisor,) = self.divisors()
        return divisor

    def treatments(self) -> Iterator[dict[str, Any]]:
        """The fields of TREATMENT for each scaling, in order; `exponent` is NaN unless the divisor is a power of d_k.

        >>> next(Cell(d_k=64, n_keys=4, scaling=(Scaling.parse("d_k^1/2"),)).treatments())
        {'scaling': 'd_k^1/2', 'exponent': 0.5, 'divisor': 8.0}
        """
        for scaling, divisor in zip(self.scaling, self.divisors(), strict=True):
            exponent = math.nan if scaling.exponent is None else float(scaling.exponent)
            yield {
                "scaling": scaling.name,
                "exponent": exponent,
                "divisor": divisor,
            }

    def stamp(self) -> dict[str, Any]:
        """The values behind the names of the law and of the scalings: sampler, moments and divisors.

        A stored result counts as up to date only if its stamp is unchanged. So an edit of one rule or law makes only
        the results that use it stale.
        """
        rules = [[rule.name, str(rule.exponent), str(rule.power_of("d_k"))] for rule in self.scaling]
        return {"inputs": [self.inputs.sample, *self.inputs.moments], "rules": rules, "divisors": self.divisors()}

    @property
    def scores(self) -> int:
        """Scores of one draw: n_queries n_keys."""
        return self.n_queries * self.n_keys

    @property
    def numbers(self) -> int:
        """Entries of Q and K of one draw, and a gradient for each score.

        A measurement draws the gradients only if a metric needs them.
        """
        return (self.n_queries + self.n_keys) * self.d_k + self.scores


def divisors_by_rule(cell: Cell) -> dict[str, float]:
    """The divisor of each scaling of a cell, by its name, in order."""
    return {scaling.name: divisor for scaling, divisor in zip(cell.scaling, cell.divisors(), strict=True)}


def sample_inputs(cell: Cell, trials: int, rng: np.random.Generator) -> tuple[Floats, Iterator[tuple[slice, Floats]]]:
    """Keys of all trials at once, and their queries in blocks, drawn on demand.

    Args:
        cell: determines sizes, law and input_std.
        trials: number of draws. The keys of all of them are in memory at once, so measurements pass at most
            `block_trials`.
        rng: draws the keys now, and each block of queries when the iterator reaches it. Numbers that a caller draws in
            between, such as gradients, come from the same stream.

    Returns:
        Keys (trials, n_keys, d_k); and pairs of a slice of the queries and their entries (trials, block, d_k).

    >>> cell = Cell(d_k=2, n_keys=3, n_queries=4, scaling=())
    >>> keys, blocks = sample_inputs(cell, 5, np.random.default_rng(0))
    >>> keys.shape, [(rows, queries.shape) for rows, queries in blocks]
    ((5, 3, 2), [(slice(0, 4, None), (5, 4, 2))])
    """
    keys = _inputs(cell, rng, trials, cell.n_keys)

    def queries() -> Iterator[tuple[slice, Floats]]:
        size = block_queries(cell)
        for first in range(0, cell.n_queries, size):
            rows = slice(first, min(first + size, cell.n_queries))
            yield rows, _inputs(cell, rng, trials, rows.stop - first)

    return keys, queries()


def _inputs(cell: Cell, rng: np.random.Generator, trials: int, rows: int) -> Floats:
    """Entries of that many rows of each trial, input_std times the law, (trials, rows, d_k)."""
    drawn = cell.inputs.sample(rng, (trials, rows, cell.d_k))
    drawn *= cell.input_std
    return drawn


def block_trials(cell: Cell) -> int:
    """Number of trials drawn and scored at once: at least one, else at most 2^16 scores and 2^20 entries of Q and K."""
    inputs = (cell.n_keys + cell.n_queries) * cell.d_k
    return max(1, min(_BLOCK_SCORES // cell.scores, _BLOCK_INPUTS // inputs))


def block_queries(cell: Cell) -> int:
    """Number of queries scored at once; less than all only if one trial makes a whole block.

    Args:
        cell: of its fields, only n_keys and n_queries count.

    Returns:
        At most n_queries. A matrix product with fewer than 128 queries waits for memory, so a block has at least that
        many rows as long as its scores take at most 8 MiB, beyond the 512 KiB of other blocks.

    >>> [block_queries(Cell(d_k=64, n_keys=n_keys, n_queries=300, scaling=())) for n_keys in (64, 4096, 65536)]
    [300, 128, 16]
    """
    long_rows = min(_PRODUCT_QUERIES, _MAX_BLOCK_SCORES // cell.n_keys)
    return min(cell.n_queries, max(1, _BLOCK_SCORES // cell.n_keys, long_rows))


def chunk_trials(cell: Cell) -> int:
    """Trials of a chunk: whole blocks, independent of the scalings and of the number of trials requested.

    More trials therefore add chunks and leave existing ones unchanged. A chunk draws at most 2^24 numbers and has at
    most 2^17 rows and 1024 trials, unless a single block has more.

    >>> [chunk_trials(Cell(d_k=d_k, n_keys=64, scaling=())) for d_k in (64, 512)]
    [1024, 240]
    """
    trials = min(_CHUNK_NUMBERS // cell.numbers, _MAX_CHUNK_ROWS // cell.n_queries, _MAX_CHUNK_TRIALS)
    return max(1, trials // block_trials(cell)) * block_trials(cell)
