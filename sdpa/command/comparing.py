"""Compare two runs of the same queries and keys, or scores: how far the attention of each head is apart."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sdpa.command.diagnosing import split_axes, split_mask
from sdpa.command.output import (
    Row,
    add_arrays,
    add_options,
    aligned,
    legend,
    rows_of_columns,
    rule,
    tell,
)
from sdpa.command.words import read_as
from sdpa.diagnosis import COMPARED, compare
from sdpa.heads import HeadArrays, Kind, Layout, read_heads
from sdpa.scaling import SCALED

NAME = "compare"
_MOST_LINES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("a", type=Path, metavar="A", help="file with q and k of the reference")
    add("b", type=Path, metavar="B", help="file with q and k of the other run")
    add("--scores", action="store_true", help="both files have divided scores in place of q and k")
    add("--scaling", type=rule, default=SCALED, metavar="RULE", help="scaling rule or divisor")
    add("--scaling-b", type=rule, metavar="RULE", help="that of B, if it differs")
    add_arrays(parser)
    add_options(parser)


def run(given: argparse.Namespace) -> int:
    """Print the means over heads, and the heads that differ most.

    Raises:
        ValueError: the files do not have the same heads and masks, or `sdpa.compare` refuses them.
    """
    named, saved = split_mask(given.mask)
    kind: Kind = "scores" if given.scores else "q"
    if kind == "q" and ".npy" in (given.a.suffix, given.b.suffix):
        raise ValueError(
            "expected a file for each run, with its q and k (.npz or .safetensors), got "
            f"{given.a} and {given.b}; a .npy file has one array, and --scores takes scores"
        )
    layout = Layout(split_axes(given.axes), given.heads, saved)
    of_a, of_b = (read_heads([path], layout, kind) for path in (given.a, given.b))
    if any(arrays.sinks is not None for arrays in (*of_a, *of_b)):
        raise ValueError("expected q and k without sinks, which a comparison does not know")
    numbers = [[arrays.numbers for arrays in one] for one in (of_a, of_b)]
    if numbers[0] != numbers[1]:
        raise ValueError(f"expected the same heads, got {numbers[0]} in A and {numbers[1]} in B")
    table = [
        row
        for a, b in zip(of_a, of_b, strict=True)
        for row in _compared(a, b, named, given.scaling, given.scaling_b)
    ]
    table.sort(key=lambda row: -row["divergence"])
    tell(given, f"A has {read_as(of_a[0])}.\n{_text(table)}", table)
    return 0


def _compared(
    a: HeadArrays, b: HeadArrays, mask: str | None, scaling: str, scaling_b: str | None
) -> list[Row]:
    """The rows of a pair of arrays; ValueError unless both have the same mask."""
    mask_a, mask_b = (np.asarray(each.visible(mask)) for each in (a, b))
    if not np.array_equal(mask_a, mask_b):
        raise ValueError(f"expected the same mask in A and B, got others beside {a.place}")
    of_a, of_b = (each.q if each.k is None else (each.q, each.k) for each in (a, b))
    found = compare(of_a, of_b, scaling, a.visible(mask), scaling_b=scaling_b, axes=a.leading)
    return [{**a.numbers, **row} for row in rows_of_columns(found.columns())]


def _text(table: Sequence[Row]) -> str:
    """The means over heads, a line for each of the heads that differ most, and a legend."""
    names = {each.name: each.name.replace("_", " ") for each in COMPARED}
    means = (
        f"{words} {np.mean([row[name] for row in table]):.4g}" for name, words in names.items()
    )
    measured = {"rows", *names, *(f"{name}_se" for name in names)}
    lines = [
        {name: str(row[name]) for name in row if name not in measured}
        | {words: f"{row[name]:.4g}" for name, words in names.items()}
        for row in table[:_MOST_LINES]
    ]
    meanings = {
        names[each.name]: f"{each.meaning}{', in ' * bool(each.unit)}{each.unit}"
        for each in COMPARED
    }
    return (
        f"Mean over {len(table)} heads: {', '.join(means)}. Heads that differ most:\n\n"
        f"{aligned(lines)}\n\n{legend(meanings)}"
    )
