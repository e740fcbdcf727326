"""Diagnose queries and keys, scores or weights: what the scale does to each head.

The exit status is 1 if the numbers of some heads ask for a change. docs/your-model.md explains
files and options.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from sdpa._names import not_among
from sdpa.masks import MASKS, allowed_keys
from sdpa.scaling import SCALED, Scaling, multiplies
from sdpa.tools.command.output import add_options, tell
from sdpa.tools.diagnosis.advice import FACTS, advice, report
from sdpa.tools.diagnosis.head_rows import prefixed_errors
from sdpa.tools.diagnosis.quantities import OUTSIDE_DOCUMENT
from sdpa.tools.heads import Layer, Options, read_heads
from sdpa.tools.heads.table import table_of
from sdpa.tools.listing import Row, wrapped

NAME = "diagnose"
_AXES = ("batch", "layer", "head", "position")
_MASKS = f"""{", ".join(MASKS)}; a FILE with a mask; padding to leave out rows of equal numbers; or
several, as causal,FILE"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_arrays(parser, "+", "q and k (one or two), scores or weights")


def run(given: argparse.Namespace) -> int:
    """Print the diagnosis; 1 if there is advice.

    Raises:
        ValueError: the options or the arrays do not fit together.
    """
    layers = read_heads(given.files, options_of(given))
    with prefixed_errors(*given.files):
        table = table_of(layers)
    advised = advice(table)
    if advised and all(layer.may_be_causal for layer in layers):
        # The model may be a decoder: then only what holds under both masks is advice.
        causal = [replace(layer, mask=allowed_keys("causal", layer.mask.shape)) for layer in layers]
        also = advice(table_of(causal))
        advised = {name: sentence for name, sentence in advised.items() if name in also}
    paragraphs = [
        wrapped(f"Diagnosis of {' and '.join(map(str, given.files))}: {read_as(layers[0])}"),
        wrapped(sizes(table)),
        f"\n{report(table, advised)}",
    ]
    if sentences := notes(layers, table, advised):
        paragraphs += ["", *map(wrapped, sentences)]
    tell(given, "\n".join(paragraphs), table)
    return int(bool(advised.keys() - FACTS))


def add_arrays(parser: argparse.ArgumentParser, number: int | str, about: str) -> None:
    """The files, the options for what their arrays are, and those of all commands."""
    add = parser.add_argument
    add("files", type=Path, nargs=number, metavar="FILE", help=about)
    kinds = parser.add_mutually_exclusive_group()
    for kind, text in {"scores": "divided scores", "weights": "weights after the softmax"}.items():
        meaning = f"the files have {text}, in place of q and k"
        kinds.add_argument(
            f"--{kind}", dest="kind", action="store_const", const=kind, default="q", help=meaning
        )
    add("--scaling", metavar="RULE", help=f"rule or divisor (default: {SCALED})")
    add("--mask", default="none", metavar="MASK", help=_MASKS)
    add("--axes", type=_axes, metavar="NAMES", help="axes of q but the last: batch,position,head")
    add("--cu-seqlens", type=Path, metavar="FILE", help="places of packed documents: 0, 7, 12")
    add_options(parser)


def _axes(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in _AXES:
            raise argparse.ArgumentTypeError(not_among(name, _AXES))
    return names


def options_of(given: argparse.Namespace) -> Options:
    """What the options tell of files; ValueError for a rule beside scores or weights."""
    if given.kind != "q" and given.scaling:
        raise ValueError(f"--scaling: expected none beside {given.kind}, which are divided already")
    with prefixed_errors("--scaling"):
        scaling = Scaling.parse(given.scaling or SCALED).name
    return Options(given.kind, scaling, given.mask, given.cu_seqlens, given.axes)


def read_as(layer: Layer) -> str:
    """The shape of q, scores or weights in the file, with the names of the axes that are read, told
    or by their number.
    """
    q, k = layer.q, layer.k
    axes = *layer.axes, *(("query", "key") if k is None else ("position", "d_k"))
    text = f"{layer.options.kind} of shape {layer.saved} read as ({', '.join(axes)})"
    if layer.saved != q.shape:
        text += f" = {q.shape}"
    leading = "batch" if k is None else "batch, or q.reshape for heads side by side"
    other = {3: leading, 4: "layer,head", 5: "batch,layer,head"}.get(len(axes))
    if other and not layer.options.axes and layer.documents == (slice(None),):
        text += f", assumed from their number; if not, add --axes {other}"
    if k is not None and k.shape[:-2] != q.shape[:-2]:
        text += f"; k has shape {k.shape}: heads of q share its heads in groups"
    return text


def sizes(table: Sequence[Row]) -> str:
    """The sizes and options of a table of a diagnosis."""

    def values(name: str, digits: str = "") -> str:
        return " and ".join(sorted({f"{row[name]:{digits}}" for row in table}))

    text = (
        f"Heads {len(table)}, sequences {values('sequences')}, queries {values('n_queries')}, keys "
        f"{values('n_keys')}, mask {values('mask')}"
    )
    if "divisor" in table[0]:
        text += f"; q and k of width d_k = {values('d_k')}, scores divided by "
        text += f"{values('divisor', '.6g')} ({values('scaling')})"
    return text


def notes(layers: Sequence[Layer], table: Sequence[Row], advised: Mapping[str, str]) -> list[str]:
    """Sentences on the divisor, masks, padding and documents in files, and on products q.k that the
    type of q does not have, beside the advice that is told.
    """
    padding = sum(layer.padding for layer in layers)
    rounded = sum(layer.rounded for layer in layers)
    shown = fmean(layer.shown for layer in layers)
    shown_keys = min(layer.shown_keys for layer in layers)
    leaving = [row.get(OUTSIDE_DOCUMENT.name, 0.0) for row in table]
    divisor = min(row.get("divisor", 1.0) for row in table)
    reached = max(row.get("divisor", 0) * row.get("largest_absolute_score", 0) for row in table)
    sentences = {
        multiplies(divisor): divisor < 1,
        "If q is divided already, add --scaling unscaled.": divisor > 1 and "flat" in advised,
        "Every query sees every key of its sequence: for a decoder, add --mask causal.": (
            layers[0].may_be_causal
        ),
        f"Rows of equal numbers, as padding has: {padding}. They count; --mask causal,padding leaves "
        "them out, or --mask causal,FILE with the mask of tokens.": padding,
        f"Weights of 0 beside others that are hardly larger: {rounded}. They count as the smallest "
        "number of their type, and the spread of their heads is a lower bound.": rounded,
        f"Queries see {shown:.1%} of the keys of their sequence.": shown < 1,
        f"|q.k| reaches {reached:.3g}, above 65504, the largest float16: a product in this type is "
        "inf and makes the weights of its row nan, or -inf and hides its key.": (
            reached > 65504 and layers[0].q.itemsize == 2
        ),
        f"Packed documents: {'unless the model keeps them apart, ' if layers[0].k is not None else ''}"
        f"{fmean(leaving):.2%} of the weight leaves its document, and {max(leaving):.2%} in the head "
        "where it is most.": OUTSIDE_DOCUMENT.name in table[0],
        f"Masks show {shown_keys:.0%} of the keys of a sequence. In a file, True or 1 is a visible key: "
        "is yours the opposite?": shown_keys < 0.1,
    }
    return [sentence for sentence, holds in sentences.items() if holds]
