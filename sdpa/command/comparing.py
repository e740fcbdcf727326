"""Compare two runs of the same q and k, or scores: how far each head's attention is apart."""

import argparse
from pathlib import Path

import numpy as np

from sdpa.command.options import add_arrays, layout_of
from sdpa.command.output import add_options, aligned, legend, rows_of_columns, tell
from sdpa.command.words import read_as
from sdpa.diagnosis import COMPARED
from sdpa.diagnosis.two_runs import compare_heads
from sdpa.heads import Kind, read_heads
from sdpa.heads.table import Columns, columns_of, indices, together
from sdpa.scaling import SCALED

NAME = "compare"
_MOST_LINES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("a", type=Path, metavar="A", help="file with q and k of the reference")
    add("b", type=Path, metavar="B", help="file with q and k of the other run")
    add("--scores", action="store_true", help="both files have divided scores in place of q and k")
    add_arrays(parser)
    add_options(parser)


def run(given: argparse.Namespace) -> int:
    """Print the means over heads, and the heads that differ most.

    Raises:
        ValueError: the files do not have the same heads and masks, or `sdpa.compare` refuses them.
    """
    kind: Kind = "scores" if given.scores else "q"
    if kind == "q" and ".npy" in (given.a.suffix, given.b.suffix):
        raise ValueError(
            "expected a file for each run, with its q and k (.npz or .safetensors), got "
            f"{given.a} and {given.b}. A .npy file has one array: save each run by "
            'np.savez("a.npz", q=q, k=k), or compare two files of scores by --scores'
        )
    of_a, of_b = (read_heads([path], layout_of(given), kind) for path in (given.a, given.b))
    numbers = [[layer.number for layer in one] for one in (of_a, of_b)]
    if numbers[0] != numbers[1]:
        raise ValueError(f"expected the same layers, got {numbers[0]} in A and {numbers[1]} in B")
    tables = []
    for layers in zip(of_a, of_b, strict=True):
        (a, divisor_a), (b, divisor_b) = (
            (one.parts, one.divisor(given.scaling or SCALED)) for one in layers
        )
        tables.append(columns_of(layers[0], compare_heads(a, divisor_a, b, divisor_b), {}))
    table = together(tables)
    order = np.argsort(-table["divergence"], kind="stable")
    table = {name: values[order] for name, values in table.items()}
    text = f"A has {read_as(of_a[0], given.axes)}.\n{_text(table)}"
    tell(given, text, rows_of_columns(table))
    return 0


def _text(table: Columns) -> str:
    """The means over heads, a line for each of the heads that differ most, and a legend."""
    headings = {each.name: each.name.replace("_", " ") for each in COMPARED}
    means = (f"{heading} {table[name].mean():.4g}" for name, heading in headings.items())
    shown = {name: table[name] for name in indices(table)}
    shown |= {heading: table[name] for name, heading in headings.items()}
    meanings = {
        headings[each.name]: f"{each.meaning}{', in ' * bool(each.unit)}{each.unit}"
        for each in COMPARED
    }
    return (
        f"Mean over {len(table['rows'])} heads: {', '.join(means)}. Heads that differ most:\n\n"
        f"{aligned(rows_of_columns(shown)[:_MOST_LINES])}\n\n{legend(meanings)}"
    )
