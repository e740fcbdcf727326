"""The words about a diagnosis: sizes, the sharpest heads with a legend, and sentences about heads of
which a condition holds.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from sdpa._arrays import BoolArray
from sdpa.command.output import aligned, legend, rows_of_columns
from sdpa.heads import Layer
from sdpa.heads.table import OUTSIDE_DOCUMENT, Columns, in_order, indices
from sdpa.scaling import multiplies

_MOST_LINES = 20
_MOST_NAMED = 3  # heads that a sentence names
_FEWEST_KEYS = 16  # beside which equal weights do not come near to a sink
_FEWEST_ROWS = 8  # of a sequence, in which one key does not get most weight by chance
# A head that is so much sharper than Gaussian rows of its spread picks its keys: another divisor is
# no remedy.
_SHARPER = 0.1
_LEAKS = 0.01  # of the weight


_COLUMNS = {
    "rows": ("{rows}", "queries of all sequences that see two keys or more"),
    "spread": ("{spread:.3g}", "standard deviation of the divided scores of a row"),
    "largest weight": (
        "{max_weight:.2f} ({max_weight_exact:.2f})",
        "that of a row, mean over rows",
    ),
    "entropy": (
        "{entropy_share:.2f} ({entropy_share_exact:.2f})",
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
_BRACKETS = "exact value for rows of normal scores of this spread; q and k with structure differ"

KEPT = "sink"  # the sentence that asks for no change
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
    "leak": (
        "more than 1% of the weight leaves its document. Give the attention of the model the places "
        "of the documents, or a mask of blocks; the numbers above are those within documents."
    ),
    KEPT: (
        "the top key gets most of the weight. Keep it in every cache and window: without it, other "
        "keys get this weight."
    ),
}
NOTHING = "No advice: these numbers alone ask for no change."


def read_as(layer: Layer) -> str:
    """The shape of q, scores or weights, with the names of its axes, told or by their number."""
    q, k = layer.heads.q, layer.heads.k
    shape, axes = layer.read_as
    text = f"{layer.options.kind} of shape {shape} read as ({', '.join(axes)})"
    other = {4: "layer,head", 5: "batch,layer,head"}.get(len(axes))
    if other and not layer.options.axes:
        text += f", assumed from their number; if not, add --axes {other}"
    if k is not None and k.shape[:-2] != q.shape[:-2]:
        text += f"; {q.shape[-3]} heads of q share {k.shape[-3]} of k in groups"
    return text


def sizes(table: Columns, layers: Sequence[Layer]) -> str:
    """The sizes and options of a table of a diagnosis, with a warning of one sequence."""
    sizes = {name: " and ".join(map(str, np.unique(values))) for name, values in table.items()}
    text = "Heads {count}, sequences {sequences}, queries {n_queries}, keys {n_keys}, mask {mask}"
    lines = []
    if "divisor" in table:
        divisor = table["divisor"].min()
        text += f"; q and k of width d_k = {{d_k}}, scores divided by {divisor:.6g} ({{scaling}})"
        lines.append(multiplies(divisor))
    if layers[0].may_be_causal:
        lines.append(
            "Every query sees every key of its sequence: for a decoder, add --mask causal."
        )
    if (table["sequences"] == 1).any():
        lines.append("No standard errors: they come from several sequences, an axis named batch.")
    return "\n".join(filter(None, [text.format(count=len(table["rows"]), **sizes), *lines]))


_PADDING = (
    "Rows of {}, as padding has: {}. They count; --mask padding leaves them out, alone or as in "
    "--mask causal,padding, and so does a file with the mask of tokens, as in --mask causal,FILE."
)
_ROUNDED = (
    "Weights of 0 beside others that are hardly larger: {}. They count as the smallest number of "
    "their type, and the spread of their heads is a lower bound."
)


def notes(layers: Sequence[Layer], table: Columns) -> list[str]:
    """Lines on padding, masks and documents in files, and on products q.k that the type of q and k
    does not have.
    """
    kind = layers[0].options.kind
    of_rows = "zeros" if kind == "q" else f"equal {kind}"
    padding, rounded = np.sum([(layer.padding, layer.rounded) for layer in layers], axis=0)
    lines = [_PADDING.format(of_rows, padding)] if padding else []
    if rounded:
        lines.append(_ROUNDED.format(rounded))
    shown = np.mean([layer.shown for layer in layers])
    if shown < 1:
        lines.append(f"Queries see {shown:.1%} of the keys of their sequence.")
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
        without = "without a mask of blocks, " * ("divisor" in table)
        lines.append(
            f"Packed documents: {without}{share.mean():.2%} of the weight leaves its document, and "
            f"{share.max():.2%} in the head where it is most."
        )
    return lines


def sharpest(table: Columns) -> str:
    """`listed` of the sharpest heads."""
    table = table | {"spread": np.sqrt(table["row_variance"])}
    return (
        f"{listed(in_order(table, table['entropy_share']), _COLUMNS)}\n(in brackets): {_BRACKETS}"
    )


def listed(table: Columns, columns: Mapping[str, tuple[str, str]]) -> str:
    """One line for each of the first heads, below the headings of its columns, and their legend.

    By heading, a column has a field of a row of the table, and a meaning.
    """
    fields = {name: f"{{{name}}}" for name in indices(table)}
    fields |= {heading: field for heading, (field, _) in columns.items()}
    heads = rows_of_columns(table)
    shown = heads[:_MOST_LINES]
    lines = [{name: text.format(**head) for name, text in fields.items()} for head in shown]
    rest = len(heads) - len(shown)
    less = f"\nFurther heads, not shown: {rest}" if rest else ""
    meanings = {heading: meaning for heading, (_, meaning) in columns.items()}
    return f"{aligned(lines)}{less}\n\n{legend(meanings)}"


def advice(table: Columns) -> dict[str, str]:
    """Sentences on what to check, to change or to keep, by name; none where the numbers of the
    table do not settle it.
    """
    variance, entropy = table["row_variance"], table["entropy_share"]
    has_sink = table["most_attended_share"] > 0.5
    has_sink &= table["rows"] >= _FEWEST_ROWS * table["sequences"]
    picks_keys = entropy < table["entropy_share_exact"] - _SHARPER
    conditions = {
        # Rows that saturate on one key idle on purpose.
        "saturated": (table["saturated_rows"] > 0.5) & ~has_sink & ~picks_keys,
        # A single large score among many keys gives a small spread, too, but not a large entropy.
        "flat": (variance <= 0.2**2) & (entropy > 0.95),
        # All heads together: then the cause is rather the scale than what a head has learned.
        "wide": (variance > 2.0**2) & (variance > 2.0**2).all(),
        # q and k do not know the mask of the model: their share is that without documents.
        "leak": (table.get(OUTSIDE_DOCUMENT.name, 0 * variance) > _LEAKS)
        & ("divisor" not in table),
        KEPT: has_sink & (table["n_keys"] >= _FEWEST_KEYS),
    }
    return {
        name: _of_heads(_ADVICE[name], table, where)
        for name, where in conditions.items()
        if where.any()
    }


def _of_heads(words: str, table: Columns, where: BoolArray) -> str:
    """A sentence about the heads where a mask is true, with the numbers of a few."""
    places = np.flatnonzero(where)
    heads = [" ".join(f"{name} {table[name][i]}" for name in indices(table)) for i in places]
    is_short = len(places) <= _MOST_NAMED and any(heads)
    names = f" ({', '.join(heads)})" if is_short else ""
    return f"In {len(places)} of {len(where)} heads{names}, {words}"
