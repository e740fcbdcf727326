"""Figure of what models do to scores, and its finding."""

from experiments.kinds.declarations import (
    METRICS_OF_ROWS,
    READING,
    Figure,
    Finding,
    Lines,
    Panel,
)
from experiments.kinds.support import (
    BOTH,
    LARGER_BY_A_TENTH,
    MEDIAN_GRADIENT,
    Numbers,
    Tables,
    exact_or_measured,
    rounded_down,
    rounded_up,
    rows_of,
    widest,
)
from experiments.measuring.experiment import MEASURED

_MECHANISM = ["normalize", "softcap", "sink", "normalizer"]


def _mechanisms(tables: Tables) -> Numbers:
    """None unless each mechanism of the sentence, with this cap alone, leaves wide rows sharp."""
    if {*tables[MEASURED]["softcap"]} != {0, 50}:
        return None
    for _, rows in tables[MEASURED].groupby(_MECHANISM):
        plain, scaled = (rows[rows["scaling"] == rule].sort_values("d_k") for rule in BOTH)
        lows = plain["max_weight_low"].to_numpy()
        highs = scaled["max_weight_high"].to_numpy()
        grows = lows[-1] > LARGER_BY_A_TENTH * plain["max_weight_high"].iloc[0]
        if not (grows and (highs < lows).all()):
            return None
    plain, scaled = (
        exact_or_measured(widest(rows_of(tables, scaling=rule)), "max_weight") for rule in BOTH
    )
    return {"least": rounded_down(plain.min(), 2), "most": rounded_up(scaled.max(), 2)}


SUMMARY_COLUMNS = METRICS_OF_ROWS
FIGURES = (
    Figure(
        name="mechanisms",
        shows="Largest weight and gradient under each mechanism",
        lines=Lines(
            "",
            (Panel("max_weight", floor=0), Panel(MEDIAN_GRADIENT)),
            (5.0, 3.1),
            facet_by="scaling",
        ),
        note=READING,
        finding=Finding(
            sweep="mechanisms",
            title="Before training, none of these mechanisms replaces the division",
            sentence="At d_k = {d_k.most:,} with a cap of 50, a sink, QK-norm or a "
            "sigmoid, the mean largest of {n_keys.most:,} weights is at least {least:.2f} without division, at most "
            "{most:.2f} with d_k^1/2.",
            needs={
                "d_k": (),
                "softcap": (0, 50),
                "sink": ("0",),
                "normalize": ("none", "rms"),
                "normalizer": ("softmax", "sigmoid"),
                "scaling": BOTH,
            },
            numbers=_mechanisms,
        ),
    ),
)
