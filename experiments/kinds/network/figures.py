"""Figures of whole networks at their start, with their findings."""

from experiments.kinds.declarations import CASES, Figure, Finding, Lines, Panel, When
from experiments.kinds.support import (
    BOTH,
    MEDIAN_GRADIENT,
    Numbers,
    Tables,
    knows,
    rows_of,
)
from experiments.measuring.experiment import MEASURED
from sdpa.scaling import SCALED, UNSCALED

_FACTOR = 1.5  # of the law in root mean squares, at every layer
_EXPLODED = 1e5  # the least growth, for a sentence in millions
_ERRORS = 3  # standard errors between two cosines
_ALIKE = 0.9  # the least cosine of tokens that are alike
_COSINE = "cosine of two tokens"
_BARS = "bars: two standard errors"
_BY_LAYER = "by_layer"  # the kind of the table
_LAW: When = {
    "lines: law of many heads": knows(_BY_LAYER, "cosine_law"),
    "lines without a law join points": (
        lambda tables: bool(tables[_BY_LAYER]["cosine_law"].isna().any())
    ),
}


def _growth(tables: Tables) -> Numbers:
    """None unless the gradient grows most without a divisor, and the law is near at every layer."""
    deepest = tables[MEASURED]["layers"].max()
    found = rows_of(tables, layers=deepest).set_index("scaling")
    layers = rows_of(tables, "by_layer", layers=deepest)
    ratio = layers["stream_gradient"] / layers["stream_gradient_law"]
    growth = "stream_gradient_growth"
    low = found.loc[UNSCALED, f"{growth}_low"]
    apart = low > max(_EXPLODED, 100 * found.loc[SCALED, f"{growth}_high"])
    if not (apart and ratio.between(_FACTOR**-2, _FACTOR**2).all()):
        return None
    return {
        "plain": found.loc[UNSCALED, growth] / 1e6,
        "root": found.loc[SCALED, growth],
        "factor": _FACTOR,
    }


def _propagation(tables: Tables) -> Numbers:
    """None unless unscaled tokens become alike later, with a residual stream or without one."""
    layers = tables["by_layer"].set_index(["residual", "layer"])
    plain, root = (layers[layers["scaling"] == rule] for rule in BOTH)
    reach = _ERRORS * plain["cosine_se"]
    apart = plain["cosine"] + reach < root["cosine"] - _ERRORS * root["cosine_se"]
    later = apart.loc[:, slice(2, 4)].all()
    last = (plain["cosine"] - reach).loc[0.0].iloc[-1]
    if not (later and last > _ALIKE):
        return None
    return {
        "root": root.loc[(0.0, 2), "cosine"],
        "plain": plain.loc[(0.0, 2), "cosine"],
        "late": plain.loc[(0.0, 5), "cosine"],
        "stream": plain.loc[(1.0, 5), "cosine"],
    }


FIGURES = (
    Figure(
        name="growth",
        shows="Gradient to the stream, and cosine of tokens, layer by layer",
        metrics=("stream_gradient_growth", f"first_{MEDIAN_GRADIENT}"),
        lines=Lines(
            "layer",
            (
                Panel(
                    "stream_gradient",
                    "gradient to the stream, r.m.s., over that above the last layer",
                    root=True,
                    only=("layers", max),
                ),
                Panel("cosine", _COSINE, floor=-0.03, only=("layers", max)),
            ),
            (5, 4.4),
            facet_by=CASES,
            columns=2,
            table=_BY_LAYER,
        ),
        note=f"a random gradient runs from right to left; {_BARS}",
        when=_LAW,
        finding=Finding(
            sweep="network",
            title="From a LeCun start, unscaled gradients explode towards the first layer",
            sentence="Back through {layers.most} pre-norm layers of attention without a mask, of independent "
            "tokens and with all matrices of variance 1/rows, so that q and k have variance 1, the "
            "root mean square gradient grows by a factor of {plain:.1f} million "
            "without a divisor, and of {root:.1f} under d_k^1/2; a law with nothing fitted is "
            "within a factor of {factor} at every layer.",
            needs={"d_k": 64, "n_keys": 64, "layers": (), "norm": "pre", "scaling": BOTH},
            numbers=_growth,
            reads=(_BY_LAYER,),
        ),
    ),
    Figure(
        name="propagation",
        shows="Cosine of two tokens, layer by layer",
        metrics=("cosine",),
        lines=Lines(
            "layer",
            (Panel("cosine", _COSINE, floor=-0.03),),
            (3.8, 3.8),
            facet_by=CASES,
            columns=3,
            table=_BY_LAYER,
        ),
        note=_BARS,
        when=_LAW,
        finding=Finding(
            sweep="collapse",
            title="From LeCun's start without a residual stream, unscaled tokens become alike later",
            sentence="With 64 tokens of cosine {token_cosine.most}, no mask, all matrices of variance 1/rows and "
            "no residual stream, the "
            "mean cosine after one layer is {root:.2f} under d_k^1/2 and {plain:.2f} unscaled; "
            "after four layers, it is {late:.2f} unscaled, and {stream:.2f} with a residual "
            "stream.",
            needs={
                "n_keys": 64,
                "n_heads": (),
                "token_cosine": (),
                "layers": (),
                "residual": (0, 1),
                "scaling": BOTH,
            },
            numbers=_propagation,
            reads=(_BY_LAYER,),
        ),
    ),
)
