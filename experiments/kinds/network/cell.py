"""Gradients through networks at their start: stacks of attention layers, with or without an MLP.

A trial draws n_keys tokens of width n_heads d_k, fresh matrices for every layer, and a standard
normal gradient to the stream above the last layer. All rules have the same draws. `sdpa.network`
carries the tokens up and the gradient down; the squares of gradients in a table are means over
their entries or vectors, so that those of the stream above the last layer are 1.

The main table describes the whole stack, its first and its last layer, and the table `layers` all
of them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le, Lt

from experiments.kinds.network.layer import LAYER_VALUES, stream_values, values_of_layer
from experiments.measuring.cells import LAYER, RULE_COLUMNS, Row, ScaledCell
from experiments.measuring.columns import Column, Meaning, with_error_columns
from experiments.measuring.experiment import MEASURED, Experiment
from experiments.measuring.metric import Metric, metric_columns, metric_row
from experiments.measuring.moments import Moments
from sdpa import Scaling, network
from sdpa._arrays import FloatArray
from sdpa.initialisation import SCHEMES, Scheme
from sdpa.masks import NoneOrCausal
from sdpa.positions import ROPE_BASE

LAYERS = "layers"  # the table of all layers
# Squared gradients of a stack have a heavy tail, with a coefficient of variation of 0.4 to 1.8. With
# fewer stacks, a run whose spread comes out too small passes for precise: of such intervals at 20
# stacks, 51 to 76% contain the true value, and of all intervals 88 to 94%.
_MIN_STACKS, _MIN_DRAWS = 100, 400
_CHUNK_WORK, _MOST_TRIALS = 4e9, 16  # of a chunk: multiplications under a rule, about a second
_Size = Annotated[int, Ge(1), Le(2**16)]


@dataclass(frozen=True)
class Cell(ScaledCell):
    """One point of the grid: the sizes and parts of a network."""

    d_k: Annotated[_Size, Meaning("width of queries, keys and values of a head")]
    n_keys: Annotated[_Size, Ge(2), Meaning("tokens, the length of a softmax row")]
    scaling: tuple[Scaling, ...]
    n_heads: Annotated[_Size, Meaning("heads of a layer; the stream has n_heads d_k entries")] = 4
    layers: Annotated[
        int, Ge(1), Le(1024), Meaning("layers of attention, each with an MLP if there is one")
    ] = 1
    scheme: Annotated[
        Scheme,
        Meaning(
            "initial weights W_Q and W_K; those of all other matrices are like W_K at their input"
        ),
    ] = SCHEMES["lecun"]
    output_scale: Annotated[
        Literal["none", "depth"],
        Meaning(
            "none, or depth: W_O and the last matrix of an MLP over sqrt(2 layers), as GPT-2 starts"
        ),
    ] = "none"
    norm: Annotated[
        Literal["pre", "post"],
        Meaning("place of the RMS norms: before attention and MLP, or after each sum"),
    ] = "pre"
    mlp: Annotated[
        Literal["none", "relu", "swiglu"],
        Meaning("none, relu with 4 hidden units per entry of the stream, or swiglu with 8/3"),
    ] = "none"
    residual: Annotated[
        float, Ge(0), Le(1e3), Meaning("weight a of the stream: x becomes a x + attention")
    ] = 1.0
    mask: Annotated[NoneOrCausal, Meaning("none, or causal: no token sees a later one")] = "none"
    position: Annotated[
        Literal["none", "rope"],
        Meaning("none, or rope: queries and keys are rotated by their positions"),
    ] = "none"
    token_cosine: Annotated[
        float, Ge(0), Lt(1), Meaning("cosine of any two tokens before the first layer")
    ] = 0.0

    @property
    def width(self) -> int:
        """Entries of the stream."""
        return self.n_heads * self.d_k

    @property
    def hidden(self) -> int:
        """Hidden units of an MLP; 0 without one."""
        sizes = {"none": 0, "relu": 4 * self.width, "swiglu": round(8 / 3 * self.width)}
        return sizes[self.mlp]

    @property
    def chunk_trials(self) -> int:
        """As `BaseCell.chunk_trials`."""
        return int(max(1, min(_MOST_TRIALS, _CHUNK_WORK // self._work)))

    @property
    def seconds_per_trial(self) -> float:
        """As `BaseCell.seconds_per_trial`."""
        return len(self.scaling) * (1e-3 * self.layers + 1.5e-10 * self._work)

    @property
    def memory(self) -> int:
        """As `BaseCell.memory`: all matrices and steps under one rule, the values of all trials, and the
        arrays of rows of one layer on its way back.
        """
        token_values = self.n_keys * (26 * self.width + 9 * self.hidden)
        row_values = self.n_heads * self.n_keys**2
        values = 4 * len(self.scaling) * len(LAYER_VALUES) * (self.chunk_trials + 2)
        kept = self.layers * (self._matrices + token_values + 3 * row_values + values)
        return 8 * (kept + 12 * row_values) + 2**20

    @property
    def _matrices(self) -> int:
        """Entries of the matrices of a layer."""
        mlp_matrices = {"none": 0, "relu": 2, "swiglu": 3}[self.mlp]
        return 4 * self.width**2 + mlp_matrices * self.hidden * self.width

    @property
    def _work(self) -> float:
        """Multiplications of a trial under one rule, there and back."""
        row_multiplications = 6 * self.n_keys**2 * (self.width + 10 * self.n_heads)
        return self.layers * (3 * self.n_keys * self._matrices + row_multiplications)

    def problem(self) -> str | None:
        """As `BaseCell.problem`: a stream of one entry, which norms make 1 or -1, or an odd d_k
        beside a rotation.
        """
        if self.width < 2:
            return "n_heads: expected a stream of at least 2 entries, got 1 head and d_k = 1"
        if self.position == "rope" and self.d_k % 2:
            return f"position: expected an even d_k beside rope, got d_k = {self.d_k}"
        return None

    @property
    def onto_stream(self) -> float:
        """The factor of the variances of W_O and of the last matrix of an MLP."""
        return 1 / (2 * self.layers) if self.output_scale == "depth" else 1.0

    def block(self, rng: np.random.Generator) -> network.Block:
        """The matrices of a layer."""
        width, hidden = self.width, self.hidden
        query, key = self.scheme.variances(width, self.d_k)
        hidden_variance = self.scheme.variances(max(hidden, 1), self.d_k)[1]
        matrix = partial(self.scheme.matrix, rng)
        output = key * self.onto_stream
        variances = {"query": query, "key": key, "value": key, "output": output}
        drawn = {name: matrix(v, (width, width)) for name, v in variances.items()}
        if self.mlp == "swiglu":
            drawn["gate"] = matrix(key, (width, hidden))
        if self.mlp != "none":
            drawn["up"] = matrix(key, (width, hidden))
            drawn["down"] = matrix(hidden_variance * self.onto_stream, (hidden, width))
        return network.Block(**drawn)

    def designs(self) -> Iterator[network.Design]:
        """The network under each rule."""
        for divisor in self.divisors():
            yield network.Design(
                self.n_heads,
                self.n_heads,
                divisor,
                mask=self.mask,
                norm=self.norm,
                residual=self.residual,
                rope_base=ROPE_BASE if self.position == "rope" else None,
            )


@dataclass(frozen=True)
class StackMeasurement:
    """Moments of the metrics of each rule, and the mean and spread of all values of layers."""

    moments: Moments  # of a vector of rules and metrics
    mean: FloatArray  # (rules, layers, values)
    squares: FloatArray  # sum over trials of (value - mean)^2, of the same shape

    def merge(self, following: Self) -> Self:
        """Both chunks together, as in `Moments.merge`."""
        trials, others = self.moments.trials, following.moments.trials
        shift = following.mean - self.mean
        share = others / (trials + others)
        squares = self.squares + following.squares + shift**2 * trials * share
        moments = self.moments.merge(following.moments)
        return type(self)(moments, self.mean + shift * share, squares)


def measure(cell: Cell, trials: int, rng: np.random.Generator) -> StackMeasurement:
    """Measure that many independent stacks under every rule."""
    stacks = np.array([_stack(cell, rng) for _ in range(trials)])
    layers = stacks[:, :, : cell.layers]
    places = {"first": 0, "last": cell.layers - 1, "above": cell.layers}
    metrics = [stacks[:, :, places[metric.end], _PLACE[metric.value]] for metric in METRICS]
    moments = Moments.of(np.stack(metrics, axis=-1).reshape(trials, -1).T)
    mean = layers.mean(axis=0)
    squares = ((layers - mean) ** 2).sum(axis=0)
    return StackMeasurement(moments, mean, squares)


def _stack(cell: Cell, rng: np.random.Generator) -> FloatArray:
    """The values of one stack, (rules, layers + 1, values); the last row is the stream above."""
    shared = rng.standard_normal(cell.width)
    own = rng.standard_normal((cell.n_keys, cell.width))
    p = cell.token_cosine
    tokens = math.sqrt(p) * shared + math.sqrt(1 - p) * own
    blocks = [cell.block(rng) for _ in range(cell.layers)]
    top = rng.standard_normal(tokens.shape)
    values = np.full((len(cell.scaling), cell.layers + 1, len(LAYER_VALUES)), np.nan)
    for rule, design in enumerate(cell.designs()):
        steps = network.forward(tokens, blocks, design)
        gradients = network.backward(top, steps, blocks, design)
        for layer, (step, gradient) in enumerate(zip(steps, gradients, strict=True)):
            values[rule, layer] = values_of_layer(step, gradient)
        values[rule, -1, :2] = stream_values(steps[-1].after)
    return values


_PLACE = {column.name: place for place, column in enumerate(LAYER_VALUES)}


_End = Literal["first", "last", "above"]
_ENDS: tuple[_End, ...] = ("first", "last")


@dataclass(frozen=True)
class StackMetric(Metric):
    """A metric with one value per stack.

    Attributes:
        value: name of its column in LAYER_VALUES.
        end: of the first layer, of the last one or above it.
    """

    per: Literal["run"] = "run"
    value: str = field(kw_only=True)
    end: _End = "first"


def _both_ends(
    name: str,
    meaning: str,
    title: str,
    value: str,
    kind: Literal["mean", "root"] = "mean",
    **more: Any,
) -> list[StackMetric]:
    """A metric of the first layer and one of the last."""
    return [
        StackMetric(
            f"{end}_{name}",
            f"{meaning}, {end} layer",
            "",
            f"{title}, {end}",
            kind,
            value=value,
            end=end,
            is_logarithmic=True,
            **{"within": (0, math.inf), **more},
        )
        for end in _ENDS
    ]


METRICS = (
    StackMetric(
        "stream_gradient_growth",
        "r.m.s. gradient to the stream below the first layer over that above the last",
        "sqrt(E |dL/dx_0|^2 / |dL/dx_L|^2)",
        "gradient at the bottom over the top",
        "root",
        value="stream_gradient",
        within=(0, math.inf),
        is_precise=True,
        is_logarithmic=True,
        min_trials=_MIN_STACKS,
        min_draws=_MIN_DRAWS,
    ),
    *_both_ends(
        "query_gradient_norm",
        "root mean square of |dL/dq|",
        "$|dL/dq|$, r.m.s.",
        "query_gradient",
        "root",
        min_trials=_MIN_STACKS,
        min_draws=_MIN_DRAWS,
    ),
    *_both_ends(
        "query_gradient_norm_median",
        "median of |dL/dq| over the rows of a stack; mean over stacks",
        "$|dL/dq|$, median",
        "query_gradient_median",
    ),
    *_both_ends(
        "entropy",
        "entropy of a row",
        "entropy of a row (nats)",
        "entropy",
        unit="nats",
        within=(0, lambda sizes: np.log(sizes.n_keys)),
    ),
    *_both_ends(
        "row_variance",
        "variance of the scaled scores within a row",
        "variance within a row",
        "row_variance",
    ),
    StackMetric(
        "cosine",
        "mean cosine of two tokens above the last layer",
        "",
        "cosine of two tokens",
        value="cosine",
        end="above",
        within=(-1, 1),
    ),
)


_TRIALS = Column("trials", "int", "independent stacks")
LAYER_COLUMNS = (RULE_COLUMNS[0], _TRIALS, LAYER, *with_error_columns(LAYER_VALUES, "stacks"))


def tabulate(cell: Cell, measured: StackMeasurement) -> dict[str, list[Row]]:
    """One row per rule, and one row per rule and layer."""
    moments = measured.moments
    trials = moments.trials
    errors = np.sqrt(np.diag(moments.covariance) / trials)
    errors = errors.reshape(len(cell.scaling), -1)
    values = moments.mean.reshape(errors.shape)
    spread = np.sqrt(measured.squares / (trials - 1) / trials)
    rows, layers = [], []
    for i, rule_cell in enumerate(cell.by_rule()):
        estimates = {}
        for metric, value, error in zip(METRICS, values[i], errors[i], strict=True):
            pair = float(value), float(error)
            if metric.kind == "root":
                root = math.sqrt(value)
                pair = root, float(error / (2 * root)) if root else 0.0
            estimates[metric.name] = pair
        rows.append(metric_row(METRICS, rule_cell, trials, estimates))
        for layer in range(cell.layers):
            row = rule_cell.row_head() | {"trials": trials, "layer": layer + 1}
            for column, place in _PLACE.items():
                row[column] = float(measured.mean[i, layer, place])
                row[f"{column}_se"] = float(spread[i, layer, place])
            layers.append(row)
    return {MEASURED: rows, LAYERS: layers}


EXPERIMENT = Experiment(
    name="network",
    cell=Cell,
    columns=(_TRIALS, *metric_columns(METRICS)),
    metrics=METRICS,
    measure=measure,
    tabulate=tabulate,
    min_trials=2,
)
