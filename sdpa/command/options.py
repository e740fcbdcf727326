"""The options of the commands that read arrays."""

import argparse
from pathlib import Path

from sdpa._names import not_among
from sdpa.command.output import rule
from sdpa.heads import Layout
from sdpa.scaling import SCALED

_AXES = ("batch", "layer", "head", "position")
_PADDING = "padding"


def add_arrays(parser: argparse.ArgumentParser) -> None:
    """The options for the rule, the mask, and the axes of q."""
    add = parser.add_argument
    add("--scaling", type=rule, metavar="RULE", help=f"rule or divisor (default: {SCALED})")
    masks = "none, causal, window-N or local-N; a FILE with a mask; padding to leave out rows of "
    masks += "zeros or of equal weights; or several, as causal,FILE"
    add("--mask", default="none", metavar="MASK", help=masks)
    add("--axes", metavar="NAMES", help="axes of q but the last, such as batch,position,head")


def layout_of(given: argparse.Namespace) -> Layout:
    """What the options tell of files.

    >>> found = layout_of(argparse.Namespace(mask="causal,am.npy", axes="position, head"))
    >>> found.mask, found.mask_file, found.axes
    ('causal', PosixPath('am.npy'), ('position', 'head'))
    """
    parts = given.mask.split(",")
    files = [Path(part) for part in parts if Path(part).suffix]
    names = [part for part in parts if part != _PADDING and not Path(part).suffix]
    if len(files) > 1 or len(names) > 1:
        raise ValueError(f"--mask: expected one name and one file at most, got {given.mask}")
    axes = tuple(given.axes.replace(" ", "").split(",")) if given.axes else None
    for name in axes or ():
        if name not in _AXES:
            raise ValueError(f"--axes: {not_among(name, _AXES)}")
    ends = getattr(given, "cu_seqlens", None)
    file = files[0] if files else None
    return Layout(names[0] if names else "none", file, ends, _PADDING in parts, axes)
