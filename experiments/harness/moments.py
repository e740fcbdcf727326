"""Means of whole trials and the standard errors of functions of them.

Scores that share a query or a key are not independent; whole draws of (Q, K) are. So everything is averaged within
a trial first, and errors come from the spread between trials.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Trials, mean vector and comoment matrix sum_t (x_t - mean)(x_t - mean)^T of one vector x per trial."""

    trials: int
    mean: Floats
    comoment: Floats

    @classmethod
    def of(cls, samples: Floats) -> Self:
        """From samples of shape (len(x), trials)."""
        mean = samples.mean(axis=1)
        centred = samples - mean[:, None]
        # One dot product per pair: an entry is then the same number whatever other quantities x holds.
        return cls(samples.shape[1], mean, np.vecdot(centred[:, None], centred[None, :]))

    def merge(self, later: Self) -> Self:
        """Both together (Chan, Golub and LeVeque 1983, equation 2.1)."""
        trials = self.trials + later.trials
        shift = later.mean - self.mean
        return type(self)(
            trials,
            self.mean + shift * (later.trials / trials),
            self.comoment + later.comoment + np.outer(shift, shift) * (self.trials * later.trials / trials),
        )

    @property
    def covariance(self) -> Floats:
        """Unbiased estimate of Cov(x) between trials."""
        return self.comoment / (self.trials - 1)


def standard_error(gradient: Floats, covariance: Floats, trials: int) -> float:
    """sqrt(g^T Cov(x) g / trials): of a function of the mean of x whose gradient there is g (delta method)."""
    variance = float(gradient @ covariance @ gradient)
    return math.sqrt(max(variance, 0.0) / trials)
