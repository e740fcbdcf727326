"""Figure of schemes of initial weights, and its finding."""

from experiments.kinds.declarations import (
    READING,
    Figure,
    Finding,
    Lines,
    Panel,
)
from experiments.kinds.support import (
    Numbers,
    Tables,
    ends,
    is_level,
    rises,
    rows_of,
)
from sdpa.scaling import SCALED


def _initialisation(tables: Tables) -> Numbers:
    schemes = dict(list(rows_of(tables, scaling=SCALED).groupby("scheme")))
    level = [name for name, rows in schemes.items() if is_level(rows, "score_variance")]
    is_most = 2 * len(level) > len(schemes)
    if not (is_most and rises(schemes["gpt2"], "d_model", "score_variance")):
        return None
    return {**ends(schemes["gpt2"], "d_model", "score_variance"), "level": ", ".join(level)}


FIGURES = (
    Figure(
        name="initialisation",
        shows="Variance of scores and largest weight under each scheme of initial weights",
        lines=Lines(
            "scheme",
            (Panel("score_variance"), Panel("max_weight", equal="low")),
            (3.1, 2.9),
            by="d_model",
            facet_by="scaling",
        ),
        note=READING,
        finding=Finding(
            sweep="initialisation",
            title="Most schemes keep score variance under d_k^1/2 in wider models",
            sentence="From d_model = {d_model.least} to {d_model.most}, the variance of the scores of "
            "layer-normed tokens under d_k^1/2 changes by at most a tenth for {level}, and grows from {first:.2g} to "
            "{last:.2g} for gpt2. mup is meant for d_k^1, and t5 for no divisor.",
            needs={
                "d_model": (),
                "scheme": ("gpt2", "t5", "mup"),
                "scaling": (SCALED,),
            },
            numbers=_initialisation,
        ),
    ),
)
