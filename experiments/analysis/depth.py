"""Tables of theory beside a sweep of `depth`: all layers beside the map of wide layers, and the
limit of many keys.

The map takes d_k and the width of the tokens to infinity at fixed n_keys and sigma = sqrt(d_k) /
divisor, and gives all pairs of tokens one cosine (`sdpa.theory.overlap`). The limit takes n_keys to
infinity, too (Giorlandino and Goldt, arXiv:2505.24333): sum w^2 is max(1 - 1 / ratio, 0) and the
overlap 0, with ratio = beta / beta_c, beta = sigma / sqrt(ln n_keys) and beta_c = sqrt(2 / (1 - p))
at the cosine p.
"""

import math

import numpy as np
import pandas as pd

from experiments.analysis.derived import Derived, columns_of_text
from experiments.analysis.results import Axes
from experiments.kinds.depth import LAYER_COLUMNS, LAYERS
from experiments.measuring.columns import axis_columns, names
from sdpa.scaling import Scaling
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


def with_map(layers: pd.DataFrame, axes: Axes) -> pd.DataFrame:
    """The table of layers with the cosine that the map gives after each."""
    found = pd.Series(math.nan, layers.index)
    names_of_cell = axes.among(layers)
    for (scaling, *values), rows in layers.groupby(["scaling", *names_of_cell], sort=False):
        cell = dict(zip(names_of_cell, values, strict=True))
        sigma = math.sqrt(cell["d_k"]) / Scaling.parse(scaling).divisor(cell["d_k"], cell["n_keys"])
        cosine = cell["token_cosine"]
        for place in rows.sort_values("layer").index:
            found[place] = cosine = next_cosine(cosine, sigma, cell["n_keys"], cell["residual"])
    return layers.assign(cosine_map=found)


def first_layer_curves(table: pd.DataFrame) -> pd.DataFrame:
    """Values of theory for a wide layer without a residual stream and their limit, over the spread
    of the scores.

    For each start cosine and n_keys of the cells of one layer.
    """
    table, rows = table[table["layers"] == 1], []
    for p, n_keys in (
        table[["token_cosine", "n_keys"]]
        .drop_duplicates()
        .sort_values(["token_cosine", "n_keys"])
        .values
    ):
        for ratio in _RATIOS:
            sigma, limit = (
                ratio * freezing_sigma(n_keys) / math.sqrt(1 - p),
                frozen_collision(ratio),
            )
            square, product = next_moments(p, sigma, n_keys)
            values = (x / (1 - p) for x in (square - p, product - p))
            of_limit = p / (p + (1 - p) * limit) if p or limit else math.nan
            cosines = product / square, mean_cosine(p, sigma, n_keys)
            rows.append((p, int(n_keys), ratio, *values, *cosines, limit, of_limit))
    return pd.DataFrame(rows, columns=names(_CURVES))


TABLES = (
    Derived(
        "propagation",
        needs=frozenset({"layer", "overlap"}),
        columns=lambda experiment: (*axis_columns(experiment.cell), *LAYER_COLUMNS, *_MAP),
        derive=lambda results: with_map(results[LAYERS], results.axes),
        source=LAYERS,
    ),
    Derived(
        "first_layer",
        needs=frozenset({"token_cosine", "overlap"}),
        columns=lambda _: _CURVES,
        derive=lambda results: first_layer_curves(results.measured),
    ),
)
