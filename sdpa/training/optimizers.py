"""Optimizers of weights: plain stochastic gradient descent, and Adam.

    sgd     W <- W - lr g
    adam    m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  W <- W - lr m' / (sqrt(v') + eps)
            with m' = m / (1 - b1^t), v' = v / (1 - b2^t) at step t from 1, b1 = 0.9, b2 = 0.999, eps = 1e-8

Source: Kingma and Ba (2015), algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np

from sdpa._arrays import FloatArray

OptimizerName = Literal["adam", "sgd"]
_B1, _B2, _EPS = 0.9, 0.999, 1e-8


class Optimizer(Protocol):
    """An optimizer of some arrays, which it changes in place."""

    def step(self, gradients: Sequence[FloatArray]) -> None:
        """Change the arrays by one step along their gradients, which it overwrites."""


class SGD:
    """W <- W - lr g."""

    def __init__(self, arrays: Sequence[FloatArray], learning_rate: float) -> None:
        self._arrays, self._rate = arrays, learning_rate

    def step(self, gradients: Sequence[FloatArray]) -> None:
        """As in `Optimizer`."""
        for array, gradient in zip(self._arrays, gradients, strict=True):
            array -= np.multiply(gradient, self._rate, out=gradient)


class Adam:
    """W <- W - lr m' / (sqrt(v') + eps), as in the module.

    The sums M = m / (1 - b1) and V = v / (1 - b2) take fewer passes than m and v. With s^2 = (1 - b2^t) / (1 - b2),
    sqrt(v') = sqrt(V) / s, so that the change is lr s (1 - b1) / (1 - b1^t) M / (sqrt(V) + eps s).
    """

    def __init__(self, arrays: Sequence[FloatArray], learning_rate: float) -> None:
        self._arrays, self._rate, self._steps = arrays, learning_rate, 0
        self._sums = [(np.zeros_like(array), np.zeros_like(array)) for array in arrays]

    def step(self, gradients: Sequence[FloatArray]) -> None:
        """As in `Optimizer`."""
        self._steps += 1
        scale = math.sqrt((1 - _B2**self._steps) / (1 - _B2))
        rate = self._rate * scale * (1 - _B1) / (1 - _B1**self._steps)
        for array, gradient, (first, second) in zip(self._arrays, gradients, self._sums, strict=True):
            first *= _B1
            first += gradient
            gradient *= gradient
            second *= _B2
            second += gradient
            change = np.sqrt(second, out=gradient)
            change += _EPS * scale
            np.divide(first, change, out=change)
            change *= rate
            array -= change


OPTIMIZERS: Mapping[OptimizerName, Callable[[Sequence[FloatArray], float], Optimizer]] = {"adam": Adam, "sgd": SGD}
