"""Diagnose queries and keys, scores or weights: what the scale does to each head.

The exit status is 1 if the numbers of some heads ask for a change. docs/your-model.md explains
files and options.
"""

import argparse
from pathlib import Path

from sdpa.command import words
from sdpa.command.options import add_arrays, options_of
from sdpa.command.output import add_options, tell, wrapped
from sdpa.heads import naming, read_heads
from sdpa.heads.table import table_of

NAME = "diagnose"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="q and k (one or two), scores or weights",
    )
    add_arrays(parser)
    add_options(parser)


def run(given: argparse.Namespace) -> int:
    """Print the diagnosis; 1 if there is advice.

    Raises:
        ValueError: the options or the arrays do not fit together.
    """
    layers = read_heads(given.files, options_of(given))
    with naming(given.files):
        table = table_of(layers)
    told = words.advice(table)
    if told and all(layer.may_be_causal for layer in layers):
        # The model may be a decoder: then only what holds under both masks is advice.
        also = words.advice(table_of([layer.causal() for layer in layers]))
        told = {name: sentence for name, sentence in told.items() if name in also}
    parts = [
        f"Diagnosis of {' and '.join(map(str, given.files))}: {words.read_as(layers[0])}\n"
        f"{words.sizes(table)}",
        words.sharpest(table),
        "\n".join(told.values()) or words.NOTHING,
        "\n".join(words.notes(layers, table)),
    ]
    tell(given, "\n\n".join(filter(None, map(wrapped, parts))), table)
    return int(bool(told.keys() - {words.KEPT}))
