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
from sdpa.scaling import UNSCALED


def _rows(tables: Tables) -> Numbers:
    drawn = widest(rows_of(tables, trial=0)).groupby(["scaling", "query"])["weight"].max()
    plain, root = (drawn[rule].mean() for rule in BOTH)
    holds = drawn[UNSCALED].median() > 1 / 2 > root
    return {"plain": plain, "root": root} if holds else None


FIGURES = (
    Figure(
        name="rows",
        shows="Attention weights of a few queries under each scaling and d_k",
        metrics=("query", "key", "scaled_score", "weight"),
        along=("d_k",),
        note="the first draw alone",
        finding=Finding(
            sweep="single_rows",
            title="In this draw, most unscaled wide rows give one key most weight",
            sentence="At d_k = {d_k.most}, the mean of the largest weights is {plain:.2f} unscaled, "
            "and {root:.2f} under d_k^1/2.",
            needs={"d_k": (), "n_keys": (), "scaling": BOTH},
            numbers=_rows,
        ),
    ),
)
