"""Figure of the losses of trained decoders, and its finding."""

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
_RANKED = 9  # runs from which on the interval leaves out the extreme ones


def _losses(tables: Tables) -> Numbers:
    """None unless the unscaled decoder ends higher from unit q and k, and less than half as much
    higher from a small start.
    """
    found = {
        start: [
            rows_of(tables, "bands", scaling=rule, initial=start, initial_divisor=UNSCALED)
            for rule in BOTH
        ]
        for start in ("unit", "small")
    }
    plain, root = found["unit"]
    gaps = {
        start: unscaled["final_loss"].item() - scaled["final_loss"].item()
        for start, (unscaled, scaled) in found.items()
    }
    if not (is_below(root, plain, "final_loss") and 2 * gaps["small"] < gaps["unit"]):
        return None
    return {"plain": plain["final_loss"].item(), "root": root["final_loss"].item(), **gaps}


def _runs(tables: Tables) -> int:
    """Runs of each rule."""
    return int(tables[MEASURED]["trials"].max())


def _has_cut(tables: Tables) -> bool:
    """True if some losses stand at the top, as `Panel` says."""
    losses = tables[MEASURED]
    return bool(losses["final_loss"].min() <= _TOP < losses["final_loss_high"].max())


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
            title="From variance 1, unscaled decoders learn less at their best rate tried",
            sentence="In {layers.most} blocks and {steps.most} steps of Adam at d_k = {d_k.most}, the loss "
            "at the best rate tried is {plain:.2f} nats per character unscaled and {root:.2f} under "
            "d_k^1/2 if q and k start with variance 1; from N(0, 0.02²), the medians differ by {small:.2f}.",
            needs={
                "d_k": (),
                "n_keys": (),
                "learning_rate": (),
                "initial": ("unit", "small"),
                "initial_divisor": (UNSCALED,),
                "layers": (),
                "steps": (),
                "n_sequences": (),
                "scaling": BOTH,
            },
            numbers=_losses,
            reads=("bands",),
        ),
    ),
)
