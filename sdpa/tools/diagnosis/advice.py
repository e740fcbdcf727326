"""What the numbers of heads ask for, in words."""

import math
from collections.abc import Mapping, Sequence

from sdpa.tools.diagnosis.quantities import OUTSIDE_DOCUMENT
from sdpa.tools.listing import Row, indices, listed, wrapped

_NAMED = 3  # heads that a sentence names
_FEWEST_KEYS = 16  # beside which equal weights do not come near to a sink
_FEWEST_ROWS = 8  # of a sequence, in which one key does not get most weight by chance
# A head that is so much sharper than Gaussian rows of its spread picks its keys: another divisor is
# no remedy.
_SHARPER = 0.1


COLUMNS = {
    "rows": ("{rows}", "queries of all sequences that see two keys or more"),
    "spread": ("{spread:.3g}", "standard deviation of the divided scores of a row"),
    "max weight (random)": (
        "{max_weight:.2f} ({max_weight_exact:.2f})",
        "largest weight of a row, mean over rows",
    ),
    "entropy (random)": (
        "{entropy_share:.2f} ({entropy_share_exact:.2f})",
        "mean over rows, as a share of its maximum: 1 for equal weights, 0 for one key alone",
    ),
    "saturated": ("{saturated_rows:.0%}", "share of rows with a weight above 0.99"),
    "top key": (
        "{most_attended_key:.0f}",
        "place of the key with most weight, from 0; – if it differs between sequences",
    ),
    "share": ("{most_attended_share:.0%}", "part of all weight that the top key gets"),
    "unit divisor": ("{unit_divisor:.3g}", "divisor of these scores for a spread of 1"),
}

FACTS = {"wide", "sink"}  # sentences that ask for no change
# Sentences about heads, by name.
_ADVICE = {
    "saturated": (
        "most rows have a weight above 0.99, and pass almost no gradient to q and k. Before "
        "training, divide by more; a trained model may need such heads as they are."
    ),
    "flat": (
        "the spread is below 0.2, so that weights are almost equal, and the head averages. If q or "
        "k are already scaled in the model, add --scaling unscaled; else check that the model "
        "divides scores only once."
    ),
    "wide": (
        "the spread is above 2: usual for trained heads; in an untrained model, check that the scores "
        "are divided."
    ),
    "leak": (
        "more than 1% of the weight leaves its document. Give the attention of the model the places "
        "of the documents, or a mask of blocks; the numbers above are those within documents."
    ),
    "sink": (
        "the top key gets most of the weight. If old keys are dropped to save memory, keep this one: "
        "without it, other keys get its weight, and outputs change."
    ),
}

_NO_ADVICE = (
    "No advice: no head counts as saturated (most rows have a weight above 0.99), flat (spread below "
    "0.2), wide (spread above 2) or a sink (one key gets most of the weight). These rules skip "
    "heads that pick their keys, have few keys or queries, or change under a causal mask."
)


def report(table: Sequence[Row], advised: Mapping[str, str] | None = None) -> str:
    """The table of heads, the sharpest first, and advice: that which is told, or else its own."""
    heads = sorted(table, key=lambda head: head["entropy_share"])
    sentences = (advice(table) if advised is None else advised).values()
    paragraphs = [
        f"{listed(heads, COLUMNS)}\n(random): exact value for rows of normal scores of this "
        "spread; q and k with structure differ",
        "\n".join(sentences) or _NO_ADVICE,
    ]
    return "\n\n".join(map(wrapped, paragraphs))


def advice(table: Sequence[Row]) -> dict[str, str]:
    """Sentences on what to check, to change or to keep, by name; none where the numbers of the
    table do not settle it.
    """
    sentences = {}
    for name, sentence in _ADVICE.items():
        heads = [head for head in table if _holding(head)[name]]
        if heads:
            names = [" ".join(f"{x} {head[x]}" for x in indices([head])) for head in heads]
            first = f"{', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''}"
            named = f" ({first})" if any(names) else ""
            # If all heads are wide, the cause is rather the scale than what one learned.
            are_all = name == "wide" and len(heads) == len(table)
            sentences["undivided" if are_all else name] = (
                f"In {len(heads)} of {len(table)} heads{named}, {sentence}"
            )
    return sentences


def _holding(head: Row) -> dict[str, bool]:
    """True for the names of the sentences that hold of a head."""
    variance, entropy = head["row_variance"], head["entropy_share"]
    has_sink = head["most_attended_share"] > 0.5
    has_sink &= head["rows"] >= _FEWEST_ROWS * head["sequences"]
    picks_keys = entropy < head.get("entropy_share_exact", math.nan) - _SHARPER
    return {
        # Rows that saturate on one key idle on purpose.
        "saturated": head["saturated_rows"] > 0.5 and not has_sink and not picks_keys,
        # A single large score among many keys gives a small spread, too, but not a large entropy.
        "flat": variance <= 0.2**2 and entropy > 0.95,
        "wide": variance > 2.0**2,
        # q and k do not know the mask of the model: their share is that without documents.
        "leak": "divisor" not in head and head.get(OUTSIDE_DOCUMENT.name, 0.0) > 0.01,
        "sink": has_sink and head["n_keys"] >= _FEWEST_KEYS,
    }
