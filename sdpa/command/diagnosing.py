"""Diagnose queries and keys, scores or weights: what the scale does to each head.

The exit status is 1 if the numbers of some heads ask for a change. docs/your-model.md explains
files and options.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from sdpa.command import words
from sdpa.command.options import add_arrays, layout_of
from sdpa.command.output import add_options, rows_of_columns, tell, wrapped
from sdpa.heads import Kind, read_heads
from sdpa.heads.table import table_of
from sdpa.scaling import SCALED

NAME = "diagnose"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("files", type=Path, nargs="*", metavar="FILE", help="one with q and k, or one for each")
    add("--scores", type=Path, metavar="FILE", help="divided scores, in place of q and k")
    add("--weights", type=Path, metavar="FILE", help="weights after the softmax, in place of q, k")
    add_arrays(parser)
    add("--cu-seqlens", type=Path, metavar="FILE", help="places of packed documents: 0, 7, 12")
    add_options(parser)


def run(given: argparse.Namespace) -> int:
    """Print the diagnosis; 1 if there is advice.

    Raises:
        ValueError: the options or the arrays do not fit together.
    """
    kind: Kind = "scores" if given.scores else "weights" if given.weights else "q"
    paths = [path for path in (*given.files, given.scores, given.weights) if path]
    if kind != "q" and (len(paths) > 1 or given.scaling):
        raise ValueError(f"--{kind}: expected no other arrays and no --scaling beside {kind}")
    if not paths:
        raise ValueError("expected files with queries and keys, such as q.npy k.npy or qk.npz")
    layout = layout_of(given)
    layers = read_heads(paths, layout, kind)
    options = given.scaling or SCALED, given.mask
    table = table_of(layers, *options)
    told = words.advice(table)
    if told and kind == "q" and all(layer.shown == 1 for layer in layers):
        # The model may be a decoder: then only what holds under both masks is advice.
        of_decoder = read_heads(paths, replace(layout, mask="causal"), kind)
        also = words.advice(table_of(of_decoder, *options))
        told = {name: sentence for name, sentence in told.items() if name in also}
    parts = [
        f"Diagnosis of {' and '.join(map(str, paths))}: {words.read_as(layers[0], given.axes)}\n"
        f"{words.sizes(table, layers)}",
        words.sharpest(table),
        "\n".join(told.values()) or words.NOTHING,
        "\n".join(words.notes(layers, table)),
    ]
    tell(given, "\n\n".join(filter(None, map(wrapped, parts))), rows_of_columns(table))
    return int(bool(told.keys() - {words.KEPT}))
