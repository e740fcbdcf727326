"""Cells of attention rows: the joint law of Q and K, and the draw itself, in batches.

A trial is one draw of (Q, K). Three sizes divide the trials of a cell:

    chunk   trials with their own generator and their own record in the store (`chunk_trials`)
    batch   trials drawn and scored at once, so that their scores stay in cache (`batch_trials`)
    rows    queries of a batch scored at once, fewer than all only in long rows (`batch_queries`)

These sizes determine the random numbers of each trial: a change here changes every table. None of
them depends on the scalings, so that an additional scaling sees the same draws.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le

from experiments.measuring.cells import ScaledCell
from experiments.measuring.columns import Meaning
from experiments.measuring.quantiles import MAX_BINS
from sdpa._arrays import BoolArray, FloatArray
from sdpa.inputs import LAWS, InputLaw
from sdpa.masks import MEANINGS, NoneOrCausal, reach_of
from sdpa.pairs import Normalize, PairLaw, spectrum_of
from sdpa.row_tiles import tile_rows
from sdpa.scaling import Scaling

# A batch's scores take 512 KiB, which fits into the second-level cache of current cores; its inputs
# at most 8 MiB.
_BATCH_BYTES, _BATCH_INPUT_BYTES = 2**19, 2**23
# A matrix product reads all keys once for its queries and waits for memory if these are few, and
# the kernel computes the distances of all keys once for them. So long rows are scored up to 512 at
# a time, up to 8 MiB.
_PRODUCT_QUERIES, _MAX_BATCH_BYTES = 512, 2**23
# Bytes of entries and scores: a few tenths of a second of work, much less than a sweep, much more
# than the overhead.
_CHUNK_BYTES = 2**27
_MAX_CHUNK_TRIALS = 1024  # unless a batch has more
_MAX_CHUNK_ROWS = 2**17  # a worker keeps their norms until the chunk is complete

_BYTES = 8  # of a number
_FEWEST_DIRECTIONS = 1.5  # of queries whose rows differ in more than their spread

_Size = Annotated[int, Ge(1), Le(2**31)]
_Mean = Annotated[float, Ge(-1e6), Le(1e6)]
_Std = Annotated[float, Ge(1e-6), Le(1e6)]
_Correlation = Annotated[float, Ge(-1), Le(1)]
_Inputs = Annotated[
    InputLaw, Meaning("law of the entries of q and k, scaled to their means and deviations")
]


class MaskName(str):
    """A name of `sdpa.masks`."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """The mask of that name; ValueError if there is none."""
        try:
            reach_of(text)
        except ValueError as error:
            raise ValueError(str(error).removeprefix("mask: ")) from None
        return cls(text)


AnyMask = Annotated[MaskName, Meaning(MEANINGS)]
SoftCap = Annotated[
    float, Ge(0), Le(1e6), Meaning("c of the soft cap c tanh(s / c) of scaled scores; 0: none")
]


class AttentionCell(ScaledCell):
    """The part of all cells whose draws give queries and keys: their sizes and, in each class,
    `draw`.
    """

    n_queries: int  # queries per draw
    mask: str = "none"  # by name, as in `sdpa.masks`
    score_arrays = 6  # numbers in memory at once for each score of a batch, at most

    def draw(
        self, trials: int, rng: np.random.Generator
    ) -> tuple[FloatArray, Callable[[slice], FloatArray]]:
        """Keys of all trials at once, and their queries on demand.

        Returns:
            Keys (trials, n_keys, d_k), and a function that draws the queries of each of
            `query_batches` in turn, (trials, batch, d_k).
        """
        raise NotImplementedError

    @property
    def directions(self) -> float:
        """Number of directions that the queries of a draw take, such as d_k for independent
        entries; 1, the cautious value, unless a class knows more.
        """
        return 1.0

    @property
    def separate_rows(self) -> int:
        """Rows of a draw that count as independent: 1 if all queries are parallel, because they
        rank keys alike; at most n_queries, and at most n_keys - 1, because a softmax sees only
        differences of keys.
        """
        if self.directions < _FEWEST_DIRECTIONS:
            return 1
        return min(self.n_queries, max(self.n_keys - 1, 1))

    @property
    def seconds_per_trial(self) -> float:
        """As `BaseCell.seconds_per_trial`: of a draw under all rules."""
        per_score = 0.032 * min(2 * self.d_k, self.n_keys) + 0.48 * self.score_arrays
        rows = (1 + len(self.scaling)) * self.n_queries
        per_draw = 8 * (self.numbers + self.n_queries * self.n_keys)
        return 1e-9 * (per_draw + rows * (100 + per_score * self.n_keys))

    @property
    def memory(self) -> int:
        """As `BaseCell.memory`: a batch, the kernel's tiles, and the values of all rows and draws."""
        trials, rules, chunk = self.batch_trials, len(self.scaling), self.chunk_trials
        rows = trials * self.batch_queries
        tile = min(tile_rows(self.n_keys, with_gradient=True), rows)
        batch = 5 * trials * self.entries + self.score_arrays * rows * self.n_keys
        kernel = 9 * tile * max(self.n_keys, self.d_k) + 20 * self.n_keys
        values = (
            rules * (13 * rows + 50 * chunk + 2 * MAX_BINS)
            + (6 * rules + 12) * chunk * self.n_queries
        )
        return _BYTES * (batch + kernel + values)

    @property
    def row_lengths(self) -> npt.NDArray[np.intp]:
        """Numbers of keys that the queries of a draw see, (n_queries,)."""
        return reach_of(self.mask).lengths(self.n_queries, self.n_keys)

    @property
    def has_mask(self) -> bool:
        """True if some query may not see all keys."""
        return self.mask != "none"

    def visible(self, query_slice: slice) -> BoolArray | None:
        """True where one of these queries of a draw sees a key, (queries, n_keys); None if all see
        all keys.

        >>> SampledCell(d_k=2, n_keys=3, n_queries=2, mask="causal", scaling=()).visible(slice(0, 2))
        array([[ True,  True, False],
               [ True,  True,  True]])
        """
        if not self.has_mask:
            return None
        own = np.arange(self.n_keys - self.n_queries, self.n_keys)[query_slice]
        return reach_of(self.mask).sees(own[:, None], np.arange(self.n_keys))

    def own_keys(self, query_slice: slice) -> npt.NDArray[np.intp]:
        """The key at the position of each of these queries, the last of the sequence, modulo
        n_keys; (queries,).
        """
        return (np.arange(self.n_queries)[query_slice] - self.n_queries) % self.n_keys

    @property
    def score_centre(self) -> float:
        """A number near the mean of the scores q.k, from which their powers are taken."""
        return 0.0

    @property
    def numbers(self) -> int:
        """Random numbers of one draw."""
        return (self.n_queries + self.n_keys) * self.d_k

    @property
    def entries(self) -> int:
        """Numbers of one draw in memory before its scores: the drawn ones, and Q and K."""
        return self.numbers

    @property
    def mean_length(self) -> float:
        """Mean number of keys that a query sees: n_keys without a mask."""
        return self.n_scores / self.n_queries

    @property
    def n_scores(self) -> int:
        """Scores of one draw that its queries see."""
        return int(self.row_lengths.sum()) if self.has_mask else self.n_queries * self.n_keys

    @property
    def batch_trials(self) -> int:
        """Trials drawn and scored at once: at least one, else at most 512 KiB of scores and 8 MiB
        of `entries`.

        >>> [SampledCell(d_k=64, n_keys=64, scaling=(), n_queries=n_queries).batch_trials for n_queries in (16, 64)]
        [64, 16]
        """
        scores, entries = (_BYTES * size for size in (self.n_queries * self.n_keys, self.entries))
        return max(1, min(_BATCH_BYTES // scores, _BATCH_INPUT_BYTES // entries))

    @property
    def batch_queries(self) -> int:
        """Queries scored at once; less than all only if one trial makes a whole batch.

        They share the work on the keys, so these are up to 512 rows as long as their scores take at
        most 8 MiB.

        >>> lengths = (64, 4096, 65536)
        >>> [SampledCell(d_k=64, n_keys=n_keys, n_queries=300, scaling=()).batch_queries for n_keys in lengths]
        [300, 256, 16]
        """
        row = _BYTES * self.n_keys
        long_rows = min(_PRODUCT_QUERIES, _MAX_BATCH_BYTES // row)
        return min(self.n_queries, max(1, _BATCH_BYTES // row, long_rows))

    def query_batches(self) -> Iterator[slice]:
        """The queries of a draw, `batch_queries` at a time."""
        size = self.batch_queries
        return (
            slice(first, min(first + size, self.n_queries))
            for first in range(0, self.n_queries, size)
        )

    @property
    def chunk_trials(self) -> int:
        """Trials of a chunk: whole batches, so that more trials add chunks and leave existing ones
        unchanged.

        A chunk has at most 128 MiB of entries and scores, 2^17 rows and 1024 trials, unless a
        single batch has more.

        >>> [SampledCell(d_k=d_k, n_keys=64, scaling=()).chunk_trials for d_k in (64, 512)]
        [1024, 240]
        """
        trial = _BYTES * (self.entries + self.n_queries * self.n_keys)
        trials = min(_CHUNK_BYTES // trial, _MAX_CHUNK_ROWS // self.n_queries, _MAX_CHUNK_TRIALS)
        return max(1, trials // self.batch_trials) * self.batch_trials


@dataclass(frozen=True)
class SampledCell(AttentionCell):
    """One point of the grid, and the scalings applied to its draws, in the order of the rows of a
    table.

    Every axis has its `Meaning`; those of the joint law are as in `sdpa.PairLaw`.

    >>> cell = SampledCell(d_k=64, n_keys=64, scaling=(Scaling.parse("unscaled"), Scaling.parse("d_k^1/2")))
    >>> cell.divisors(), cell.n_scores, cell.numbers
    ([1.0, 8.0], 4096, 8192)
    """

    d_k: Annotated[_Size, Meaning("width of queries and keys")]
    n_keys: Annotated[_Size, Ge(2), Meaning("keys per draw, the length of a softmax row")]
    scaling: tuple[Scaling, ...]
    n_queries: Annotated[
        _Size, Meaning("queries per draw, the number of rows that share one K")
    ] = 64
    inputs: _Inputs = LAWS["gaussian"]
    query_mean: Annotated[_Mean, Meaning("mean of the entries of q")] = 0.0
    key_mean: Annotated[_Mean, Meaning("mean of the entries of k")] = 0.0
    query_std: Annotated[_Std, Meaning("standard deviation of the entries of q")] = 1.0
    key_std: Annotated[_Std, Meaning("standard deviation of the entries of k")] = 1.0
    correlation: Annotated[
        _Correlation, Meaning("correlation of a query and its own key, entry by entry")
    ] = 0.0
    spectrum: Annotated[
        float,
        Ge(0),
        Le(10),
        Meaning("alpha: the variance of entry m of q and of k is proportional to m^-alpha"),
    ] = 0.0
    normalize: Annotated[
        Normalize,
        Meaning("length of every query and key: none (as drawn), l2 (1) or rms (sqrt(d_k))"),
    ] = "none"
    mask: Annotated[
        NoneOrCausal,
        Meaning(
            "none, or causal: queries are the last n_queries of n_keys positions and see no later "
            "key"
        ),
    ] = "none"

    @property
    def law(self) -> PairLaw:
        """The joint law of the queries and keys of a draw; ValueError if two fields exclude each
        other (`problem`).
        """
        return PairLaw(self.inputs, *(getattr(self, field.name) for field in fields(PairLaw)[1:]))

    def problem(self) -> str | None:
        """As `BaseCell.problem`: the law excludes a combination, or a query has no own key.

        >>> SampledCell(d_k=4, n_keys=3, n_queries=5, correlation=0.5, scaling=()).problem()
        'n_queries: got 5, expected at most n_keys = 3 beside a correlation (64 by default)'
        """
        try:
            law = self.law
        except ValueError as error:
            return str(error)
        for name, is_used in (("correlation", law.correlation != 0), ("mask", self.has_mask)):
            if is_used and self.n_queries > self.n_keys:
                return (
                    f"n_queries: got {self.n_queries}, expected at most n_keys = {self.n_keys} "
                    f"beside a {name} (64 by default)"
                )
        return None

    def draw(
        self, trials: int, rng: np.random.Generator
    ) -> tuple[FloatArray, Callable[[slice], FloatArray]]:
        """As `AttentionCell.draw`, from the joint law.

        >>> keys, queries = SampledCell(d_k=2, n_keys=3, n_queries=4, scaling=()).draw(5, np.random.default_rng(0))
        >>> keys.shape, queries(slice(0, 4)).shape
        ((5, 3, 2), (5, 4, 2))
        """
        law = self.law
        keys = law.keys(rng, (trials, self.n_keys, self.d_k))
        own_keys = keys[:, self.n_keys - self.n_queries :] if law.correlation else None

        def queries(query_slice: slice) -> FloatArray:
            shape = (trials, query_slice.stop - query_slice.start, self.d_k)
            return law.queries(rng, shape, None if own_keys is None else own_keys[:, query_slice])

        return keys, queries

    @property
    def score_centre(self) -> float:
        """As `AttentionCell.score_centre`: d_k query_mean key_mean unless vectors are
        normalized.
        """
        return self.d_k * self.query_mean * self.key_mean if self.normalize == "none" else 0.0

    @property
    def directions(self) -> float:
        """As `AttentionCell.directions`: (sum v)^2 / sum v^2 of a spectrum v."""
        if not self.spectrum:
            return float(self.d_k)
        v = spectrum_of(self.d_k, self.spectrum)
        return float(v.sum()) ** 2 / float(v @ v)
