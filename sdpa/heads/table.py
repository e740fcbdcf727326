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
from sdpa.scaling import Scaling

Columns = dict[str, npt.NDArray[Any]]  # by name, each with a value for every head
OUTSIDE_DOCUMENT = Quantity(
    "outside_document",
    "share of the weight on keys of another document than the query's, of packed documents, "
    "where the mask alone hides keys",
    "sum over rows of sum_j w_j [document of j is another], over their number",
)


def table_of(layers: Sequence[Layer], scaling: str = "d_k^1/2", mask: str = "none") -> Columns:
    """The diagnosis of all heads, in the order of their arrays.

    Its columns number heads, such as layer and head; then come sizes and the quantities of
    `sdpa.diagnosis.QUANTITIES` with errors and exact values, as far as they are known. Rows of a
    document see its keys alone. The rule holds for q and k, and the mask is a name for the table.

    Raises:
        ValueError: an option does not fit the arrays, or `sdpa.diagnose` refuses them.
    """
    rule = Scaling.parse(scaling)
    tables = []
    for layer in layers:
        divisor = layer.divisor(rule)
        found = diagnosis_of(layer.parts, divisor)
        sizes = {"n_queries": found.n_queries, "n_keys": found.n_keys, "mask": mask}
        if found.d_k is not None:
            sizes = {"d_k": found.d_k, **sizes, "scaling": rule.name, "divisor": divisor}
        table = columns_of(layer, found, sizes | {"sequences": found.sequences})
        if layer.kind == "weights":  # they leave open what all scores of a row have in common
            del table["largest_absolute_score"]
        if layer.documents:
            table[OUTSIDE_DOCUMENT.name] = _outside_document(layer, divisor)
        tables.append(table)
    return together(tables)


def _outside_document(layer: Layer, divisor: float) -> FloatArray:
    """The share of the weight of each head that leaves its document."""
    lengths = [place.stop - place.start for place in layer.documents]
    document = np.repeat(np.arange(len(lengths)), lengths)
    shares = []
    for head in np.ndindex(layer.heads.shape):
        leaving = whole = 0.0
        for one in layer.heads.of_head(head):
            for rows, scores in one.tiles():
                weights = softmax(scores / divisor)
                is_outside = document[one.places[rows], np.newaxis] != document
                leaving += weights[is_outside].sum()
                whole += weights.sum()
        shares.append(leaving / whole)
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


def indices(names: Iterable[str]) -> list[str]:
    """The columns that number heads, such as layer and head, among the names of a table; none of a
    single head.
    """
    return [name for name in names if name in ("layer", "head")]
