"""Figure of the distribution of scores, and its finding."""

from experiments.kinds.declarations import (
    HOLLOW,
    Figure,
    Finding,
)
from experiments.kinds.support import (
    Numbers,
    Tables,
    ends,
    has_few,
    rises,
)
from experiments.measuring.experiment import MEASURED


def _distribution(tables: Tables) -> Numbers:
    rows = tables[MEASURED]
    falls = rises(rows, "d_k", "score_kurtosis", falls=True)
    holds = falls and (rows["score_kurtosis_low"] > 0).all()
    return ends(rows, "d_k", "score_kurtosis") if holds else None


SUMMARY_COLUMNS = "score_variance", "score_kurtosis"
FIGURES = (
    Figure(
        name="distribution",
        shows="Distribution of one score, measured and exact, and its excess kurtosis",
        metrics=("score_variance", "score_kurtosis"),
        note="bars: 95% intervals of bins with 10 scores or more; lines: exact",
        when={HOLLOW: has_few("score_kurtosis")},
        finding=Finding(
            sweep="dot_products",
            title="Scores have heavier tails in narrow heads",
            sentence="The excess kurtosis of a textbook score falls from {first:.2g} at d_k = "
            "{d_k.least} to {last:.2g} at {d_k.most:,}, while a normal law has none.",
            needs={"d_k": ()},
            numbers=_distribution,
        ),
    ),
)
