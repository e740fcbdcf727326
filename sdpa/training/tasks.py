"""Two tasks for one attention layer, in sequences of tokens that hold a random key and a class.

A token has 16 features of its key, a random vector of length 4, and 8 of its class, sqrt(8) at the class and 0
elsewhere; the mean square of both parts is 1. The query token holds a noisy copy of a key and no class:

    recall   the key of one token; the target is the class of that token
    pair     the sum of the keys of two tokens over sqrt(2); the target is half of each of their classes, which differ

In `pair` the best row gives half of its weight to each of the two tokens, and the cross-entropy ln 2 = 0.69. A one-hot
row shows one of the two classes; the other one is any of 7, and the cross-entropy at least ln 2 + ln(7) / 2 = 1.67.
Without attention it is ln 8 = 2.08 in both tasks.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.training.layer import Batch

Task = Literal["recall", "pair"]
TASKS: tuple[Task, ...] = get_args(Task)
N_ASKED = {"recall": 1, "pair": 2}  # tokens that a query asks for

N_KEY_FEATURES, N_CLASSES = 16, 8
D_MODEL = N_KEY_FEATURES + N_CLASSES
_NOISE = 0.1  # standard deviation of the noise of a query, relative to the copy


def draw_batch(rng: np.random.Generator, task: Task, n_sequences: int, n_keys: int) -> Batch:
    """Independent sequences of n_keys tokens, at least 2; rng draws keys, classes and noise, in this order.

    >>> batch = draw_batch(np.random.default_rng(0), "pair", 3, 16)
    >>> batch.tokens.shape, batch.queries.shape, batch.targets.shape
    ((3, 16, 24), (3, 24), (3, 8))
    """
    asked = N_ASKED[task]
    keys = rng.standard_normal((n_sequences, n_keys, N_KEY_FEATURES))
    keys *= math.sqrt(N_KEY_FEATURES) / np.sqrt(np.vecdot(keys, keys))[..., None]
    classes = rng.integers(0, N_CLASSES, (n_sequences, n_keys))
    if task == "pair":
        classes[:, 1] = (classes[:, 0] + rng.integers(1, N_CLASSES, n_sequences)) % N_CLASSES
    tokens = np.zeros((n_sequences, n_keys, D_MODEL))
    tokens[..., :N_KEY_FEATURES] = keys
    np.put_along_axis(tokens[..., N_KEY_FEATURES:], classes[..., None], math.sqrt(N_CLASSES), axis=-1)
    queries = np.zeros((n_sequences, D_MODEL))
    copies = keys[:, :asked].sum(axis=1) / math.sqrt(asked)
    noise = _NOISE * rng.standard_normal((n_sequences, N_KEY_FEATURES))
    queries[:, :N_KEY_FEATURES] = (copies + noise) / math.sqrt(1 + _NOISE**2)
    targets = np.zeros((n_sequences, N_CLASSES))
    np.put_along_axis(targets, classes[:, :asked], 1 / asked, axis=-1)
    return Batch(tokens, queries, targets, asked)


def accuracy(logits: FloatArray, targets: FloatArray) -> npt.NDArray[np.floating]:
    """Share of the sequences whose largest logits, as many as the target has classes, are the target's classes.

    logits are (..., n_sequences, n_classes), and targets (n_sequences, n_classes).

    >>> accuracy(np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]), np.array([[0.5, 0.5, 0], [0.5, 0, 0.5]]))
    array(0.5)
    """
    wanted = targets > 0
    least_wanted = np.where(wanted, logits, np.inf).min(axis=-1)
    largest_other = np.where(wanted, -np.inf, logits).max(axis=-1)
    return np.asarray((least_wanted > largest_other).mean(axis=-1))


def loss_levels(task: Task) -> dict[str, float]:
    """The least expected cross-entropy in nats: with the best rows, with one-hot rows, and of a guess.

    If a query asks for a tokens, a one-hot row shows one of their classes, of probability 1/a; the other classes share
    1 - 1/a. A guess does not depend on the tokens.

    >>> {name: round(level, 2) for name, level in loss_levels("pair").items()}
    {'best row': 0.69, 'one-hot row': 1.67, 'guess': 2.08}
    """
    asked = N_ASKED[task]
    others = 1 - 1 / asked
    one_hot = math.log(asked) / asked + (others * math.log((N_CLASSES - 1) / others) if others else 0.0)
    return {"best row": math.log(asked), "one-hot row": one_hot, "guess": math.log(N_CLASSES)}
