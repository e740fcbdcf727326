"""One attention layer that is trained: its loss on a batch, and the exact gradient to its weights.

A query token x_q attends to the tokens x_1 ... x_n of its sequence, and a readout classifies the result:

    q = x_q W_Q,   u = q W_K^T,   scores s_j = u.x_j = q.k_j,   w = softmax(s / divisor)
    m = sum_j w_j x_j,   v = m W_V,   logits = v W_O,   L = -sum_c y_c log softmax(logits)_c, mean over the batch

The keys k_j = x_j W_K never exist as an array, because u.x_j equals q.k_j: a step at large d_k costs little more than
at small d_k. Several layers of one shape, such as one for each scaling rule, form leading axes and train side by side;
each takes the operations that it would take alone, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.attention import softmax
from sdpa.gradients import softmax_vjp


class Weights(NamedTuple):
    """The weights of layers, or the gradients to them; leading axes are independent layers.

    Attributes:
        W_Q, W_K: (..., d_model, d_k).
        W_V: (..., d_model, d_v).
        W_O: the readout, (..., d_v, n_classes).
    """

    W_Q: FloatArray
    W_K: FloatArray
    W_V: FloatArray
    W_O: FloatArray


class Batch(NamedTuple):
    """Sequences of tokens, with a query and a target for each.

    Attributes:
        tokens: (n_sequences, n_keys, d_model).
        queries: (n_sequences, d_model).
        targets: probabilities of the classes, (n_sequences, n_classes).
        n_asked: number of tokens that each query asks for; they come first, but no layer can see the order.
    """

    tokens: FloatArray
    queries: FloatArray
    targets: FloatArray
    n_asked: int


@dataclass(frozen=True)
class Step:
    """The loss of layers on a batch, its gradients, and the attention behind it.

    Attributes:
        losses: L of each sequence, (..., n_sequences).
        logits: (..., n_sequences, n_classes).
        q: (..., n_sequences, d_k).
        scores: q.k over the divisor, (..., n_sequences, n_keys).
        weights: their softmax, of the same shape.
        score_gradients: of the loss of each sequence to its scores q.k, of the same shape.
        gradients: of the mean loss of the batch.
    """

    losses: FloatArray
    logits: FloatArray
    q: FloatArray
    scores: FloatArray
    weights: FloatArray
    score_gradients: FloatArray
    gradients: Weights


def loss_and_gradients(weights: Weights, batch: Batch, divisors: npt.ArrayLike) -> Step:
    """The mean cross-entropy of layers on one batch, and its gradient to all weights by the chain rule.

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
