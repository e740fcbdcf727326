"""Diagnose queries and keys, scores or weights: what the scale does to each head.

The exit status is 1 if the numbers of some heads ask for a change. docs/your-model.md explains
files and options.
"""

import argparse
from pathlib import Path

from sdpa._names import not_among
from sdpa.command import words
from sdpa.command.output import add_options, tell, wrapped
from sdpa.diagnosis.head_rows import naming
from sdpa.heads import Options, read_heads
from sdpa.heads.table import table_of
from sdpa.scaling import SCALED, Scaling

NAME = "diagnose"
_AXES = ("batch", "layer", "head", "position")
_MASKS = """none, causal, window-N or local-N; a FILE with a mask; padding to leave out rows of
equal numbers; or several, as causal,FILE"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_arrays(parser, "+", "q and k (one or two), scores or weights")


def run(given: argparse.Namespace) -> int:
    """Print the diagnosis; 1 if there is advice.

    Raises:
        ValueError: the options or the arrays do not fit together.
    """
    layers = read_heads(given.files, options_of(given))
    with naming(*given.files):
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


def add_arrays(parser: argparse.ArgumentParser, number: int | str, about: str) -> None:
    """The files, the options for what their arrays are, and those of all commands."""
    parser.add_argument("files", type=Path, nargs=number, metavar="FILE", help=about)
    parser.set_defaults(kind="q")
    kinds = parser.add_mutually_exclusive_group()
    for kind, text in {"scores": "divided scores", "weights": "weights after the softmax"}.items():
        told = f"the files have {text}, in place of q and k"
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, help=told)
    add = parser.add_argument
    add("--scaling", metavar="RULE", help=f"rule or divisor (default: {SCALED})")
    add("--mask", default="none", metavar="MASK", help=_MASKS)
    add("--axes", type=_axes, metavar="NAMES", help="axes of q but the last: batch,position,head")
    add("--cu-seqlens", type=Path, metavar="FILE", help="places of packed documents: 0, 7, 12")
    add_options(parser)


def _axes(text: str) -> tuple[str, ...]:
    names = tuple(text.replace(" ", "").split(","))
    for name in names:
        if name not in _AXES:
            raise argparse.ArgumentTypeError(not_among(name, _AXES))
    return names


def options_of(given: argparse.Namespace) -> Options:
    """What the options tell of files; ValueError for a rule beside scores or weights."""
    if given.kind != "q" and given.scaling:
        raise ValueError(f"--scaling: expected none beside {given.kind}, which are divided already")
    with naming("--scaling"):
        scaling = Scaling.parse(given.scaling or SCALED).name
    return Options(given.kind, scaling, given.mask, given.cu_seqlens, given.axes)
