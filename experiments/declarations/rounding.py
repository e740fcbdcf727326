"""The figure of number formats."""

from experiments.declarations.figure import Default, Figure, Finding, Own
from experiments.declarations.tables import BOTH, Numbers, Tables, at_least, rows_of, widest
from sdpa.scaling import SCALED, UNSCALED

_LOST = ["zero_weights", "wrong_gradient_rows"]


def _formats(tables: Tables) -> Numbers:
    unscaled = widest(rows_of(tables, scaling=UNSCALED)).query("arithmetic != 'float64'")
    scaled = rows_of(tables, scaling=SCALED)
    holds = (unscaled[[f"{share}_low" for share in _LOST]] > 0).all(axis=None) and (
        scaled[_LOST] == 0
    ).all(axis=None)
    return {name: at_least(unscaled[name].min(), 2) for name in _LOST} if holds else None


FIGURES = (
    Figure(
        name="formats",
        shows="Weights and gradients that number formats lose, and exponentials that overflow",
        of="rounding",
        metrics=("zero_weights", "wrong_gradient_rows", "overflowing_rows"),
        default=Default(),
        own=Own(("d_k", "n_keys", "arithmetic")),
        note="Colours and numbers: shares; blank: not measured. Queries, keys, scores, weights and "
        "gradients are rounded to the format; sums, quotients and exponentials to single precision "
        "(in float64 to double), after subtracting the maximum. Gradients to the weights are "
        "standard normal.",
        finding=Finding(
            sweep="precision",
            title="Rounding loses more weights and gradients unscaled than under d_k^1/2",
            sentence="Unscaled at d_k = {d_k.most}, with 16 or 256 keys, in float32, bfloat16 and "
            "float16, at least {zero_weights:.0%} of the weights are 0, and at least "
            "{wrong_gradient_rows:.0%} of the gradients wrong by more than half of their length; "
            "under d_k^1/2, none are.",
            needs={
                "d_k": (),
                "n_keys": (16, 256),
                "arithmetic": ("float32", "bfloat16", "float16"),
                "scaling": BOTH,
            },
            numbers=_formats,
        ),
    ),
)
