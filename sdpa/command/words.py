"""The words about a diagnosis: sizes, the sharpest heads with a legend, and sentences about heads of
which a condition holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sdpa._arrays import BoolArray
from sdpa.command.output import aligned, legend, rows_of_columns
from sdpa.heads import HeadArrays
from sdpa.heads.table import Columns, indices
from sdpa.scaling import multiplies

_MOST_LINES = 20
_MOST_NAMED = 3  # heads that a sentence names
_FEWEST_KEYS = 16  # beside which equal weights do not come near to a sink
_FEWEST_ROWS = 8  # of a sequence, in which one key does not get most weight by chance
# A head that is so much sharper than Gaussian rows of its spread picks its keys: another divisor is
# no remedy.
_SHARPER = 0.1


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

# Sentences about heads, by what they begin with.
_SATURATED = (
    "most rows have a weight above 0.99, and pass almost no gradient to q and k. Before training, "
    "divide by more; a trained model may need such heads as they are."
)
_FLAT = (
    "the spread is below 0.2, so that weights are almost equal, and the head averages. Check that "
    "scores are divided only once: q that is divided already needs --scaling unscaled."
)
_WIDE = "the spread is above 2. Check that the scores are divided."
_SINK = (
    "the top key gets most of the weight. Keep it in every cache and window: without it, other keys "
    "get this weight."
)
_NOTHING = "No advice: these numbers alone ask for no change."


def read_as(arrays: HeadArrays) -> str:
    """The shape of q, scores or weights, with the names of its axes, told or by their number."""
    last = "position, d_k" if arrays.kind == "q" else "query, key"
    order = ", ".join([*arrays.leading, last])
    other = {2: "layer,head", 3: "batch,layer,head"}.get(len(arrays.leading))
    is_assumed = other and not arrays.axes
    assumed = f", assumed from their number; if not, add --axes {other}" if is_assumed else ""
    is_grouped = arrays.k is not None and arrays.k.shape[:-2] != arrays.q.shape[:-2]
    grouped = "; heads of q share those of k in groups" * is_grouped
    return f"{arrays.kind} of shape {arrays.q.shape} read as ({order}){assumed}{grouped}"


def sizes(table: Columns) -> str:
    """The sizes and options of a table of a diagnosis, with a warning of one sequence."""
    parts = [f"Heads {len(table['rows'])}"]
    for column in ("n_queries", "n_keys", "d_k", "sequences", "divisor", "scaling", "mask"):
        if column in table:
            form = "{:.6g}" if column == "divisor" else "{}"
            each = dict.fromkeys(map(form.format, table[column]))
            parts.append(f"{column.removeprefix('n_')} {' and '.join(each)}")
    lines = [", ".join(parts)]
    if "divisor" in table:
        lines.append(multiplies(table["divisor"].min()))
    if (table["sequences"] == 1).any():
        lines.append(
            "The table has no standard errors: several sequences need an axis named batch."
        )
    return "\n".join(filter(None, lines))


def overflow(heads: Sequence[HeadArrays], table: Columns) -> list[str]:
    """A line on products q.k that the type of q and k does not have; none without any."""
    if "divisor" not in table:
        return []
    dtype = np.result_type(*(array for each in heads for array in (each.q, each.k)))
    reached = (table["largest_absolute_score"] * table["divisor"]).max()
    most = np.finfo(dtype).max
    if reached <= most:
        return []
    return [
        f"|q.k| reaches {reached:.3g}, above {most:.6g}, the largest {dtype.name}: a product in this "
        "type is inf and makes the weights of its row nan, or -inf and hides its key."
    ]


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


def advice(table: Columns) -> tuple[list[str], list[str]]:
    """Sentences on what to check or change, and those on what to keep; none where the numbers of
    the table do not settle it.
    """
    variance, entropy = table["row_variance"], table["entropy_share"]
    has_sink = table["most_attended_share"] > 0.5
    has_sink &= table["rows"] >= _FEWEST_ROWS * table["sequences"]
    picks_keys = entropy < table.get("entropy_share_exact", math.nan) - _SHARPER
    # Rows that saturate on one key idle on purpose; beside a sink logit, gradients of saturated
    # rows may be large.
    is_stuck = (table["saturated_rows"] > 0.5) & ~has_sink & ~picks_keys
    conditions = {
        _SATURATED: is_stuck & ("visible_mass" not in table),
        # A single large score among many keys gives a small spread, too, but not a large entropy.
        _FLAT: (variance <= 0.2**2) & (entropy > 0.95),
        # All heads together: then the cause is rather the scale than what a head has learned.
        _WIDE: np.full(len(variance), (variance > 2.0**2).all()),
    }
    told = [_of_heads(words, table, where) for words, where in conditions.items() if where.any()]
    is_kept = has_sink & (table["n_keys"] >= _FEWEST_KEYS)
    kept = [_of_heads(_SINK, table, is_kept)] if is_kept.any() else []
    return told, kept if told or kept else [_NOTHING]


def _of_heads(words: str, table: Columns, where: BoolArray) -> str:
    """A sentence about the heads where a mask is true, with the numbers of a few."""
    found = rows_of_columns({name: table[name][where] for name in indices(table)})
    names = ""
    if 0 < len(found) <= _MOST_NAMED:
        each = (" ".join(f"{name} {place}" for name, place in head.items()) for head in found)
        names = f" ({', '.join(each)})"
    return f"In {where.sum()} of {len(where)} heads{names}, {words}"
