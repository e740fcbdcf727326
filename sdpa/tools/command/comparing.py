"""Compare two runs of the same q and k, or scores: how far each head's attention is apart."""

import argparse
from dataclasses import replace
from itertools import repeat

import numpy as np

from sdpa.tools.command.diagnosing import add_arrays, options_of, read_as
from sdpa.tools.command.output import tell
from sdpa.tools.diagnosis.head_rows import prefixed_errors
from sdpa.tools.diagnosis.two_runs import compare_heads, report
from sdpa.tools.heads import Layer, read_heads
from sdpa.tools.heads.table import rows_of_layer
from sdpa.tools.listing import wrapped

NAME = "compare"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_arrays(parser, 2, "file of the reference, a, and of the other run, b")


def run(given: argparse.Namespace) -> int:
    """Print the means over heads, and the heads that differ most.

    Raises:
        ValueError: the files do not have the same heads and masks, or `sdpa.compare` refuses them.
    """
    options = options_of(given)
    read = [read_heads([path], options) for path in given.files]
    layers_a, layers_b = map(_split, read)
    numbers, others = ([layer.number for layer in layers] for layers in (layers_a, layers_b))
    with prefixed_errors(*given.files):
        if numbers != others:
            raise ValueError(
                f"expected the same layers in both, got numbers {numbers} and {others}"
            )
        table = [
            row
            for a, b in zip(layers_a, layers_b, strict=True)
            for row in rows_of_layer(a, compare_heads(a, b).columns(), {})
        ]
    table.sort(key=lambda row: -row["divergence"])
    a, b = given.files
    text = wrapped(f"Comparison of a, {a}, with b, {b}: {read_as(read[0][0])}")
    tell(given, f"{text}\n{report(table)}", table)
    return 0


def _split(layers: list[Layer]) -> list[Layer]:
    """The layers, by their place if they are an axis of one pair of arrays."""
    layer = layers[0]
    if "layer" not in layer.axes:
        return layers
    place = layer.axes.index("layer")
    axes = layer.axes[:place] + layer.axes[place + 1 :]
    q, k, mask = (
        repeat(None) if array is None else np.moveaxis(array, place, 0)
        for array in (layer.q, layer.k, layer.mask)
    )
    return [
        replace(layer, axes=axes, number=number, q=own_q, k=own_k, mask=own_mask)
        for number, (own_q, own_k, own_mask) in enumerate(zip(q, k, mask, strict=False))
    ]
