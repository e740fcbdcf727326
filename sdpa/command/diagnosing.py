"""Diagnose queries and keys, scores or attention weights: what the scale does to each head.

The exit status is 1 if the numbers of some heads ask for a change. docs/your-model.md explains
files and options.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from sdpa._names import not_among
from sdpa.command import words
from sdpa.command.output import add_arrays, add_options, rows_of_columns, rule, tell, wrapped
from sdpa.heads import HeadArrays, Kind, Layout, notes, read_heads
from sdpa.heads.table import OUTSIDE_DOCUMENT, Columns, indices, table_of
from sdpa.heads.weights import ROUNDED
from sdpa.row_maps import RowMap
from sdpa.scaling import SCALED

NAME = "diagnose"
_LEAK = (
    "Packed documents attend to each other: give the attention of the model their places, or a mask "
    "of blocks. The rows are diagnosed as they are."
)
_AXES = ("batch", "layer", "head", "position")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("files", type=Path, nargs="*", metavar="FILE", help="one with q and k, or one for each")
    add("--scores", type=Path, metavar="FILE", help="divided scores, in place of q and k")
    add("--weights", type=Path, metavar="FILE", help="weights after the softmax, in place of q, k")
    add("--scaling", type=rule, metavar="RULE", help="scaling rule or divisor (default: d_k^1/2)")
    add_arrays(parser)
    add("--cu-seqlens", type=Path, metavar="FILE", help="places of packed sequences: 0, 7, 12")
    add("--softcap", type=float, default=0.0, metavar="C", help="soft cap of divided scores")
    add("--sink", metavar="SINK", help="logit of a sink, or a file with one for each head")
    add_options(parser)


def run(given: argparse.Namespace) -> int:
    """Print the diagnosis; 1 if there is advice.

    Raises:
        ValueError: the options or the arrays do not fit together.
    """
    named, saved = split_mask(given.mask)
    kind: Kind = "scores" if given.scores else "weights" if given.weights else "q"
    paths = [path for path in (*given.files, given.scores, given.weights) if path]
    of_vectors = any((given.scaling, given.heads, given.softcap, given.sink))
    if kind != "q" and (len(paths) > 1 or of_vectors):
        raise ValueError(
            f"--{kind}: expected no other arrays, --scaling, --heads, --softcap or --sink beside "
            f"{kind}"
        )
    if not paths:
        raise ValueError("expected files with queries and keys, such as q.npy k.npy or qk.npz")
    logit, sinks = split_sink(given.sink)
    layout = Layout(split_axes(given.axes), given.heads, saved, given.cu_seqlens, sinks)
    heads = read_heads(paths, layout, kind)
    if logit is not None:
        heads = [replace(each, sinks=None) for each in heads]
    row_map = RowMap(given.softcap, logit)
    scaling = given.scaling or SCALED
    table = table_of(heads, scaling, named, row_map)
    told, kept = words.advice(table)
    if OUTSIDE_DOCUMENT.name in table and table[OUTSIDE_DOCUMENT.name].max() > ROUNDED:
        told.append(_LEAK)
    parts = [
        f"Diagnosis of {' and '.join(map(str, paths))}, {words.read_as(heads[0])}\n"
        f"{words.sizes(table)}",
        words.sharpest(table),
        "\n".join([*told, *kept]),
        "\n".join([*notes(heads), *_of_files(heads, table)]),
    ]
    tell(given, "\n\n".join(filter(None, map(wrapped, parts))), rows_of_columns(table))
    return int(bool(told))


def split_mask(text: str | None) -> tuple[str | None, Path | None]:
    """The name of a mask and the file of one, from a text that has one of them or both.

    >>> split_mask("causal,mask.npy"), split_mask("window-512"), split_mask("mask.npy")
    (('causal', PosixPath('mask.npy')), ('window-512', None), (None, PosixPath('mask.npy')))
    """
    if not text or not Path(text).suffix:
        return text, None
    name, _, file = text.rpartition(",")
    return name or None, Path(file)


def split_sink(text: str | None) -> tuple[float | None, Path | None]:
    """The logit of a sink, or the file with one for each head.

    >>> split_sink("-0.5"), split_sink("sinks.npy")
    ((-0.5, None), (None, PosixPath('sinks.npy')))
    """
    if text is None:
        return None, None
    try:
        return float(text), None
    except ValueError:
        return None, Path(text)


def split_axes(text: str | None) -> tuple[str, ...] | None:
    """The names of axes; None for the usual ones. ValueError for another name.

    >>> split_axes("batch, position,head")
    ('batch', 'position', 'head')
    """
    if not text:
        return None
    names = tuple(text.replace(" ", "").split(","))
    for name in names:
        if name not in _AXES:
            raise ValueError(f"--axes: {not_among(name, _AXES)}")
    return names


def _of_files(heads: list[HeadArrays], table: Columns) -> list[str]:
    """Lines on masks, sinks and documents in files, and on products that overflow."""
    lines = words.overflow(heads, table)
    shown = [float(each.mask.mean()) for each in heads if each.mask is not None]
    if shown:
        lines.append(f"Masks in files show {np.mean(shown):.1%} of the pairs of a query and a key.")
    sinks = [each.sinks for each in heads if each.sinks is not None]
    if sinks:
        ends = min(map(np.min, sinks)), max(map(np.max, sinks))
        lines.append("Sinks in files have logits from {:.3g} to {:.3g}.".format(*ends))
    if OUTSIDE_DOCUMENT.name in table:
        share = table[OUTSIDE_DOCUMENT.name]
        most = share.argmax()
        place = " ".join(f"{name} {table[name][most]}" for name in indices(table))
        lines.append(
            f"Packed documents: {share.mean():.2%} of the weight leaves its document, most in "
            f"{place or 'the only head'} ({share[most]:.2%})."
        )
    return lines
