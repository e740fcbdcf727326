"""The figure of schemes of initial weights, and the sentence on what it shows."""

from experiments.kinds.declarations import (
    METRICS_OF_ROWS,
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
    exact_or_measured,
    is_level,
    rises,
    rows_of,
)
from sdpa.scaling import SCALED


def _initialisation(tables: Tables) -> Numbers:
    gpt2, xavier = (rows_of(tables, scaling=SCALED, scheme=scheme) for scheme in ("gpt2", "xavier"))
    variance = "score_variance"
    if not (rises(gpt2, "d_model", variance) and is_level(xavier, variance)):
        return None
    return {
        **ends(gpt2, "d_model", variance),
        "level": exact_or_measured(xavier, variance).median(),
    }


SUMMARY_COLUMNS = "d_k", *METRICS_OF_ROWS
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
            title="GPT-2's initial weights give wider models larger scores",
            sentence="From d_model = {d_model.least:,} to {d_model.most:,}, the variance of scores "
            "divided by d_k^1/2 rises from {first:.2g} to {last:.2g} for gpt2, and stays near "
            "{level:.2g} for xavier.",
            needs={"d_model": (), "scheme": ("gpt2", "xavier"), "scaling": (SCALED,)},
            numbers=_initialisation,
        ),
    ),
)
