"""Attention layers at initialisation: the cosine of tokens, and the overlap of their rows, layer by
layer.

A trial is a stack of layers with fresh independent Gaussian W_Q, W_K and W_V. The width of the
tokens is infinite: then queries and keys are normal with the cosines of their tokens, and the
tokens after a layer with the weights A have the products A C A^T, if those before it have C. So a
trial draws queries and keys, and carries factors X of C = X X^T. The first tokens have mean square
1 and one cosine p: X = (p^(1/2), (1 - p)^(1/2) I). A layer maps X to the rows of (a X, A X), made
of length 1 (RMS or layer norm), with a the residual weight.

The main table describes the first layer, and the table `layers` all of them: means over the first
16 tokens or all.
"""

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le, Lt

from experiments.measuring.columns import Column, Meaning, names
from experiments.measuring.experiment import MEASURED, Experiment, Row
from experiments.measuring.metric import (
    ErrorBound,
    Exact,
    Metric,
    Theory,
    metric_columns,
    metric_row,
)
from experiments.measuring.moments import Moments
from experiments.measuring.rules import TREATMENT, Floats, ScaledCell
from experiments.plain.stacks import PlainStack
from sdpa import Scaling, softmax

LAYERS = "layers"  # the table of all layers
_LEAST_D_K = 32  # for overlaps within 1e-3
# The overlap of a stack has a skewness of up to 3, because a key near the shared part of all
# queries is rare. The 0.1% limits of Student's t are passed by 0.2 to 1.2% of runs with 60 stacks,
# and by 0.1 to 0.24% with 600.
_MIN_STACKS = 400
_COMPARED_TOKENS = 64  # of stacks that are compared with the definitions, at most
_METRICS_OF_A_LAYER = 4
_MEASURED = (
    16  # tokens, of a layer: overlaps vary between stacks, because their queries share a part
)
_CHUNK_WORK, _MOST_TRIALS = 4e9, 256  # of a chunk: multiplications under a rule, less than a second
_Size = Annotated[int, Ge(1), Le(2**16)]


