"""The numbers of all heads of a user's arrays as one table of columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.attention import softmax
from sdpa.diagnosis import Estimates
from sdpa.diagnosis.estimates import diagnosis_of
from sdpa.diagnosis.quantities import Quantity
from sdpa.heads.reading import Layer

Columns = dict[str, npt.NDArray[Any]]  # by name, each with a value for every head
OUTSIDE_DOCUMENT = Quantity(
    "outside_document",
    "share of the weight on keys of another document than the query's, of packed documents, "
    "where the mask alone hides keys",
    "sum over rows of sum_j w_j [document of j is another], over their number",
)


def table_of(layers: Sequence[Layer]) -> Columns:
    """The diagnosis of all heads, in the order of their arrays.

    Its columns number heads, such as layer and head; then come sizes and the quantities of
    `sdpa.diagnosis.QUANTITIES` with errors and exact values, as far as they are known. Rows of a
    document see its keys alone.

    Raises:
        ValueError: an option does not fit the arrays, or `sdpa.diagnose` refuses them.
    """
    tables = []
    for layer in layers:
        parts = layer.parts
        found = diagnosis_of(parts)
        n_queries, n_keys = np.max([part.mask.shape[-2:] for part in parts], axis=0).tolist()
        sizes = {"n_queries": n_queries, "n_keys": n_keys, "mask": layer.options.mask}
        if layer.options.kind == "q":
            sizes = {"d_k": layer.heads.q.shape[-1], **sizes}
            sizes |= {"scaling": layer.options.scaling, "divisor": found.divisor}
        table = columns_of(layer, found, sizes | {"sequences": found.sequences})
        if layer.options.kind == "weights":  # what all scores of a row have in common is lost
            del table["largest_absolute_score"]
        if not layer.within.all():
            table[OUTSIDE_DOCUMENT.name] = _outside_document(layer)
        tables.append(table)
    return together(tables)


def _outside_document(layer: Layer) -> FloatArray:
    """The share of the weight of each head that leaves its document."""
    shares = []
    for head in np.ndindex(layer.heads.shape):
        leaving = [
            (softmax(scores / one.divisor) * ~layer.within[one.places[rows]]).sum(axis=-1)
            for one in layer.heads.of_head(head)
            for rows, scores in one.tiles()
        ]
        shares.append(np.concatenate(leaving).mean())
    return np.array(shares)


def columns_of(layer: Layer, found: Estimates, sizes: Mapping[str, object]) -> Columns:
    """The table of one pair of arrays, with sizes that its heads have in common."""
    columns = found.columns()
    places = {name: columns.pop(name) for name in found.axes}
    if layer.number is not None:
        if "layer" in places:
            raise ValueError("expected layers by the names of arrays or along an axis, got both")
        places = {"layer": np.full(found.rows.size, layer.number), **places}
    same = {name: np.full(found.rows.size, value) for name, value in sizes.items()}
    return places | same | columns


def together(tables: Sequence[Columns]) -> Columns:
    """One table below the other; ValueError unless all have the same columns."""
    if any(table.keys() != tables[0].keys() for table in tables):
        raise ValueError(
            "expected the same axes in each pair, and either one sequence or several in all, got "
            f"heads by {[indices(table) for table in tables]}"
        )
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def in_order(table: Columns, values: FloatArray) -> Columns:
    """The table from the head with the smallest of these values on."""
    order = np.argsort(values, kind="stable")
    return {name: column[order] for name, column in table.items()}


def indices(names: Iterable[str]) -> list[str]:
    """The columns that number heads, such as layer and head, among the names of a table; none of a
    single head.
    """
    return [name for name in names if name in ("layer", "head")]
