"""The steps of a run of training, and what a record of a step has of it."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from experiments.kinds.language.corpus import Tokens
from experiments.measuring.columns import Column
from sdpa._arrays import FloatArray
from sdpa.decoder import OPTIMIZERS, Decoder, OptimizerName, Pass, loss_and_gradients
from sdpa.metrics import entropy, max_weight, row_variance
from sdpa.network import BlockGradients, Design, Steps
from sdpa.row_maps import RowMap

# A run ends after a larger weight or norm of the gradient to all weights; below them, no square
# overflows.
_LARGEST_WEIGHT, _LARGEST_GRADIENT = 1e4, 1e15
SMALLEST = 1e-30  # gradient; smaller ones count as this

# Values of a run at a step, and of a head at a step. Gradients differ by orders of magnitude between
# runs, so that tables have their geometric mean.
RUN_VALUES = (
    Column(
        "test_loss",
        "float",
        "cross-entropy of a character of the rest; 100 in a run that has ended early",
        "",
        "nats",
    ),
    Column(
        "embedding_gradient",
        "float",
        "norm of the gradient of a sequence's loss to the embedding of a token, r.m.s. over a batch, "
        "geometric mean over runs",
        "sqrt(E |dL/dx_0|^2)",
    ),
)
HEAD_VALUES = (
    Column("spread", "float", "r.m.s. deviation of the scaled scores within a row"),
    Column("entropy_share", "float", "entropy of a row over that of equal weights, mean over rows"),
    Column("max_weight", "float", "largest weight of a row, mean over rows"),
    Column(
        "query_gradient",
        "float",
        "|dL/dq| of a sequence's loss, r.m.s. over a batch, geometric mean over runs",
    ),
    Column(
        "query_gradient_median",
        "float",
        "the same of the median over a batch; below 1e-6 not reliable, because of single precision",
    ),
)


@dataclass(frozen=True)
class Recipe:
    """An optimizer with its learning rates and limits."""

    optimizer: OptimizerName
    learning_rate: float  # after the warm-up
    query_rate: float  # the same, of W_Q and W_K
    warmup: int  # steps over which the rates rise
    clip: float  # largest norm of the gradient to all weights; 0 for none
    until: int  # step at which the rates have fallen to 0; 0 for rates that stay

    def share(self, step: int) -> float:
        """The share of its learning rates that a step has, from 0."""
        warmed = min(1.0, (step + 1) / max(self.warmup, 1))
        left = (self.until - step) / max(self.until - self.warmup, 1) if self.until else 1.0
        return min(warmed, left)


def train(
    start: Decoder, batches: Iterable[Tokens], design: Design, recipe: Recipe
) -> Iterator[tuple[int, Decoder, Pass]]:
    """The steps taken, the weights, and their pass on the batch of the next step, before each step
    and after the last one; fewer if the run ends. The next step changes the weights in place.
    """
    decoder = start.copy()
    named = list(decoder.arrays())
    optimizer = OPTIMIZERS[recipe.optimizer]([array for _, array in named])
    rates = [
        recipe.query_rate if name in ("query", "key") else recipe.learning_rate for name, _ in named
    ]
    for step, batch in enumerate(batches):
        outcome = loss_and_gradients(decoder, batch, design)
        gradients = [array for _, array in outcome.to_weights.arrays()]
        square = sum(float(np.vdot(gradient, gradient)) for gradient in gradients)
        norm = math.sqrt(square) / outcome.losses.size
        if not norm <= _LARGEST_GRADIENT:  # also with a NaN
            return
        yield step, decoder, outcome
        clipped = min(1.0, recipe.clip / norm) if recipe.clip else 1.0
        for gradient in gradients:
            gradient *= clipped / outcome.losses.size  # the loss of a step is a mean
        optimizer.step(gradients, [recipe.share(step) * rate for rate in rates])
        if not max(np.abs(array).max() for _, array in named) <= _LARGEST_WEIGHT:
            return


def embedding_gradient(outcome: Pass) -> float:
    """The `embedding_gradient` of a pass."""
    lengths = np.linalg.norm(outcome.to_blocks[0].x, axis=-1)
    return max(float(np.sqrt((lengths**2).mean())), SMALLEST)


def head_values(outcome: Pass, row_map: RowMap) -> FloatArray:
    """The values of each layer and head, (layers, heads, HEAD_VALUES), over rows of two keys or more."""
    layers = zip(outcome.steps, outcome.to_blocks, strict=True)
    return np.array([_layer_values(steps, gradients, row_map) for steps, gradients in layers])


def _layer_values(steps: Steps, gradients: BlockGradients, row_map: RowMap) -> FloatArray:
    w = steps.weights[..., 1:, :].astype(float)
    scaled = steps.scaled[..., 1:, :].astype(float)
    n_visible = np.arange(2, w.shape[-1] + 1)
    lengths = np.linalg.norm(gradients.q.astype(float), axis=-1)
    rows = 0, 2  # sequences and queries
    if row_map.normalizer == "softmax":
        entropies, largest = entropy(w), max_weight(w)
    else:  # weights of any sum
        entropies, largest = row_map.rows(scaled).entropy, w.max(axis=-1)
    values = (
        np.sqrt(row_variance(scaled).mean(axis=rows)),
        (entropies / np.log(n_visible)).mean(axis=rows),
        largest.mean(axis=rows),
        np.sqrt((lengths**2).mean(axis=rows)).clip(SMALLEST),
        np.median(lengths, axis=rows).clip(SMALLEST),
    )
    return np.stack(values, axis=-1)
