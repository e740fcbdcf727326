"""The meaning of the columns of a diagnosis.

`sdpa.diagnosis.QUANTITIES` declares what most columns mean; here are sizes and options.
"""

from collections.abc import Iterator

from experiments.measuring.columns import Column
from sdpa.diagnosis import QUANTITIES, Quantity
from sdpa.diagnosis.quantities import VISIBLE_MASS

_SIZES = (
    Column("d_k", "int", "width of queries and keys"),
    Column("n_queries", "int", "queries of a sequence"),
    Column("n_keys", "int", "keys of a sequence"),
    Column(
        "mask",
        "str",
        (
            "none; causal: each query sees only the keys up to its own position; window-N: the "
            "last N of them; local-N: its own and N on both sides"
        ),
    ),
    Column("scaling", "str", "scaling rule"),
    Column("divisor", "float", "divisor of the scores"),
    Column("sequences", "int", "independent sequences, between which standard errors come about"),
    Column("rows", "int", "rows that see two keys or more, over all sequences"),
)


def _of_quantity(quantity: Quantity) -> Iterator[Column]:
    """NAME, NAME_se unless it is a largest value, and NAME_exact where an exact value is known."""
    name = quantity.name
    parts = [("", quantity.meaning, quantity.formula)]
    if quantity.has_error:
        parts.append(("_se", f"standard error of {name} between sequences", ""))
    if quantity.gaussian:
        meaning = f"exact value of {name} for Gaussian rows of the same lengths and mean variance"
        parts.append(("_exact", meaning, ""))
    for suffix, meaning, formula in parts:
        yield Column(f"{name}{suffix}", "float", meaning, formula, quantity.unit, may_be_empty=True)


COLUMNS: tuple[Column, ...] = (
    Column(
        "layer",
        "int",
        "number of the layer, from the name of its arrays or along their axis of that name",
    ),
    Column("head", "int", "number of the head, likewise; other names of axes have a column too"),
    *_SIZES,
    *(column for quantity in (*QUANTITIES, VISIBLE_MASS) for column in _of_quantity(quantity)),
)
