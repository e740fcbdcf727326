"""Figures of whole networks at their start."""

from experiments.declarations.figure import Default, Figure, Finding
from experiments.declarations.tables import BOTH, MEDIAN, PLAIN, ROOT, Numbers, Tables, rows_of
from experiments.measuring.experiment import MEASURED

_FACTOR = 1.5  # of the law in root mean squares, at every layer


def _growth(tables: Tables) -> Numbers:
    """None unless the gradient grows most without a divisor, and the law is near at every layer."""
    deepest = tables[MEASURED]["layers"].max()
    found = rows_of(tables, layers=deepest).set_index("scaling")
    layers = rows_of(tables, "by_layer", layers=deepest)
    ratio = layers["stream_gradient"] / layers["stream_gradient_law"]
    apart = (
        found.loc[PLAIN, "stream_gradient_growth_low"]
        > 100 * (found.loc[ROOT, "stream_gradient_growth_high"])
    )
    if not (apart and ratio.between(_FACTOR**-2, _FACTOR**2).all()):
        return None
    return {
        "plain": found.loc[PLAIN, "stream_gradient_growth"] / 1e6,
        "root": found.loc[ROOT, "stream_gradient_growth"],
        "factor": _FACTOR,
    }


FIGURES = (
    Figure(
        name="growth",
        shows="Gradient to the stream, and cosine of tokens, layer by layer",
        of="network",
        metrics=("stream_gradient_growth", f"first_{MEDIAN}"),
        default=Default(),
        note="The deepest stack of the first case, with fresh random matrices and a random "
        "gradient above the last layer. Points: root mean squares and mean cosines before each "
        "layer, ± two standard errors. Lines: law of many heads in a wide stream.",
        finding=Finding(
            sweep="network",
            title="In random attention without a scale, gradients explode with depth",
            sentence="Through {layers.most} random pre-norm layers of attention, the r.m.s. "
            "gradient grows by a factor of {plain:.1f} million without a divisor, and of "
            "{root:.1f} under d_k^1/2; a law with nothing fitted is within a factor of {factor} at "
            "every layer.",
            needs={"d_k": 64, "n_keys": 64, "layers": (), "norm": "pre", "scaling": BOTH},
            numbers=_growth,
        ),
    ),
)
