"""The words about a diagnosis: sizes, the sharpest heads with a legend, and sentences about heads of
which a condition holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sdpa._arrays import BoolArray
from sdpa.command.output import aligned, legend, rows_of_columns
from sdpa.heads import Layer
from sdpa.heads.table import OUTSIDE_DOCUMENT, Columns, indices
from sdpa.scaling import multiplies

_MOST_LINES = 20
_MOST_NAMED = 3  # heads that a sentence names
_FEWEST_KEYS = 16  # beside which equal weights do not come near to a sink
_FEWEST_ROWS = 8  # of a sequence, in which one key does not get most weight by chance
# A head that is so much sharper than Gaussian rows of its spread picks its keys: another divisor is
# no remedy.
_SHARPER = 0.1
_LEAKS = 0.01  # of the weight


# The columns of the lines about heads, by heading: a field of a row of the table, and its meaning.
_COLUMNS = {
    "rows": ("{rows}", "queries of all sequences that see two keys or more"),
    "spread": ("{spread:.3g}", "standard deviation of the divided scores of a row"),
    "largest weight": ("{max_weight:.2f}", "that of a row, mean over rows"),
    "entropy": (
        "{entropy_share:.2f}",
        "mean over rows, as a share of its maximum: 1 for equal weights, 0 for one key alone",
    ),
    "saturated": ("{saturated_rows:.0%}", "share of rows with a weight above 0.99"),
    "gradient": (
        "{jacobian_norm_median:.3g}",
        "norm of the softmax's derivative, median over rows, at most 0.5: a factor of q's gradient",
    ),
    "top key": (
        "{most_attended_key:.0f}",
        "place of the key with most weight, from 0; nan if it differs between sequences",
    ),
    "its share": ("{most_attended_share:.0%}", "part of all weight that the top key gets"),
    "unit divisor": ("{unit_divisor:.3g}", "divisor of these scores for a spread of 1"),
}
_GAUSSIAN = {"max_weight_exact": "largest weight", "entropy_share_exact": "entropy"}
_BRACKETS = "exact value for rows of normal scores of this spread; q and k with structure differ"

# Sentences about heads, by name.
_ADVICE = {
    "saturated": (
        "most rows have a weight above 0.99, and pass almost no gradient to q and k. Before "
        "training, divide by more; a trained model may need such heads as they are."
    ),
    "flat": (
        "the spread is below 0.2, so that weights are almost equal, and the head averages. Check "
        "that scores are divided only once; if q is divided already, add --scaling unscaled."
    ),
    "wide": "the spread is above 2. Check that the scores are divided.",
}
_SINK = (
    "the top key gets most of the weight. Keep it in every cache and window: without it, other keys "
    "get this weight."
)
_LEAK = (
    "more than 1% of the weight leaves its document. Give the attention of the model the places of "
    "the documents, or a mask of blocks; the numbers above are those within documents."
)
NOTHING = "No advice: these numbers alone ask for no change."


def read_as(layer: Layer, told: str | None) -> str:
    """The shape of q, scores or weights, with the names of its axes, told or by their number."""
    q, k = layer.heads.q, layer.heads.k
    last = "query, key" if k is None else "position, d_k"
    lengths = dict(zip(("batch", *layer.heads.axes), q.shape, strict=False))
    shape = ", ".join(map(str, [*(lengths[name] for name in layer.axes), *q.shape[-2:]]))
    other = {2: "layer,head", 3: "batch,layer,head"}.get(len(layer.axes))
    is_assumed = other and not told and not layer.lengths
    assumed = f", assumed from their number; if not, add --axes {other}" if is_assumed else ""
    grouped = ""
    if k is not None and k.shape[:-2] != q.shape[:-2]:
        grouped = f"; {q.shape[-3]} heads of q share {k.shape[-3]} of k in groups"
    order = ", ".join([*layer.axes, last])
    return f"{layer.kind} of shape ({shape}) read as ({order}){assumed}{grouped}"


def sizes(table: Columns, layers: Sequence[Layer]) -> str:
    """The sizes and options of a table of a diagnosis, with a warning of one sequence."""
    sizes = {name: " and ".join(map(str, np.unique(values))) for name, values in table.items()}
    text = "{n_heads} heads, {sequences} sequences of {n_queries} queries and {n_keys} keys, mask {mask}"
    lines = []
    if "divisor" in table:
        divisor = table["divisor"].min()
        text += f"; q and k of width d_k = {{d_k}}, scores divided by {divisor:.6g} ({{scaling}})"
        lines.append(multiplies(divisor))
    if layers[0].kind != "weights" and not layers[0].has_mask:
        lines.append("Every query sees every key: for a decoder, add --mask causal.")
    if (table["sequences"] == 1).any():
        lines.append("No standard errors: they come from several sequences, an axis named batch.")
    return "\n".join(filter(None, [text.format(n_heads=len(table["rows"]), **sizes), *lines]))


# Lines on what arrays have, with the number of cases.
_NOTED = {
    "hidden": "Hidden keys: {} scores are more than 5,000 below 0 and the largest of their row.",
    "padding": (
        "Rows of {}, as padding has: {}. They count; --mask padding leaves them out, alone or as in "
        "--mask causal,padding, and so does a file with the mask of tokens, as in --mask causal,FILE."
    ),
    "zeros": (
        "Weights of 0 that the mask shows: {}. They hide their keys, but in heads whose smallest "
        "weights reach down to those that the number type rounds to 0: there they count as its "
        "smallest number, and the spread is a lower bound."
    ),
}


def notes(layers: Sequence[Layer], table: Columns) -> list[str]:
    """Lines on padding, masks and documents in files, and on products q.k that the type of q and k
    does not have.
    """
    lines = []
    for name, text in _NOTED.items():
        if count := sum(layer.noted.get(name, 0) for layer in layers):
            of_rows = "zeros" if layers[0].kind == "q" else f"equal {layers[0].kind}"
            lines.append(text.format(of_rows, count) if name == "padding" else text.format(count))
    shown = np.mean([layer.shown for layer in layers])
    if shown < 1:
        lines.append(f"Files and padding leave {shown:.1%} of the pairs of a query and a key.")
    if "divisor" in table:
        dtype = np.result_type(*(x for each in layers for x in (each.heads.q, each.heads.k)))
        reached = (table["largest_absolute_score"] * table["divisor"]).max()
        if reached > np.finfo(dtype).max:
            lines.append(
                f"|q.k| reaches {reached:.3g}, above {np.finfo(dtype).max:.6g}, the largest "
                f"{dtype.name}: a product in this type is inf and makes the weights of its row nan, "
                "or -inf and hides its key."
            )
    if OUTSIDE_DOCUMENT.name in table:
        share = table[OUTSIDE_DOCUMENT.name]
        most = share.argmax()
        place = " ".join(f"{name} {table[name][most]}" for name in indices(table))
        without = "without a mask of blocks, " * ("divisor" in table)
        lines.append(
            f"Packed documents: {without}{share.mean():.2%} of the weight leaves its document, most "
            f"in {place or 'the only head'} ({share[most]:.2%})."
        )
    return lines


def sharpest(table: Columns) -> str:
    """One line for each of the sharpest heads, below the headings of its columns, and their
    legend.
    """
    order = np.argsort(table["entropy_share"], kind="stable")[:_MOST_LINES]
    shown = {name: values[order] for name, values in table.items()}
    shown["spread"] = np.sqrt(shown["row_variance"])
    fields = {name: f"{{{name}}}" for name in indices(table)}
    fields |= {heading: field for heading, (field, _) in _COLUMNS.items()}
    meanings = {heading: meaning for heading, (_, meaning) in _COLUMNS.items()}
    for name, heading in _GAUSSIAN.items():
        if name in table:
            fields[heading] += f" ({{{name}:.2f}})"
            meanings["(in brackets)"] = _BRACKETS
    lines = [
        {name: text.format(**head) for name, text in fields.items()}
        for head in rows_of_columns(shown)
    ]
    rest = len(table["rows"]) - len(order)
    less = f"\nLess sharp heads, not shown: {rest}" if rest else ""
    return f"{aligned(lines)}{less}\n\n{legend(meanings)}"


def advice(table: Columns) -> tuple[dict[str, str], list[str]]:
    """Sentences on what to check or change, by name, and those on what to keep; none where the
    numbers of the table do not settle it.
    """
    variance, entropy = table["row_variance"], table["entropy_share"]
    has_sink = table["most_attended_share"] > 0.5
    has_sink &= table["rows"] >= _FEWEST_ROWS * table["sequences"]
    picks_keys = entropy < table.get("entropy_share_exact", math.nan) - _SHARPER
    # Rows that saturate on one key idle on purpose; beside a sink logit, gradients of saturated
    # rows may be large.
    is_stuck = (table["saturated_rows"] > 0.5) & ~has_sink & ~picks_keys
    conditions = {
        "saturated": is_stuck & ("visible_mass" not in table),
        # A single large score among many keys gives a small spread, too, but not a large entropy.
        "flat": (variance <= 0.2**2) & (entropy > 0.95),
        # All heads together: then the cause is rather the scale than what a head has learned.
        "wide": np.full(len(variance), (variance > 2.0**2).all()),
    }
    told = {
        name: _of_heads(_ADVICE[name], table, where)
        for name, where in conditions.items()
        if where.any()
    }
    # q and k do not know the mask of the model: their share is that without documents.
    leaks = table.get(OUTSIDE_DOCUMENT.name, np.zeros(1)) > _LEAKS
    if "divisor" not in table and leaks.any():
        told["leak"] = _of_heads(_LEAK, table, leaks)
    is_kept = has_sink & (table["n_keys"] >= _FEWEST_KEYS)
    return told, [_of_heads(_SINK, table, is_kept)] if is_kept.any() else []


def _of_heads(words: str, table: Columns, where: BoolArray) -> str:
    """A sentence about the heads where a mask is true, with the numbers of a few."""
    found = rows_of_columns({name: table[name][where] for name in indices(table)})
    names = ""
    if 0 < len(found) <= _MOST_NAMED:
        each = (" ".join(f"{name} {place}" for name, place in head.items()) for head in found)
        names = f" ({', '.join(each)})"
    return f"In {where.sum()} of {len(where)} heads{names}, {words}"
