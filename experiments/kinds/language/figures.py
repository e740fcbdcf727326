"""The figure of the losses of trained decoders, and the sentence on what it shows."""

from experiments.kinds.declarations import CASES, Figure, Finding, Lines, Panel
from experiments.kinds.support import (
    BOTH,
    Numbers,
    Tables,
    is_below,
    rows_of,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import UNSCALED

_TOP = 4.0  # of an axis, in nats; a guess has 4.6
_FEWEST = 3  # runs whose range tells two rules apart
_RANKED = 9  # runs from which on the interval leaves out the extreme ones


def _losses(tables: Tables) -> Numbers:
    plain, root = (
        rows_of(tables, "bands", scaling=rule, initial="unit", initial_divisor=UNSCALED)
        for rule in BOTH
    )
    if len(plain) != 1 or _runs(tables) < _FEWEST or not is_below(root, plain, "final_loss"):
        return None
    if (plain["lowest_rate"] == plain["highest_rate"]).any():
        return None
    return {"plain": plain["final_loss"].item(), "root": root["final_loss"].item()}


def _runs(tables: Tables) -> int:
    """Runs of each rule."""
    return int(tables[MEASURED]["trials"].max())


def _has_cut(tables: Tables) -> bool:
    """True if some losses stand at the top, as `Panel` says."""
    losses = tables[MEASURED]
    return bool(losses["final_loss"].min() <= _TOP < losses["final_loss_high"].max())


SUMMARY_COLUMNS = (
    "final_loss",
    "diverged",
    "spread_after",
    "entropy_share_after",
    "query_gradient_median_after",
)
FIGURES = (
    Figure(
        name="losses",
        shows="Loss of a trained decoder, by rule",
        metrics=("final_loss", "diverged"),
        lines=Lines(
            "learning_rate",
            (Panel("final_loss", top=_TOP),),
            (3.8, 3.6),
            facet_by=CASES,
            columns=3,
        ),
        note="points: medians over runs",
        when={
            "bars: lowest to highest run": lambda tables: _runs(tables) < _RANKED,
            "bars: intervals of at least 95%": lambda tables: _runs(tables) >= _RANKED,
            f"losses above {_TOP:g} nats: at the top": _has_cut,
        },
        finding=Finding(
            sweep="language",
            title="A small language model trains to a lower loss with the division",
            sentence="From q and k of variance 1, {steps.most:,} steps bring a decoder to {plain:.2f} nats per "
            "character without division, and to {root:.2f} with d_k^1/2, each at its best rate.",
            needs={
                "learning_rate": (),
                "initial": ("unit", "small"),
                "initial_divisor": (UNSCALED,),
                "layers": (),
                "steps": (),
                "scaling": BOTH,
            },
            numbers=_losses,
            reads=("bands",),
        ),
    ),
)
