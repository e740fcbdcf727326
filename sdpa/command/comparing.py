"""Compare two runs of the same queries and keys, or scores: how far the attention of each head is apart."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdpa.command.diagnosing import split_axes, split_mask
from sdpa.command.output import (
    Row,
    add_arrays,
    add_options,
    aligned,
    check,
    rows_of,
    rule,
    tell,
    wrapped,
)
from sdpa.command.words import read_as
from sdpa.diagnosis import COMPARED, compare
from sdpa.heads import HeadArrays, Kind, Layout, read_heads
from sdpa.scaling import SCALED, multiplies, resolve_divisor

NAME = "compare"
_MOST_LINES = 20
_SHOWN = {quantity.name: quantity.name.replace("_", " ") for quantity in COMPARED}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("a", type=Path, metavar="A", help="file with q and k of the reference")
    add("b", type=Path, metavar="B", help="file with q and k of the other run")
    add("--scores", action="store_true", help="both files have divided scores in place of q and k")
    add(
        "--scaling",
        type=rule,
        default=SCALED,
        metavar="RULE",
        help="scaling rule (default: %(default)s)",
    )
    add("--scaling-b", type=rule, metavar="RULE", help="that of B, if it differs")
    add_arrays(parser)
    add_options(parser)


def run(given: argparse.Namespace) -> int:
    """Print at most three sentences, and the heads that differ most.

    Raises:
        ValueError: the files do not have the same heads, or `sdpa.compare` refuses them.
    """
    named, saved = split_mask(given.mask or "none")
    check(given, filter(None, [given.a, given.b, saved]))
    kind: Kind = "scores" if given.scores else "q"
    if kind == "q" and any(path.suffix.lower() == ".npy" for path in (given.a, given.b)):
        raise ValueError(
            "expected a file for each run, with its q and k (.npz or .safetensors), got "
            f"{given.a} and {given.b}; a .npy file has one array, and --scores takes scores"
        )
    layout = Layout(split_axes(given.axes), given.heads, saved)
    of_a, of_b = (read_heads([path], layout, kind) for path in (given.a, given.b))
    if any(pair.sinks is not None for pair in (*of_a, *of_b)):
        raise ValueError("expected q and k without sinks, which a comparison does not know")
    numbers = [[pair.numbers for pair in run] for run in (of_a, of_b)]
    if numbers[0] != numbers[1]:
        raise ValueError(f"expected the same heads, got {numbers[0]} in A and {numbers[1]} in B")
    found = [
        compare(
            _run(a),
            _run(b),
            given.scaling,
            a.visible(named),
            scaling_b=given.scaling_b,
            mask_b=b.visible(named),
            axes=a.leading,
        )
        for a, b in zip(of_a, of_b, strict=True)
    ]
    table = [
        {**place, **row}
        for place, comparison in zip(numbers[0], found, strict=True)
        for row in rows_of(comparison.columns())
    ]
    table.sort(key=lambda row: -row["divergence"])
    largest = [comparison["divergence"].value.max() for comparison in found]
    worst = int(np.argmax(largest))
    place = ", ".join(f"{name} {number}" for name, number in numbers[0][worst].items())
    where = f"Of {len(found)} pairs of arrays, {place} differs most. " if len(found) > 1 else ""
    line = ""
    if kind == "q":
        rules = (given.scaling, of_a), (given.scaling_b or given.scaling, of_b)
        line = multiplies(min(_divisor(rule, pair) for rule, run in rules for pair in run))
    told = wrapped(f"{where}{found[worst]}\nA has {read_as(of_a[0])}.\n{line}")
    tell(given, f"{told}\n\n{_lines(table)}", table)
    return 0


def _divisor(scaling: str, arrays: HeadArrays) -> float:
    return resolve_divisor(scaling, arrays.q.shape[-1], arrays.shape[-1])


def _run(arrays: HeadArrays) -> Any:
    """A side of `compare`."""
    return arrays.q if arrays.k is None else (arrays.q, arrays.k)


def _lines(table: Sequence[Row]) -> str:
    """A line for each of the heads that differ most."""
    measured = (*_SHOWN, *(f"{name}_se" for name in _SHOWN), "rows")
    indices = [name for name in table[0] if name not in measured]
    lines = [
        {
            **{name: str(row[name]) for name in indices},
            **{words: f"{row[name]:.3g}" for name, words in _SHOWN.items()},
        }
        for row in table[:_MOST_LINES]
    ]
    rest = len(table) - len(lines)
    return aligned(lines) + (f"\nHeads that differ less, not shown: {rest}" if rest else "")
