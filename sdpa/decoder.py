"""A decoder: a language model of one stream, with its loss and the gradients to all weights.

For a sequence of tokens t_0 ... t_n, of which each predicts the next one:

    x_i = E[t_i],   the blocks of `sdpa.network`,   h = x / sqrt(mean x^2 + epsilon)
    L_i = -ln softmax(h U)_{t_(i+1)}

with embeddings E and an unembedding U of its own, without gains and biases. Positions come from
RoPE and the mask alone. Source: Touvron et al. 2023 (Llama, arXiv:2302.13971).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdpa import network
from sdpa._arrays import FloatArray
from sdpa.network import Block, BlockGradients, Design, Steps

_MATRICES = ("query", "key", "value", "output", "gate", "up", "down")
_LOGITS = Design(1, 1, divisor=1.0, norm="none")  # of a stream that is the logits


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
            for name in _MATRICES:
                array = getattr(block, name)
                if array is not None:
                    yield name, array
        yield "unembedding", self.unembedding

    def copy(self) -> Decoder:
        """The same weights in arrays of their own."""
        return deepcopy(self)


@dataclass(frozen=True)
class Pass:
    """A pass of sequences through a decoder, forward and backward; gradients are those of the sum
    of all losses.
    """

    losses: FloatArray  # L of each token, (sequences, n)
    steps: list[Steps]  # of each block
    to_blocks: list[BlockGradients]
    to_weights: Decoder


def losses(decoder: Decoder, tokens: npt.NDArray[np.integer], design: Design) -> FloatArray:
    """L of each token but the last, (sequences, n), of tokens (sequences, n + 1)."""
    steps = network.forward(_stream(decoder, tokens), decoder.blocks, design)
    return network.next_token_losses(steps[-1].after, decoder.unembedding, tokens[:, 1:], design)


def loss_and_gradients(decoder: Decoder, tokens: npt.NDArray[np.integer], design: Design) -> Pass:
    """The losses of tokens (sequences, n + 1), and the gradients by the chain rule.

    `design` has the norm `pre`.
    """
    steps = network.forward(_stream(decoder, tokens), decoder.blocks, design)
    x = steps[-1].after
    mean_square = (x * x).mean(axis=-1, keepdims=True)
    length = np.sqrt(mean_square + design.epsilon)
    h = x / length
    u = decoder.unembedding
    identity = np.eye(u.shape[-1], dtype=u.dtype)
    found, to_logits = network.next_token_gradients(h @ u, identity, tokens[:, 1:], _LOGITS)
    to_h = to_logits @ u.T
    along = (to_h * h).mean(axis=-1, keepdims=True)
    to_x = (to_h - h * along) / length
    to_blocks = network.backward(to_x, steps, decoder.blocks, design)
    one_hot = identity[tokens[:, :-1].ravel()]
    to_weights = Decoder(
        embedding=one_hot.T @ _rows(to_blocks[0].x),
        blocks=tuple(each.weights() for each in to_blocks),
        unembedding=_rows(h).T @ _rows(to_logits),
    )
    return Pass(found, steps, to_blocks, to_weights)


def _stream(decoder: Decoder, tokens: npt.NDArray[np.integer]) -> FloatArray:
    """x of each token but the last, (sequences, n, width)."""
    return np.asarray(decoder.embedding[tokens[:, :-1]])


def _rows(x: FloatArray) -> FloatArray:
    return x.reshape(-1, x.shape[-1])
