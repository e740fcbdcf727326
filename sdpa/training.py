"""Training of one attention layer, in double precision and in NumPy alone: two tasks, gradients,
and the run.

A token has 16 features of its key, a random vector of length 4, and 8 of its class, sqrt(8) at the
class and 0 elsewhere; the mean square of both parts is 1. The query token holds a noisy copy of a
key and no class:

    recall   the key of one token; the target is the class of that token
    pair     the sum of the keys of two tokens over sqrt(2); the target is half of each of their classes, which differ

In `pair` the best row gives half of its weight to each of the two tokens, and the cross-entropy ln
2 = 0.69. A one-hot row shows one of the two classes; the other one is any of 7, and the
cross-entropy at least ln 2 + ln(7) / 2 = 1.67. Without attention it is ln 8 = 2.08 in both tasks.

A query token x_q attends to the tokens x_1 ... x_n of its sequence, and a readout classifies the
result:

    q = x_q W_Q,   u = q W_K^T,   scores s_j = u.x_j = q.k_j,   w = softmax(s / divisor)
    m = sum_j w_j x_j,   v = m W_V,   logits = v W_O,   L = -sum_c y_c log softmax(logits)_c, mean over the batch

The keys k_j = x_j W_K never exist as an array, because u.x_j equals q.k_j: a step at large d_k
costs little more than at small d_k. Several layers of one shape, such as one for each scaling rule,
form leading axes and train side by side; each takes the operations that it would take alone, in the
same order. The optimizers (Kingma and Ba 2015, algorithm 1):

    sgd     W <- W - lr g
    adam    m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  W <- W - lr m' / (sqrt(v') + eps)
            with m' = m / (1 - b1^t), v' = v / (1 - b2^t) at step t from 1, b1 = 0.9, b2 = 0.999,
            eps = 1e-8

W_Q and W_K may start smaller and have a smaller lr than the other weights. With the right two
divisors, this is the same as a divisor of the scores (docs/theory.md, "Training without the
scale").
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray
from sdpa.attention import softmax
from sdpa.gradients import softmax_vjp

Task = Literal["recall", "pair"]
TASKS: tuple[Task, ...] = get_args(Task)
N_ASKED = {"recall": 1, "pair": 2}  # tokens that a query asks for
N_KEY_FEATURES, N_CLASSES = 16, 8
D_MODEL = N_KEY_FEATURES + N_CLASSES
_NOISE = 0.1  # standard deviation of the noise of a query, relative to the copy

Initial = Literal["unit", "small"]
OptimizerName = Literal["adam", "sgd"]
_B1, _B2, _EPS = 0.9, 0.999, 1e-8
_SMALL = 0.02
_D_V = 32
# A weight beyond it ends a run. Below it no step overflows: a squared gradient has about ten
# factors of this size.
_LARGEST_WEIGHT = 1e25


class Weights(NamedTuple):
    """The weights of layers, or the gradients to them; leading axes are independent layers."""

    W_Q: FloatArray  # (..., d_model, d_k)
    W_K: FloatArray
    W_V: FloatArray  # (..., d_model, d_v)
    W_O: FloatArray  # the readout, (..., d_v, n_classes)


class Batch(NamedTuple):
    """Sequences of tokens, with a query and a target for each."""

    tokens: FloatArray  # (n_sequences, n_keys, d_model)
    queries: FloatArray  # (n_sequences, d_model)
    targets: FloatArray  # probabilities of the classes, (n_sequences, n_classes)
    # number of tokens that each query asks for; they come first, but no layer can see the order
    n_asked: int


@dataclass(frozen=True)
class Step:
    """The loss of layers on a batch, its gradients, and the attention behind it."""

    losses: FloatArray  # L of each sequence, (..., n_sequences)
    logits: FloatArray  # (..., n_sequences, n_classes)
    q: FloatArray  # (..., n_sequences, d_k)
    scores: FloatArray  # q.k over the divisor, (..., n_sequences, n_keys)
    weights: FloatArray  # their softmax, of the same shape
    score_gradients: FloatArray  # of the loss of each sequence to its scores q.k, of the same shape
    gradients: Weights  # of the mean loss of the batch


def loss_and_gradients(weights: Weights, batch: Batch, divisors: npt.ArrayLike) -> Step:
    """The mean cross-entropy of layers on one batch, and its gradient to all weights by the chain
    rule.

    divisors, (...), are those of the scores, one for each layer.
    """
    c = np.asarray(divisors, dtype=float)[..., None, None]
    tokens = batch.tokens
    q = batch.queries @ weights.W_Q
    u = q @ weights.W_K.swapaxes(-1, -2)
    scores = (tokens @ u[..., None])[..., 0] / c
    attention = softmax(scores)
    mean = (attention[..., None, :] @ tokens)[..., 0, :]
    values = mean @ weights.W_V
    logits = values @ weights.W_O
    probabilities = softmax(logits)
    losses = _cross_entropy(logits, batch.targets)
    to_logits = probabilities - batch.targets
    to_values = to_logits @ weights.W_O.swapaxes(-1, -2)
    to_mean = to_values @ weights.W_V.swapaxes(-1, -2)
    to_scores = softmax_vjp(attention, (tokens @ to_mean[..., None])[..., 0]) / c
    to_u = (to_scores[..., None, :] @ tokens)[..., 0, :]
    to_q = to_u @ weights.W_K
    size = len(tokens)
    gradients = Weights(
        W_Q=batch.queries.T @ to_q / size,
        W_K=to_u.swapaxes(-1, -2) @ q / size,
        W_V=mean.swapaxes(-1, -2) @ to_values / size,
        W_O=values.swapaxes(-1, -2) @ to_logits / size,
    )
    return Step(losses, logits, q, scores, attention, to_scores, gradients)


def _cross_entropy(logits: FloatArray, targets: FloatArray) -> FloatArray:
    """-sum_c y_c log softmax(logits)_c = log Z - sum_c y_c (logit_c - max) for targets of sum 1."""
    below = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(below).sum(axis=-1)) - (targets * below).sum(axis=-1))


def draw_batch(rng: np.random.Generator, task: Task, n_sequences: int, n_keys: int) -> Batch:
    """Independent sequences of n_keys tokens, at least 2; rng draws keys, classes and noise, in
    this order.
    """
    asked = N_ASKED[task]
    keys = rng.standard_normal((n_sequences, n_keys, N_KEY_FEATURES))
    keys *= math.sqrt(N_KEY_FEATURES) / np.sqrt(np.vecdot(keys, keys))[..., None]
    classes = rng.integers(0, N_CLASSES, (n_sequences, n_keys))
    if task == "pair":
        classes[:, 1] = (classes[:, 0] + rng.integers(1, N_CLASSES, n_sequences)) % N_CLASSES
    tokens = np.zeros((n_sequences, n_keys, D_MODEL))
    tokens[..., :N_KEY_FEATURES] = keys
    np.put_along_axis(
        tokens[..., N_KEY_FEATURES:], classes[..., None], math.sqrt(N_CLASSES), axis=-1
    )
    queries = np.zeros((n_sequences, D_MODEL))
    copies = keys[:, :asked].sum(axis=1) / math.sqrt(asked)
    noise = _NOISE * rng.standard_normal((n_sequences, N_KEY_FEATURES))
    queries[:, :N_KEY_FEATURES] = (copies + noise) / math.sqrt(1 + _NOISE**2)
    targets = np.zeros((n_sequences, N_CLASSES))
    np.put_along_axis(targets, classes[:, :asked], 1 / asked, axis=-1)
    return Batch(tokens, queries, targets, asked)


def accuracy(logits: FloatArray, targets: FloatArray) -> npt.NDArray[np.floating]:
    """Share of the sequences whose largest logits, as many as the target has classes, are the
    target's classes.

    logits are (..., n_sequences, n_classes), and targets (n_sequences, n_classes).

    >>> accuracy(np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), np.array([[0.5, 0.5, 0], [0.5, 0, 0.5]]))
    array(0.5)
    """
    wanted = targets > 0
    least_wanted = np.where(wanted, logits, np.inf).min(axis=-1)
    largest_other = np.where(wanted, -np.inf, logits).max(axis=-1)
    return np.asarray((least_wanted > largest_other).mean(axis=-1))


def loss_levels(task: Task) -> dict[str, float]:
    """The least expected cross-entropy in nats: with the best rows, with one-hot rows, and of a
    guess.

    If a query asks for a tokens, a one-hot row shows one of their classes, of probability 1/a.

    >>> {name: round(level, 2) for name, level in loss_levels("pair").items()}
    {'best row': 0.69, 'one-hot row': 1.67, 'guess': 2.08}
    """
    asked = N_ASKED[task]
    others = 1 - 1 / asked
    one_hot = math.log(asked) / asked + (
        others * math.log((N_CLASSES - 1) / others) if others else 0.0
    )
    return {"best row": math.log(asked), "one-hot row": one_hot, "guess": math.log(N_CLASSES)}


# A step of an optimizer: it changes the arrays in place along their gradients, which it overwrites.
Descend = Callable[[Sequence[FloatArray]], None]
Optimizer = Callable[
    [Sequence[FloatArray], Sequence[float]], Descend
]  # of arrays, with a learning rate for each


def sgd(arrays: Sequence[FloatArray], rates: Sequence[float]) -> Descend:
    """W <- W - lr g, with a learning rate for each array."""

    def step(gradients: Sequence[FloatArray]) -> None:
        for array, gradient, rate in zip(arrays, gradients, rates, strict=True):
            array -= np.multiply(gradient, rate, out=gradient)

    return step


def adam(arrays: Sequence[FloatArray], rates: Sequence[float]) -> Descend:
    """W <- W - lr m' / (sqrt(v') + eps), as in the module, with a learning rate for each array.

    The sums M = m / (1 - b1) and V = v / (1 - b2) take fewer passes than m and v. With s^2 = (1 -
    b2^t) / (1 - b2), sqrt(v') = sqrt(V) / s, so that the change is lr s (1 - b1) / (1 - b1^t) M /
    (sqrt(V) + eps s).
    """
    sums = [(np.zeros_like(array), np.zeros_like(array)) for array in arrays]
    steps = itertools.count(1)

    def step(gradients: Sequence[FloatArray]) -> None:
        t = next(steps)
        scale = math.sqrt((1 - _B2**t) / (1 - _B2))
        for array, gradient, rate, (first, second) in zip(
            arrays, gradients, rates, sums, strict=True
        ):
            first *= _B1
            first += gradient
            gradient *= gradient
            second *= _B2
            second += gradient
            change = np.sqrt(second, out=gradient)
            change += _EPS * scale
            np.divide(first, change, out=change)
            change *= rate * scale * (1 - _B1) / (1 - _B1**t)
            array -= change

    return step


OPTIMIZERS: Mapping[OptimizerName, Optimizer] = {"adam": adam, "sgd": sgd}


def initial_weights(rng: np.random.Generator, d_k: int, initial: Initial) -> Weights:
    """Random normal weights of mean 0: W_Q, W_K, W_V (width 32) and W_O, drawn in this order.

    `unit` gives W_Q the variance 1/16 (16 features of a query token have the mean square 1, the
    others are 0) and W_K 1/24, so that entries of q and k have 1; `small` gives both the deviation
    0.02. W_V and W_O have 1/d_in in both.
    """
    query, key = (
        (1 / math.sqrt(N_KEY_FEATURES), 1 / math.sqrt(D_MODEL))
        if initial == "unit"
        else (_SMALL, _SMALL)
    )
    return Weights(
        W_Q=query * rng.standard_normal((D_MODEL, d_k)),
        W_K=key * rng.standard_normal((D_MODEL, d_k)),
        W_V=rng.standard_normal((D_MODEL, _D_V)) / math.sqrt(D_MODEL),
        W_O=rng.standard_normal((_D_V, N_CLASSES)) / math.sqrt(_D_V),
    )


@dataclass(frozen=True)
class Run:
    """The state of a run before one of its steps."""

    step: int  # number of steps taken
    # (n_divisors, ...); the next step changes them in place, and overwrites the gradients in `at`
    weights: Weights
    batch: Batch  # of the next step
    at: Step  # loss, gradients and attention of the layers on that batch
    has_ended: BoolArray  # for each divisor, if a weight exceeded 1e25; the weights are then 0


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
    initial_divisor: float = 1.0,
    rate_divisor: float = 1.0,
) -> Iterator[Run]:
    """Train one layer for each divisor, from the same initial weights and with the same batches.

    rng draws the initial weights, then a batch for each step. W_Q and W_K start as drawn over
    `initial_divisor`, and their learning rate is that of the other weights over `rate_divisor`.

    Yields:
        The state before each step, and after the last one with a batch of its own: steps + 1 times.
    """
    one = initial_weights(rng, d_k, initial)
    one = one._replace(W_Q=one.W_Q / initial_divisor, W_K=one.W_K / initial_divisor)
    weights = Weights(*(np.repeat(array[None], len(divisors), axis=0) for array in one))
    rate = learning_rate / rate_divisor
    descend = OPTIMIZERS[optimizer](weights, (rate, rate, learning_rate, learning_rate))
    has_ended = np.zeros(len(divisors), bool)
    for step in range(steps + 1):
        batch = draw_batch(rng, task, n_sequences, n_keys)
        at = loss_and_gradients(weights, batch, divisors)
        yield Run(step, weights, batch, at, has_ended)
        if step < steps:
            descend(at.gradients)
            largest = np.max([np.abs(array).max(axis=(-2, -1)) for array in weights], axis=0)
            has_ended = has_ended | ~(largest <= _LARGEST_WEIGHT)  # also with a NaN
            for array in weights:
                array[has_ended] = 0.0
