"""Figure of what models do to scores, and its finding."""

from experiments.kinds.declarations import (
    GRADIENT,
    READING,
    Figure,
    Finding,
    Lines,
    Panel,
)
from experiments.kinds.support import (
    A_TENTH,
    BOTH,
    MEDIAN_GRADIENT,
    Numbers,
    Tables,
    at_least,
    at_most,
    rows_of,
    widest,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import SCALED, UNSCALED

_MECHANISM = ["normalize", "softcap", "sink", "normalizer"]


def _mechanisms(tables: Tables) -> Numbers:
    for _, rows in tables[MEASURED].groupby(_MECHANISM):
        plain, scaled = (rows[rows["scaling"] == rule].sort_values("d_k") for rule in BOTH)
        lows = plain["max_weight_low"].to_numpy()
        highs = scaled["max_weight_high"].to_numpy()
        grows = lows[-1] > A_TENTH * plain["max_weight_high"].iloc[0]
        if not (grows and (highs < lows).all()):
            return None
    return {
        "least": at_least(widest(rows_of(tables, scaling=UNSCALED))["max_weight"].min(), 2),
        "most": at_most(widest(rows_of(tables, scaling=SCALED))["max_weight"].max(), 2),
    }


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
        note=f"{READING}; {GRADIENT}",
        finding=Finding(
            sweep="mechanisms",
            title="Under every mechanism here, unscaled wide heads have larger top weights",
            sentence="At d_k = {d_k.most}, the mean largest of {n_keys.most} weights is at least "
            "{least:.2f} without sqrt(d_k) in plain attention, under a soft cap of 50, a sink of logit 0, q and k "
            "normalized to entries of mean square 1, and a sigmoid with the bias -ln n_keys, and at "
            "most {most:.2f} with it.",
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
