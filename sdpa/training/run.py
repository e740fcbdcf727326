"""A run of training: initial weights, then steps of an optimizer, for several divisors side by side.

    sgd     W <- W - lr g
    adam    m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  W <- W - lr m' / (sqrt(v') + eps)
            with m' = m / (1 - b1^t), v' = v / (1 - b2^t) at step t from 1, b1 = 0.9, b2 = 0.999, eps = 1e-8

Source: Kingma and Ba (2015), algorithm 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sdpa._arrays import BoolArray, FloatArray
from sdpa.training.layer import Batch, Step, Weights, loss_and_gradients
from sdpa.training.tasks import D_MODEL, N_CLASSES, N_KEY_FEATURES, Task, draw_batch

Initial = Literal["unit", "small"]
OptimizerName = Literal["adam", "sgd"]
_B1, _B2, _EPS = 0.9, 0.999, 1e-8
_SMALL = 0.02
_D_V = 32
# A weight beyond it ends a run. Below it no step overflows: a squared gradient has about ten factors of this size.
_LARGEST_WEIGHT = 1e25


# A step of an optimizer: it changes the arrays in place along their gradients, which it overwrites.
Descend = Callable[[Sequence[FloatArray]], None]


def sgd(arrays: Sequence[FloatArray], learning_rate: float) -> Descend:
    """W <- W - lr g."""

    def step(gradients: Sequence[FloatArray]) -> None:
        for array, gradient in zip(arrays, gradients, strict=True):
            array -= np.multiply(gradient, learning_rate, out=gradient)

    return step


def adam(arrays: Sequence[FloatArray], learning_rate: float) -> Descend:
    """W <- W - lr m' / (sqrt(v') + eps), as in the module.

    The sums M = m / (1 - b1) and V = v / (1 - b2) take fewer passes than m and v. With s^2 = (1 - b2^t) / (1 - b2),
    sqrt(v') = sqrt(V) / s, so that the change is lr s (1 - b1) / (1 - b1^t) M / (sqrt(V) + eps s).
    """
    sums = [(np.zeros_like(array), np.zeros_like(array)) for array in arrays]
    steps = itertools.count(1)

    def step(gradients: Sequence[FloatArray]) -> None:
        t = next(steps)
        scale = math.sqrt((1 - _B2**t) / (1 - _B2))
        rate = learning_rate * scale * (1 - _B1) / (1 - _B1**t)
        for array, gradient, (first, second) in zip(arrays, gradients, sums, strict=True):
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

    return step


OPTIMIZERS: Mapping[OptimizerName, Callable[[Sequence[FloatArray], float], Descend]] = {"adam": adam, "sgd": sgd}


def initial_weights(rng: np.random.Generator, d_k: int, initial: Initial) -> Weights:
    """Random normal weights of mean 0: W_Q, W_K, W_V (width 32) and W_O, drawn in this order.

    `unit` gives the entries of q and k the variance 1: W_Q has the variance 1/16, as 16 features of a query token are
    not 0 and have the mean square 1, and W_K has 1/24. `small` gives W_Q and W_K the standard deviation 0.02.
    W_V and W_O have the variance 1/d_in in both.
    """
    query, key = (1 / math.sqrt(N_KEY_FEATURES), 1 / math.sqrt(D_MODEL)) if initial == "unit" else (_SMALL, _SMALL)
    return Weights(
        W_Q=query * rng.standard_normal((D_MODEL, d_k)),
        W_K=key * rng.standard_normal((D_MODEL, d_k)),
        W_V=rng.standard_normal((D_MODEL, _D_V)) / math.sqrt(D_MODEL),
        W_O=rng.standard_normal((_D_V, N_CLASSES)) / math.sqrt(_D_V),
    )


@dataclass(frozen=True)
class Run:
    """The state of a run before one of its steps.

    Attributes:
        step: number of steps taken.
        weights: of one layer for each divisor, (n_divisors, ...); the next step changes them in place, and overwrites
            the gradients in `at`.
        batch: of the next step.
        at: loss, gradients and attention of the layers on that batch.
        has_ended: True for each divisor whose run ended, because a weight exceeded 1e25; its weights are then 0.
    """

    step: int
    weights: Weights
    batch: Batch
    at: Step
    has_ended: BoolArray


def train(
    rng: np.random.Generator,
    task: Task,
    d_k: int,
    n_keys: int,
    divisors: Sequence[float],
    *,
    optimizer: OptimizerName,
    learning_rate: float,
    steps: int,
    n_sequences: int = 64,
    initial: Initial = "unit",
) -> Iterator[Run]:
    """Train one layer for each divisor, from the same initial weights and with the same batches.

    rng draws the initial weights, then a batch for each step.

    Yields:
        The state before each step, and after the last one with a batch of its own: steps + 1 times.
    """
    one = initial_weights(rng, d_k, initial)
    weights = Weights(*(np.repeat(array[None], len(divisors), axis=0) for array in one))
    descend = OPTIMIZERS[optimizer](weights, learning_rate)
    has_ended = np.zeros(len(divisors), bool)
    for step in range(steps + 1):
        batch = draw_batch(rng, task, n_sequences, n_keys)
        at = loss_and_gradients(weights, batch, divisors)
        yield Run(step, weights, batch, at, has_ended)
        if step < steps:
            descend(at.gradients)
            has_ended = has_ended | _is_too_large(weights)
            for array in weights:
                array[has_ended] = 0.0


def _is_too_large(weights: Weights) -> BoolArray:
    """True for each layer with a weight beyond 1e25, or with a NaN."""
    sizes = [np.abs(array).max(axis=(-2, -1)) for array in weights]
    return np.asarray(~(np.max(sizes, axis=0) <= _LARGEST_WEIGHT))
