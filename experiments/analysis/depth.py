"""Tables of theory beside a sweep of `depth`: all layers beside the map of wide layers, and the
limit of many keys.

The map takes d_k and the width of the tokens to infinity at fixed n_keys and sigma = sqrt(d_k) /
divisor, and gives all pairs of tokens one cosine (`sdpa.theory.overlap`). The limit takes n_keys to
infinity, too (Giorlandino and Goldt, arXiv:2505.24333): sum w^2 is max(1 - 1 / ratio, 0) and the
overlap 0, with ratio = beta / beta_c, beta = sigma / sqrt(ln n_keys) and beta_c = sqrt(2 / (1 - p))
at the cosine p.
"""

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from experiments.analysis.derived import Derived, beside_axes, columns_of_text, row_cells
from experiments.analysis.results import Results
from experiments.kinds.depth import LAYER_COLUMNS, LAYERS, Cell
from experiments.measuring.columns import names
from sdpa.theory.limits import freezing_sigma, frozen_collision
from sdpa.theory.overlap import mean_cosine, next_cosine, next_moments

_RATIOS = np.concatenate([np.arange(2, 30), np.arange(30, 52, 2)]) / 20
_MAP = columns_of_text(
    "cosine_map float cosine of two tokens by the map of wide layers := p -> (a^2 p + C(p)) / "
    "(a^2 + S(p))"
)
_CURVES = columns_of_text(
    """
    token_cosine float cosine p of any two tokens before the layer
    n_keys int tokens, the length of a softmax row
    ratio float spread of the scores over that at which rows of many keys freeze
        := beta / beta_c = sigma sqrt(1 - p) / sqrt(2 ln n_keys)
    collision float expected sum of squared weights := E sum_j w_j^2
    overlap float expected overlap of two rows := E sum_j w_j w'_j
    ratio_of_means float mean product of two tokens after the layer over their mean square
        := (p + (1 - p) overlap) / (p + (1 - p) collision)
    cosine float mean cosine of two tokens after the layer, to second order in the spread of their squares
    collision_limit float limit of collision as n_keys tends to infinity := max(1 - 1 / ratio, 0)
    cosine_limit float? limit of ratio_of_means; empty if 0 / 0 := p / (p + (1 - p) collision_limit)
    """
)


def with_map(layers: pd.DataFrame, cells: Iterable[Cell]) -> pd.DataFrame:
    """The table of layers, in the order of cells and rules, with the cosine that the map gives
    after each.
    """
    cosines = []
    for cell in row_cells(cells):
        sigma = math.sqrt(cell.d_k) / cell.divisor
        cosine = cell.token_cosine
        for _ in range(cell.layers):
            cosine = next_cosine(cosine, sigma, cell.n_keys, cell.residual)
            cosines.append(cosine)
    return layers.assign(cosine_map=cosines)


def first_layer_curves(cells: Iterable[Cell]) -> pd.DataFrame:
    """Values of theory for a wide layer without a residual stream and their limit, over the spread
    of the scores.

    For each start cosine and n_keys of the cells of one layer.
    """
    starts = {(cell.token_cosine, cell.n_keys) for cell in cells if cell.layers == 1}
    rows = [_wide_layer(*start, ratio) for start in sorted(starts) for ratio in _RATIOS]
    return pd.DataFrame(rows, columns=names(_CURVES))


def _wide_layer(p: float, n_keys: int, ratio: float) -> tuple[float, ...]:
    """A row of `first_layer`: start cosine p, n_keys, and the spread over that of freezing."""
    sigma = ratio * freezing_sigma(n_keys) / math.sqrt(1 - p)
    square, product = next_moments(p, sigma, n_keys)
    collision, overlap = (square - p) / (1 - p), (product - p) / (1 - p)
    cosine = mean_cosine(p, sigma, n_keys)
    limit = frozen_collision(ratio)
    of_limit = p / (p + (1 - p) * limit) if p or limit else math.nan
    return p, n_keys, ratio, collision, overlap, product / square, cosine, limit, of_limit


def _cells(results: Results) -> list[Cell]:
    return [cell for cell in results.cells() if isinstance(cell, Cell)]


TABLES = (
    Derived(
        "propagation",
        needs={"layer", "overlap"},
        columns=beside_axes([*LAYER_COLUMNS, *_MAP]),
        derive=lambda results: with_map(results[LAYERS], _cells(results)),
        source=LAYERS,
    ),
    Derived(
        "first_layer",
        needs={"token_cosine", "overlap"},
        columns=lambda _: _CURVES,
        derive=lambda results: first_layer_curves(_cells(results)),
    ),
)
