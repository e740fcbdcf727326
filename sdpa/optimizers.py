"""Adam, and gradient descent with momentum: they change arrays in place.

With g the gradient to W at step t from 1, and lr the learning rate of W at that step:

    momentum  v <- 0.9 v + g,   W <- W - lr v
    adam      m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   W <- W - lr m' / (sqrt(v') + eps)
              with m' = m / (1 - b1^t), v' = v / (1 - b2^t), b1 = 0.9, b2 = 0.999, eps = 1e-8

Sources: Polyak 1964; Kingma and Ba 2015, algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from sdpa._arrays import FloatArray

OptimizerName = Literal["adam", "momentum"]
_MOMENTUM = 0.9
_B1, _B2, _EPS = 0.9, 0.999, 1e-8


class Momentum:
    """Gradient descent with momentum."""

    def __init__(self, arrays: Sequence[FloatArray]) -> None:
        self._arrays = arrays
        self._velocities = [np.zeros_like(array) for array in arrays]

    def step(self, gradients: Sequence[FloatArray], rates: Sequence[float]) -> None:
        """Change each array along its gradient, with a learning rate of its own."""
        for array, velocity, gradient, rate in zip(
            self._arrays, self._velocities, gradients, rates, strict=True
        ):
            velocity *= _MOMENTUM
            velocity += gradient
            array -= rate * velocity


class Adam:
    """Adam, as in the module."""

    def __init__(self, arrays: Sequence[FloatArray]) -> None:
        self._arrays = arrays
        self._means = [np.zeros_like(array) for array in arrays]
        self._squares = [np.zeros_like(array) for array in arrays]
        self._t = 0

    def step(self, gradients: Sequence[FloatArray], rates: Sequence[float]) -> None:
        """Change each array along its gradient, with a learning rate of its own."""
        self._t += 1
        of_mean = 1 - _B1**self._t
        of_root = math.sqrt(1 - _B2**self._t)
        for array, mean, square, gradient, rate in zip(
            self._arrays, self._means, self._squares, gradients, rates, strict=True
        ):
            mean *= _B1
            mean += (1 - _B1) * gradient
            square *= _B2
            square += (1 - _B2) * gradient * gradient
            root = np.sqrt(square)
            root /= of_root
            root += _EPS
            array -= (rate / of_mean) * mean / root


OPTIMIZERS: Mapping[OptimizerName, type[Adam | Momentum]] = {"adam": Adam, "momentum": Momentum}