@dataclass(frozen=True)
class Cell(ScaledCell):
    """One point of the grid: the sizes of the layers, and the tokens at their start."""

    d_k: Annotated[_Size, Meaning("width of queries and keys")]
    n_keys: Annotated[_Size, Ge(2), Meaning("tokens, the length of a softmax row")]
    scaling: tuple[Scaling, ...]
    token_cosine: Annotated[
        float, Ge(0), Lt(1), Meaning("cosine of any two tokens before the first layer")
    ] = 0.0
    residual: Annotated[
        float,
        Ge(0),
        Le(1e3),
        Meaning("weight a of the residual stream: tokens become a x + attention(x), normalised"),
    ] = 0.0
    layers: Annotated[int, Ge(1), Le(1024), Meaning("attention layers")] = 1

    @property
    def measured(self) -> int:
        """Tokens behind the means of a layer."""
        return min(self.n_keys, _MEASURED)

    def first(self, weights: Floats) -> Floats:
        """Rows of weights that sum to 1, times the factor X of the first tokens."""
        common = np.full((len(weights), 1), math.sqrt(self.token_cosine))
        return np.hstack([common, math.sqrt(1 - self.token_cosine) * weights])

    @property
    def chunk_trials(self) -> int:
        """As `Cell.chunk_trials`."""
        return int(max(1, min(_MOST_TRIALS, _CHUNK_WORK // self.work)))

    @property
    def seconds_per_trial(self) -> float:
        """As `Cell.seconds_per_trial`."""
        return len(self.scaling) * (1e-4 * self.layers + 1e-10 * self.work)

    @property
    def memory(self) -> int:
        """As `Cell.memory`: factors of all rules, arrays of a layer (more with a residual), its
        draws, the moments.
        """
        rows = self.n_keys if self.layers > 1 else self.measured
        squares = rows * (self.n_keys + 1) * (len(self.scaling) + 6 + 8 * (self.residual > 0))
        values = len(self.scaling) * self.layers * _METRICS_OF_A_LAYER
        return (
            8
            * (
                squares
                + 6 * (self.n_keys + 1) * self.d_k
                + 4 * values**2
                + 2 * values * _MOST_TRIALS
            )
            + 2**20
        )

    @property
    def separate_rows(self) -> float:
        """As `Cell.separate_rows`: one, because overlaps share keys, and the common part of all
        queries.
        """
        return 1

    @property
    def work(self) -> int:
        """Multiplications of a trial under one rule."""
        deep = (
            (self.layers - 1)
            * self.n_keys**2
            * (3 * self.d_k + 2 * self.n_keys * (1 + 8 * (self.residual > 0)))
        )
        return deep + self.n_keys * (self.d_k + _MEASURED) * (_MEASURED + 50)


def _off_diagonal(products: Floats) -> float:
    """The mean of a square matrix without its diagonal."""
    n = len(products)
    return float((products.sum() - products.trace()) / (n * (n - 1)))


def measure(cell: Cell, trials: int, rng: np.random.Generator) -> Moments:
    """Moments over that many stacks of a value per rule, layer and metric, in this order.

    Raises:
        ArithmeticError: a value of the first stack is not that of loops over pairs of tokens.
    """
    stacks = [_stack(cell, rng, compare=number == 0) for number in range(trials)]
    return Moments.of(np.stack([found.ravel() for found in stacks], axis=-1))


def _stack(cell: Cell, rng: np.random.Generator, *, compare: bool) -> Floats:
    """The values of one stack of layers, (rules, layers, metrics); rules share the draws behind
    queries and keys.
    """
    n, m = cell.n_keys, cell.measured
    factors: list[Floats | None] = [None] * len(cell.scaling)
    start = n, cell.token_cosine, cell.residual, m
    plain = [PlainStack(*start) for _ in cell.scaling if compare and n <= _COMPARED_TOKENS]
    found = np.empty((len(cell.scaling), cell.layers, _METRICS_OF_A_LAYER))
    for layer in range(cell.layers):
        rows = n if layer + 1 < cell.layers else m  # that the next layer needs
        drawn = [
            rng.standard_normal(((n if layer else rows) + 1, cell.d_k)),
            rng.standard_normal((n + 1, cell.d_k)),
        ]
        for rule, divisor in enumerate(cell.divisors()):
            factor = factors[rule]
            if factor is None:
                shares = math.sqrt(cell.token_cosine), math.sqrt(1 - cell.token_cosine)
                queries, keys = (shares[0] * each[:1] + shares[1] * each[1:] for each in drawn)
            else:
                queries, keys = (factor @ each[: factor.shape[1]] for each in drawn)
            weights = softmax(queries[:rows] @ keys.T / divisor)
            after = cell.first(weights) if factor is None else weights @ factor
            if cell.residual:
                before = cell.first(np.eye(rows, n)) if factor is None else factor[:rows]
                after = np.hstack([cell.residual * before, after])
            after /= np.linalg.norm(after, axis=1, keepdims=True)
            shown = weights[:m]
            found[rule, layer] = (
                np.vecdot(shown, shown).mean(),
                _off_diagonal(shown @ shown.T),
                shown.diagonal().mean(),
                _off_diagonal(after[:m] @ after[:m].T),
            )
            if cell.residual and rows == n:
                # The factor of a residual stream doubles its columns; a triangular one has the same
                # products.
                after = np.asarray(np.linalg.qr(after.T, mode="r")).T
            factors[rule] = after
            if plain:
                values = dict(
                    zip(
                        (metric.name for metric in METRICS),
                        found[rule, layer].tolist(),
                        strict=True,
                    )
                )
                plain[rule].compare_inputs(queries[:rows], drawn[0])
                plain[rule].compare_inputs(keys, drawn[1])
                plain[rule].compare(queries[:rows], keys, divisor, values, after)
    return found


def _collision(theory: Theory, cell: Cell) -> float:
    """E sum w^2: the part that all keys share moves whole rows, so that tokens of cosine p act as a
    divisor.
    """
    divisor = cell.divisor / math.sqrt(1 - cell.token_cosine)
    return float(theory.attention_expectations(cell.d_k, cell.n_keys, divisor).output_std ** 2)


def _overlap(theory: Theory, cell: Cell) -> float:
    if cell.d_k < _LEAST_D_K:
        return math.nan
    return float(
        theory.overlap.attention_overlap(cell.d_k, cell.n_keys, cell.divisor, cell.token_cosine)
    )


# Of an overlap, the expectation: given the keys and what all queries share, E w and E w' are the
# same.
_WEIGHT = partial(Metric, is_logarithmic=True)
_OVERLAP = Exact(
    "double Laplace integral, over the law of two queries", _overlap, bounds=(ErrorBound(1e-3),)
)
METRICS = (
    _WEIGHT(
        *(
            "collision",
            "sum of the squared weights of a row, first layer",
            "E sum_j w_j^2",
            r"$\sum w^2$",
        ),
        within=(lambda cells: 1 / cells.n_keys, 1),
        exact=Exact("Laplace integral, over the law of |q|", _collision),
    ),
    _WEIGHT(
        *(
            "overlap",
            "overlap of the weights of two rows, first layer",
            "E sum_j w_j w'_j",
            r"$\sum w w'$",
        ),
        exact=_OVERLAP,
        within=(0, 1),  # only its mean over stacks is at least 1 / n_keys
        min_trials=_MIN_STACKS,
    ),
    Metric(
        *(
            "own_weight",
            "weight of a query's own token, first layer",
            "E w_ii",
            "weight of the own key",
        ),
        exact=Exact("1 / n_keys", lambda _, cell: 1 / cell.n_keys),
        within=(0, 1),
    ),
    Metric(
        "cosine",
        "cosine of two tokens after the first layer",
        "",
        "cosine of two tokens",
        within=(-1, 1),
    ),
)
_TRIALS = Column("trials", "int", "stacks of layers")
LAYER_COLUMNS = (
    TREATMENT[0],
    _TRIALS,
    Column("layer", "int", "number of the layer, from 1"),
    *(
        column
        for metric in METRICS
        for column in (
            Column(metric.name, "float", metric.meaning.replace("first", "this"), metric.formula),
            Column(f"{metric.name}_se", "float", f"standard error of {metric.name} between stacks"),
        )
    ),
)


def tabulate(cell: Cell, moments: Moments) -> dict[str, list[Row]]:
    """One row per rule for the first layer, and one row per rule and layer."""
    trials, rows, layers = moments.trials, [], []
    pairs = np.column_stack([moments.mean, np.sqrt(np.diag(moments.covariance) / trials)])
    of_rules = pairs.reshape(len(cell.scaling), cell.layers, _METRICS_OF_A_LAYER, 2).tolist()
    for treatment, of_layers in zip(cell.treatments(), of_rules, strict=True):
        found = {
            metric.name: tuple(pair) for metric, pair in zip(METRICS, of_layers[0], strict=True)
        }
        measured = metric_row(METRICS, cell, trials, found, cell.measured, trials)
        rows.append({**treatment, "trials": trials, **measured})
        for layer, numbers in enumerate(of_layers, 1):
            row = treatment["scaling"], trials, layer, *itertools.chain(*numbers)
            layers.append(dict(zip(names(LAYER_COLUMNS), row, strict=True)))
    return {MEASURED: rows, LAYERS: layers}


EXPERIMENT = Experiment(
    name="depth",
    cell=Cell,
    columns=(*TREATMENT, _TRIALS, *metric_columns(METRICS)),
    metrics=METRICS,
    beside={LAYERS: tuple(names(LAYER_COLUMNS))},
    measure=measure,
    tabulate=tabulate,
    min_trials=2,
)
