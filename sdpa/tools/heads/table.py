"""The numbers of all heads of a user's arrays as a table with a row for each head."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.attention import softmax
from sdpa.tools.diagnosis.estimates import diagnosis_of
from sdpa.tools.diagnosis.quantities import OUTSIDE_DOCUMENT
from sdpa.tools.heads.reading import Layer
from sdpa.tools.listing import Columns, Row, rows_of


def table_of(layers: Sequence[Layer]) -> list[Row]:
    """The diagnosis of all heads, in the order of their arrays.

    First come the numbers of a head, such as layer and head; then sizes and the quantities of
    `sdpa.tools.diagnosis.QUANTITIES` with errors and exact values, as far as they are known. Rows of a
    document see its keys alone.

    Raises:
        ValueError: an option does not fit the arrays, or `sdpa.diagnose` refuses them.
    """
    return [row for layer in layers for row in _diagnosed(layer)]


def _diagnosed(layer: Layer) -> list[Row]:
    options = layer.options
    diagnosis = diagnosis_of(layer)
    n_queries, n_keys = layer.longest
    sizes = {"n_queries": n_queries, "n_keys": n_keys, "mask": options.mask}
    if options.kind == "q":
        sizes = {
            "d_k": layer.q.shape[-1],
            **sizes,
            "scaling": options.scaling,
            "divisor": diagnosis.divisor,
        }
    columns = diagnosis.columns()
    if options.kind == "weights":  # what all scores of a row have in common is lost
        del columns["largest_absolute_score"]
    if len(layer.documents) > 1:
        columns[OUTSIDE_DOCUMENT.name] = _outside_document(layer)
    return rows_of_layer(layer, columns, sizes | {"sequences": diagnosis.sequences})


def _outside_document(layer: Layer) -> FloatArray:
    """The share of the weight of each head that leaves its document."""
    outside = ~layer.within
    shares = []
    for sequences in replace(layer, scaling=layer.divisor, documents=(slice(None),)).by_head():
        leaving = [
            (softmax(tile.scores / tile.divisor) * outside[tile.places]).sum(axis=-1)
            for sequence in sequences
            for tile in sequence.tiles()
        ]
        shares.append(np.concatenate(leaving).mean())
    return np.array(shares)


def rows_of_layer(layer: Layer, columns: Columns, sizes: Row) -> list[Row]:
    """The table of one pair of arrays, from `Diagnosis.columns` and sizes that its heads share."""
    first = dict.fromkeys(layer.shape)
    if layer.number is not None:
        if "layer" in first:
            raise ValueError("expected layers by the names of arrays or along an axis, got both")
        first = {"layer": layer.number, **first}
    return [{**first, **sizes, **head} for head in rows_of(columns)]
