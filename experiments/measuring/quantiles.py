"""Quantiles of values over many trials, in bounded memory; intervals account for within-trial
correlation of rows.

Bins hold non-negative values by their leading bits. The bit pattern of a double, read as an
integer, grows with the double, so that a pattern without its last bits is a bin, and bins are
nearly logarithmic. The code drops as few last bits as possible while at most MAX_BINS bins hold a
value. So bins are fine where values crowd, and as fine as doubles, except for the few bits that
ranks take, where there are few values. Bins nest: merging chunks gives the bins of all values, in
any order.

Besides the plain count c, each bin sums 2 k - 1 over its values, where k is the rank within the
trial. The sum over the bins up to an edge is sum_t c_t^2, because 1 + 3 + ... + (2 c - 1) = c^2:
the second moment between trials of the share of rows below the edge, without a histogram per trial.
This gives the error of the share at a quantile. The interval of the share, read back through the
histogram, gives the interval of the quantile (Woodruff 1952, JASA 47:635).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from experiments.measuring.intervals import share_interval
from sdpa._arrays import FloatArray

Integers = npt.NDArray[np.int64]

MAX_BINS = 4096
_COARSE = 0.02
# The exponent bits of a double precede its mantissa; a number of one bit, 1.0, has this exponent
# plus one.
_MANTISSA_BITS, _EXPONENT_BIAS = 52, 1022


@dataclass(frozen=True)
class Bins:
    """The non-empty bins of one series, in order: patterns without their last `dropped` bits."""

    dropped: int  # more of them make wider bins
    keys: Integers  # the bit patterns of the bins, shifted right by `dropped`, increasing, (bins,)
    counts: Integers  # values in each bin, (bins,)
    # sum of 2 k - 1 over the values of each bin, k from 1 the rank within the trial, (bins,)
    rank_sums: Integers

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """From the values of whole trials, (trials, rows), none negative.

        A value loses as many last bits as the ranks within a trial need, or more: 6 of its 52
        mantissa bits for 64 rows.
        """
        rows = values.shape[1]
        # The rank replaces a value's last bits, so that one sort keeps both together.
        rank_bits = (rows - 1).bit_length()
        patterns = np.sort(values, axis=-1).view(np.int64)
        marked = ((patterns >> rank_bits << rank_bits) | np.arange(rows)).reshape(-1)
        marked.sort()
        ranks = marked & ((1 << rank_bits) - 1)
        return cls._grouped(rank_bits, marked >> rank_bits, np.ones_like(ranks), 2 * ranks + 1)

    @classmethod
    def _grouped(cls, dropped: int, keys: Integers, counts: Integers, rank_sums: Integers) -> Self:
        """From sorted keys that lack `dropped` bits: sum equal bins, and drop more bits while there
        are too many.

        Each pair of neighbours tells by how many more bits they share a bin. With four keys,

            keys        1000   1001   1100   1111
            xor             0001   0101   0011
            bits that differ   1      3      2

        one more dropped bit leaves 4 - 1 = 3 bins, two leave 4 - 2 = 2, and three leave 1. So the
        keys need one pass, whatever the number of bits. A bin begins where the neighbours differ in
        more bits than are dropped; counts and sums of ranks are added from one beginning to the
        next, in whole numbers and so exactly.
        """
        # differing[i]: the number of bits from the last one up to the first in which keys i and
        # i + 1 differ; keys are sorted, so that no later key falls back into an earlier bin.
        differing = _bit_length(keys[1:] ^ keys[:-1])
        # Two neighbours share a bin once all bits in which they differ are dropped: bins_left[m] is
        # the number of bins after m more dropped bits, and m the least that leaves few enough.
        bins_left = len(keys) - np.bincount(differing, minlength=64).cumsum()
        more = int(np.argmax(bins_left <= MAX_BINS))
        first = np.concatenate([[0], np.flatnonzero(differing > more) + 1])
        sums = (np.add.reduceat(values, first) for values in (counts, rank_sums))
        return cls(dropped + more, keys[first] >> more, *sums)

    def merge(self, following: Self) -> Self:
        """The bins of both, as wide as the wider ones; wider still if they would otherwise exceed
        MAX_BINS.
        """
        dropped = max(self.dropped, following.dropped)
        both = self, following
        keys = np.concatenate([bins.keys >> (dropped - bins.dropped) for bins in both])
        counts = np.concatenate([bins.counts for bins in both])
        rank_sums = np.concatenate([bins.rank_sums for bins in both])
        # The order of equal keys does not matter: they share a bin, and sums of integers are exact.
        order = np.argsort(keys)
        return self._grouped(dropped, keys[order], counts[order], rank_sums[order])

    def quantile(self, rank: float, end: int = 0) -> float:
        """The value below which `rank` values lie: linear within a bin, halfway across a gap
        between bins.

        The positions of the values within a bin are unknown. A bin with more than _COARSE of all
        values may hold a peak of their density, for example near a limit; as the lower (end -1) or
        upper (+1) end of an interval it gives its edge.
        """
        below = np.concatenate([[0], self.counts.cumsum()])
        ends = [
            min(int(np.searchsorted(below[1:], rank, side)), len(self.keys) - 1)
            for side in ("left", "right")
        ]
        values = []
        for place in ends:
            if self.keys[place] == 0:
                # norms that underflowed; the bin spans 0 to the smallest doubles
                values.append(0.0)
                continue
            within = min((rank - below[place]) / self.counts[place], 1.0)
            if end and self.counts[place] > _COARSE * below[-1]:
                within = (end + 1) / 2
            edges = np.array([self.keys[place], self.keys[place] + 1]) << self.dropped
            low, high = edges.view(np.float64)
            values.append(low + within * (high - low))
        return float(values[0] / 2 + values[1] / 2)


@dataclass(frozen=True)
class Quantile:
    """A quantile of values, with its 95% interval."""

    value: float
    low: float
    high: float
    # False if no value lies below the interval or above it; the table then flags it in `few_draws`
    inside: bool


@dataclass(frozen=True)
class Histograms:
    """Bins of several series of values, of the same trials with the same number of rows each.

    >>> histograms = Histograms.of(np.arange(100.0).reshape(1, 50, 2))  # one series, 50 trials of 2 rows
    >>> median = histograms.quantile(0, 0.5)
    >>> round(median.value, 6), median.inside
    (49.5, True)
    """

    trials: int
    rows: int
    series: tuple[Bins, ...]

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """From values of shape (series, trials, rows), none negative."""
        _, trials, rows = values.shape
        return cls(trials, rows, tuple(map(Bins.of, values)))

    def merge(self, following: Self) -> Self:
        """Both chunks together."""
        series = tuple(
            first.merge(second) for first, second in zip(self.series, following.series, strict=True)
        )
        return type(self)(self.trials + following.trials, self.rows, series)

    def quantile(self, series: int, share: float) -> Quantile:
        """The value below which that share of a series lies, over the rows of all trials, with its
        95% interval.

        The interval of the share below the value (`share_interval`) is read back through the
        histogram. The standard error of that share is sqrt(Var / trials), with c_t of the `rows`
        values of trial t below the value and

            Var = (mean of (c_t / rows)^2 - (mean of c_t / rows)^2) trials / (trials - 1)
        """
        bins, total = self.series[series], self.trials * self.rows
        below = np.concatenate([[0.0], bins.counts.cumsum() / total])
        squares = bins.rank_sums.cumsum() / (total * self.rows)
        second_moment = np.concatenate([[0.0], squares])
        # If all trials have the same count the difference is 0; rounding may make it negative.
        spread = np.maximum(second_moment - below**2, 0.0)
        variance = spread * self.trials / (self.trials - 1)
        error = float(np.sqrt(np.interp(share, below, variance) / self.trials))
        low, high = share_interval(share, error, self.trials, self.rows)
        inside = total * low >= 1 and total * high <= total - 1
        ends = bins.quantile(total * low, -1), bins.quantile(total * high, +1)
        return Quantile(bins.quantile(total * share), *ends, inside)


def _bit_length(numbers: Integers) -> Integers:
    """The number of bits of each number (0 for 0): the exponent of the number as a double."""
    # Clearing every bit below a set one keeps the highest, so that no number rounds up to the next
    # power of two.
    doubles = (numbers & ~(numbers >> 1)).astype(np.float64)
    exponents = doubles.view(np.int64) >> _MANTISSA_BITS
    return np.asarray(np.maximum(exponents - _EXPONENT_BIAS, 0))
