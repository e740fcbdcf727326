"""The table of all layers of a sweep of `network`, beside the law of wide networks of many heads.

The law (`sdpa.theory.special.gradient_growth`) has no mask, no rotation and no MLP, and knows no exact
values at a finite width: its columns are `_law`, not `_exact`. The check tests what lies beyond 5%
of it, where it is known to be closer (docs/network.md).
"""

import math

import numpy as np
import pandas as pd
from scipy import special

from experiments.kinds.network.cell import LAYER_COLUMNS, LAYERS, Cell
from experiments.measuring.cells import CELL, for_cells
from experiments.measuring.columns import Column
from experiments.measuring.intervals import MIN_TRIALS
from experiments.tables.derived import Derived
from experiments.tables.results import Results
from sdpa.theory import UnknownError
from sdpa.theory.special.gradient_growth import StackLayer, attention_stack

BY_LAYER = "by_layer"  # the kind of the table
_LEAST_D_K = 32  # for overlaps within 1e-3
# Where networks of a finite width are closer to the law than 5%, and their errors are reliable.
_HOLDS = (
    "norm == 'pre' and residual >= 1 and n_heads >= 4 and n_heads * d_k >= 4 * n_keys "
    f"and trials >= {MIN_TRIALS}"
)
_SLACK, _MOST_ERROR = 0.05, 0.025  # of a value
_GROWTH = "stream_gradient_growth"
_LAW = (
    Column(
        "stream_law",
        "float",
        "law of stream; empty beside a mask, a rotation or an MLP, and below d_k = 32",
        may_be_empty=True,
    ),
    Column("cosine_law", "float", "law of cosine", may_be_empty=True),
    Column("collision_law", "float", "law of collision", may_be_empty=True),
    Column("stream_gradient_law", "float", "law of stream_gradient", may_be_empty=True),
    Column("gradient_cosine_law", "float", "law of gradient_cosine", may_be_empty=True),
    Column("query_gradient_law", "float", "law of query_gradient", may_be_empty=True),
)


@for_cells(Cell)
def law_of(cell: Cell) -> list[StackLayer]:
    """The law before each layer of a cell of one rule; NaN where there is none."""
    unknown = [StackLayer(*[math.nan] * len(StackLayer._fields))] * cell.layers
    other = cell.mask != "none" or cell.position != "none" or cell.mlp != "none"
    if other or cell.d_k < _LEAST_D_K:
        return unknown
    query, key = (cell.width * variance for variance in cell.scheme.variances(cell.width, cell.d_k))
    try:
        return attention_stack(
            cell.layers,
            cell.d_k,
            cell.n_keys,
            cell.divisor,
            cosine=cell.token_cosine,
            residual=cell.residual,
            variances=(query, key, key * key * cell.onto_stream),
            post_norm=cell.norm == "post",
        )
    except UnknownError:
        return unknown


def with_law(results: Results) -> pd.DataFrame:
    """The table of layers with the law of each value."""
    layers = results[LAYERS]
    laws = {cell: law_of(cell) for cell in layers[CELL].unique()}
    by_row = [laws[cell][layer - 1] for cell, layer in layers[[CELL, "layer"]].to_numpy()]
    return layers.join(pd.DataFrame(by_row, layers.index).add_suffix("_law"))


def beside_law(results: Results) -> pd.DataFrame:
    """The z and p-value (Student's t) of the distance beyond 5% of the law: of the growth of
    gradients, and of the stream and the collision before every layer.

    Without stacks with post-norm, a weak stream, fewer than four heads or more tokens than a fourth
    of the width, fewer than 20 stacks, and standard errors above 2.5%.
    """
    layers = results[BY_LAYER]
    same = [*results.axes.among(layers), "scaling"]
    measured = results.measured[[*same, _GROWTH, f"{_GROWTH}_se"]]
    growth = layers.query("layer == 1").merge(measured, on=same)
    growth[f"{_GROWTH}_law"] = np.sqrt(growth["stream_gradient_law"])
    tables = []
    for name, table in ((_GROWTH, growth), ("stream", layers), ("collision", layers)):
        rows = table.query(_HOLDS)
        measured, error, law = (rows[f"{name}{end}"] for end in ("", "_se", "_law"))
        difference = measured - law
        z = (difference - difference.clip(-_SLACK * law, _SLACK * law)) / error
        p_values = 2 * special.stdtr(rows["trials"] - 1, -z.abs())
        tested = rows.assign(metric=name, z=z, p_value=p_values)
        tables.append(tested[error <= _MOST_ERROR * measured])
    return pd.concat(tables)


TABLES = (
    Derived(
        BY_LAYER,
        own=(*LAYER_COLUMNS, *_LAW),
        derive=with_law,
        source=LAYERS,
        judge=beside_law,
    ),
)
