"""Figure of single rows, and its finding."""

from experiments.kinds.declarations import (
    Figure,
    Finding,
)
from experiments.kinds.support import (
    BOTH,
    Numbers,
    Tables,
    rows_of,
    widest,
)


def _rows(tables: Tables) -> Numbers:
    largest = widest(rows_of(tables, trial=0)).groupby(["scaling", "query"])["weight"].max()
    plain, root = (largest[rule].mean() for rule in BOTH)
    return {"plain": plain, "root": root} if plain > 1 / 2 > root else None


SUMMARY_COLUMNS = "trial", "query", "key", "scaled_score", "weight"
FIGURES = (
    Figure(
        name="rows",
        shows="Attention weights of a few queries under each scaling and d_k",
        metrics=("query", "key", "scaled_score", "weight"),
        along=("d_k",),
        note="the first draw alone",
        finding=Finding(
            sweep="single_rows",
            title="Without division, one key gets most of the weight",
            sentence="In this draw at d_k = {d_k.most:,}, the mean largest weight is {plain:.2f} "
            "without division, and {root:.2f} after division by d_k^1/2.",
            needs={"d_k": (), "scaling": BOTH},
            numbers=_rows,
        ),
    ),
)
