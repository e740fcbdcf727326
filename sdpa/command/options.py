"""The options of the commands that read arrays."""

import argparse
from pathlib import Path

from sdpa._names import not_among
from sdpa.command.output import rule
from sdpa.heads import Options
from sdpa.scaling import SCALED

_AXES = ("batch", "layer", "head", "position")
_MASKS = """none, causal, window-N or local-N; a FILE with a mask; padding to leave out rows of
zeros or of equal weights; or several, as causal,FILE"""


def add_arrays(parser: argparse.ArgumentParser) -> None:
    """The options for the kind of arrays, the rule, the mask, and the axes of q."""
    parser.set_defaults(kind="q")
    kinds = parser.add_mutually_exclusive_group()
    for kind, text in {"scores": "divided scores", "weights": "weights after the softmax"}.items():
        about = f"the files have {text}, in place of q and k"
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, help=about)
    add = parser.add_argument
    add("--scaling", type=rule, metavar="RULE", help=f"rule or divisor (default: {SCALED})")
    add("--mask", default="none", metavar="MASK", help=_MASKS)
    add("--axes", type=_axes, metavar="NAMES", help="axes of q but the last: batch,position,head")
    add("--cu-seqlens", type=Path, metavar="FILE", help="places of packed documents: 0, 7, 12")


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
    return Options(given.kind, given.scaling or SCALED, given.mask, given.cu_seqlens, given.axes)
