"""The table of all layers of a sweep of `network`, beside the law of wide networks of many heads.

The law (`sdpa.theory.gradient_growth`) has no mask, no rotation and no MLP, and knows no exact
values at a finite width: its columns are `_law`, not `_exact`.
"""

import math

import pandas as pd

from experiments.analysis.derived import Derived, after_axes, columns_of_text
from experiments.analysis.results import Results
from experiments.kinds.network import LAYER_COLUMNS, LAYERS, Cell
from experiments.measuring.columns import names
from sdpa.theory.gradient_growth import StackLayer, attention_stack

BY_LAYER = "by_layer"  # the kind of the table
_LEAST_D_K = 32  # for overlaps within 1e-3
_LAW = columns_of_text(
    """
    stream_law float? law of stream; empty beside a mask, a rotation or an MLP, and below d_k = 32
    cosine_law float? law of cosine
    collision_law float? law of collision
    stream_gradient_law float? law of stream_gradient
    gradient_cosine_law float? law of gradient_cosine
    query_gradient_law float? law of query_gradient
    """
)


def law_of(cell: Cell, divisor: float) -> list[StackLayer]:
    """The law before each layer of a cell; NaN where there is none."""
    other = cell.mask != "none" or cell.position != "none" or cell.mlp != "none"
    if other or cell.d_k < _LEAST_D_K:
        return [StackLayer(*[math.nan] * len(StackLayer._fields))] * cell.layers
    query, key = (cell.width * each for each in cell.scheme.variances(cell.width, cell.d_k))
    return attention_stack(
        cell.layers,
        cell.d_k,
        cell.n_keys,
        divisor,
        cosine=cell.token_cosine,
        residual=cell.residual,
        variances=(query, key, key * key * cell.onto_stream),
        post_norm=cell.norm == "post",
    )


def with_law(results: Results) -> pd.DataFrame:
    """The table of layers with the law of each value."""
    found = [
        layer
        for cell in results.cells
        if isinstance(cell, Cell)
        for divisor in cell.divisors()
        for layer in law_of(cell, divisor)
    ]
    law = pd.DataFrame(found).add_suffix("_law")[names(_LAW)]
    return results[LAYERS].reset_index(drop=True).join(law)


TABLES = (
    Derived(
        BY_LAYER,
        needs={"layer", "stream_gradient"},
        columns=after_axes([*LAYER_COLUMNS, *_LAW]),
        derive=with_law,
        source=LAYERS,
    ),
)
