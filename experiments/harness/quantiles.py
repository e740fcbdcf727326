"""Medians of positive values over many trials, with errors that know that rows of a trial hang together.

Values are counted in logarithmic bins, 32 to the octave, zero in a bin of its own. Besides the plain count c, each
bin sums 2 k - 1 over its values, k being the rank within the trial. Summed over the bins up to an edge that gives
sum_t c_t^2, because 1 + 3 + ... + (2 c - 1) = c^2: the second moment between trials of the share of rows below the
edge, without a histogram per trial. From it the error of the share at the median, and from that, read back through
the histogram, the error of the median (Woodruff 1952, JASA 47:635).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating]

BINS_PER_OCTAVE = 32
_OFFSET = 1100 * BINS_PER_OCTAVE  # the least double is 2^-1074: bin 0 is left for zero
N_BINS = 2 * _OFFSET + BINS_PER_OCTAVE


@dataclass(frozen=True)
class LogHistogram:
    """Counts of several series of values; only the bins that hold a value are kept, in order of `keys`."""

    trials: int
    rows: int  # per trial
    keys: Integers  # series * N_BINS + bin
    counts: Integers
    rank_sums: Integers

    @classmethod
    def of(cls, values: Floats) -> Self:
        """From values of shape (series, trials, rows), none negative."""
        n_series, trials, rows = values.shape
        with np.errstate(divide="ignore"):
            octaves = np.log2(np.sort(values, axis=-1))
        bins = np.where(np.isneginf(octaves), 0, np.floor(octaves * BINS_PER_OCTAVE) + _OFFSET).astype(np.int64)
        keys = bins + N_BINS * np.arange(n_series)[:, None, None]
        ranks = np.broadcast_to(2.0 * np.arange(rows) + 1, keys.shape)
        counts = np.bincount(keys.ravel())
        rank_sums = np.bincount(keys.ravel(), weights=ranks.ravel())  # whole numbers below 2^53: exact
        held = counts.nonzero()[0]
        return cls(trials, rows, held, counts[held], rank_sums[held].astype(np.int64))

    def merge(self, later: Self) -> Self:
        """Both together; series keep their places."""
        keys, place = np.unique(np.concatenate([self.keys, later.keys]), return_inverse=True)
        sums = np.zeros((2, len(keys)), dtype=np.int64)
        np.add.at(sums[0], place, np.concatenate([self.counts, later.counts]))
        np.add.at(sums[1], place, np.concatenate([self.rank_sums, later.rank_sums]))
        return type(self)(self.trials + later.trials, self.rows, keys, sums[0], sums[1])

    def median(self, series: int) -> tuple[float, float]:
        """The median of a series, over the rows of all trials, and its standard error."""
        mine = slice(*np.searchsorted(self.keys, [series * N_BINS, (series + 1) * N_BINS]))
        bins = self.keys[mine] - series * N_BINS
        total = self.trials * self.rows
        share = np.concatenate([[0.0], self.counts[mine].cumsum() / total])
        second_moment = np.concatenate([[0.0], self.rank_sums[mine].cumsum() / (total * self.rows)])
        variance = (second_moment - share**2) * self.trials / (self.trials - 1)

        def quantile(p: float) -> float:
            place = min(int(np.searchsorted(share[1:], p)), len(bins) - 1)
            if bins[place] == 0:
                return 0.0
            within = (p - share[place]) / (share[place + 1] - share[place])
            return float(2.0 ** ((bins[place] + within - _OFFSET) / BINS_PER_OCTAVE))

        share_error = np.sqrt(np.interp(0.5, share, variance) / self.trials)
        low, high = quantile(max(0.5 - share_error, 0.0)), quantile(min(0.5 + share_error, 1.0))
        return quantile(0.5), (high - low) / 2
