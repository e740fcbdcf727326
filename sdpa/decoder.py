"""A decoder: a language model of one stream, with its loss, the gradients to all weights, and the
optimizers that change them.

For a sequence of tokens t_0 ... t_n, of which each predicts the next one:

    x_i = E[t_i],   the blocks of `sdpa.network`,   h = x / sqrt(mean x^2 + epsilon)
    L_i = -ln softmax(h U)_{t_(i+1)}

with embeddings E and an unembedding U of its own, without biases and gains but those of QK-norm. Positions come from
RoPE and the mask alone. Source: Touvron et al. 2023 (Llama, arXiv:2302.13971).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sdpa import network
from sdpa._arrays import FloatArray, IntArray
from sdpa.network import Block, BlockGradients, Design, Steps

OptimizerName = Literal["adam", "momentum"]
_MOMENTUM = 0.9
_B1, _B2, _EPS = 0.9, 0.999, 1e-8
_ARRAYS = ("query", "key", "value", "output", "gate", "up", "down", "query_gain")


@dataclass(frozen=True)
class Decoder:
    """The weights of a decoder, or the gradients to them."""

    embedding: FloatArray  # E, (vocabulary, width)
    blocks: tuple[Block, ...]
    unembedding: FloatArray  # U, (width, vocabulary)

    def arrays(self) -> Iterator[tuple[str, FloatArray]]:
        """Each array with its name, such as `query`; always in the same order."""
        yield "embedding", self.embedding
        for block in self.blocks:
            for name in _ARRAYS:
                array = getattr(block, name)
                if array is not None:
                    yield name, array
        yield "unembedding", self.unembedding

    def copy(self) -> Decoder:
        """The same weights in arrays of their own."""
        return deepcopy(self)

    def astype(self, dtype: npt.DTypeLike) -> Decoder:
        """The same weights in another precision."""

        def block(of: Block) -> Block:
            arrays = {name: array for name, array in vars(of).items() if array is not None}
            return Block(**{name: array.astype(dtype) for name, array in arrays.items()})

        return Decoder(
            self.embedding.astype(dtype),
            tuple(map(block, self.blocks)),
            self.unembedding.astype(dtype),
        )


@dataclass(frozen=True)
class Pass:
    """A pass of sequences through a decoder, forward and backward; gradients are those of the sum
    of all losses.
    """

    losses: FloatArray  # L of each token, (sequences, n)
    steps: list[Steps]  # of each block
    to_blocks: list[BlockGradients]
    to_weights: Decoder


def losses(decoder: Decoder, tokens: IntArray, design: Design) -> FloatArray:
    """L of each token but the last, (sequences, n), of tokens (sequences, n + 1)."""
    steps = network.forward(_stream(decoder, tokens), decoder.blocks, design)
    return network.next_token_losses(steps[-1].after, decoder.unembedding, tokens[:, 1:], design)


def loss_and_gradients(decoder: Decoder, tokens: IntArray, design: Design) -> Pass:
    """The losses of tokens (sequences, n + 1), and the gradients by the chain rule.

    `design` has the norm `pre`.
    """
    steps = network.forward(_stream(decoder, tokens), decoder.blocks, design)
    u = decoder.unembedding
    top = u, tokens[:, 1:], design
    loss, to_x, logit_factors = network.next_token_gradients(steps[-1].after, *top)
    to_blocks = network.backward(to_x, steps, decoder.blocks, design)
    one_hot = np.eye(u.shape[-1], dtype=u.dtype)[tokens[:, :-1]]
    to_weights = Decoder(
        embedding=network.outer(one_hot, to_blocks[0].x),
        blocks=tuple(block.weights() for block in to_blocks),
        unembedding=network.outer(*logit_factors),
    )
    return Pass(loss, steps, to_blocks, to_weights)


def _stream(decoder: Decoder, tokens: IntArray) -> FloatArray:
    """x of each token but the last, (sequences, n, width)."""
    return np.asarray(decoder.embedding[tokens[:, :-1]])


class Momentum:
    """Gradient descent with momentum: v <- 0.9 v + g, W <- W - lr v (Polyak 1964).

    It changes arrays in place, with g the gradient to W and lr the learning rate of W at a step.
    """

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
    """Adam, which changes arrays in place (Kingma and Ba 2015, algorithm 1).

    With g the gradient to W at step t from 1, and lr the learning rate of W at that step:

        m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   W <- W - lr m' / (sqrt(v') + eps)

    with m' = m / (1 - b1^t), v' = v / (1 - b2^t), b1 = 0.9, b2 = 0.999, eps = 1e-8.
    """

    def __init__(self, arrays: Sequence[FloatArray]) -> None:
        self._arrays = arrays
        self._means = [np.zeros_like(array) for array in arrays]
        self._squares = [np.zeros_like(array) for array in arrays]
        self._t = 0

    def step(self, gradients: Sequence[FloatArray], rates: Sequence[float]) -> None:
        """Change each array along its gradient, with a learning rate of its own."""
        self._t += 1
        mean_correction = 1 - _B1**self._t
        root_correction = math.sqrt(1 - _B2**self._t)
        for array, mean, square, gradient, rate in zip(
            self._arrays, self._means, self._squares, gradients, rates, strict=True
        ):
            mean *= _B1
            mean += (1 - _B1) * gradient
            square *= _B2
            square += (1 - _B2) * gradient * gradient
            root = np.sqrt(square)
            root /= root_correction
            root += _EPS
            array -= (rate / mean_correction) * mean / root


OPTIMIZERS: Mapping[OptimizerName, type[Adam | Momentum]] = {"adam": Adam, "momentum": Momentum}
