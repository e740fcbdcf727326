"""The meaning of the columns of a diagnosis.

`sdpa.diagnosis.QUANTITIES` declares what most columns mean; here are sizes and options.
"""

from experiments.measuring.columns import Column
from sdpa.diagnosis import QUANTITIES
from sdpa.heads.table import OUTSIDE_DOCUMENT

DIAGNOSIS_COLUMNS: tuple[Column, ...] = (
    Column(
        "layer",
        "int",
        "number of the layer, from the name of its arrays or along their axis of that name",
    ),
    Column("head", "int", "number of the head, likewise; other names of axes have a column too"),
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
    *(
        Column(each.name, "float", each.meaning, each.formula, each.unit)
        for each in (*QUANTITIES, OUTSIDE_DOCUMENT)
    ),
)
