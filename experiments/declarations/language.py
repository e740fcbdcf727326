"""The figure of decoders trained on text."""

from experiments.declarations.figure import Default, Figure, Finding
from experiments.declarations.tables import BOTH, Numbers, Tables, is_below, rows_of
from sdpa.scaling import UNSCALED


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


FIGURES = (
    Figure(
        name="losses",
        shows="Loss of a trained decoder over the learning rate, by rule",
        of="language",
        metrics=("final_loss", "diverged"),
        default=Default(varied=("learning_rate",)),
        note="Median loss of held-out text over runs, with its interval (75% for three runs, 94% "
        "for five, 96% for nine); hollow points: fewer than 20 runs. Crosses: most runs diverge. "
        "Losses above 4 nats stand at the top. At most nine cases have panels.",
        finding=Finding(
            sweep="language",
            title="An unscaled decoder learns less; a small start mends most of it",
            sentence="In {layers.most} blocks and {steps.most} steps at d_k = {d_k.most}, the loss "
            "at the best rate is {plain:.2f} nats unscaled and {root:.2f} under d_k^1/2 if q and k "
            "start with variance 1; from N(0, 0.02²), the medians differ by {small:.2f}.",
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
