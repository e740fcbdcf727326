"""The words about a diagnosis: sizes, the sharpest heads, and fixed sentences with numbers of its
table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa.command.output import aligned, rows_of
from sdpa.heads import HeadArrays
from sdpa.heads.table import Columns, chosen, indices
from sdpa.scaling import multiplies

MOST_LINES = 20
_LEGEND = (
    (
        "max_weight_exact",
        "In brackets: exact values of Gaussian rows of the same lengths and variance.",
    ),
    (
        "row_variance",
        "Heads by entropy share. Rows: of two or more keys. Spread: standard deviation of the "
        "scaled scores within rows.",
    ),
    (
        "variance_ratio",
        "Ratio: their variance over that of independent entries, a factor for the lengths of q and "
        "k times one for their alignment.",
    ),
    ("row_variance", "Saturated: share of rows with a weight above 0.99. |J|_F: its median."),
    (
        "most_attended_key",
        "Top key: the one that gets the most weight in its sequence, counted from 0; nan if its "
        "place differs between sequences.",
    ),
    ("unit_exponent", "Unit power: the power of d_k that would give the rows the variance 1."),
)
_NO_ERRORS = "No standard errors: there is one sequence. Several need an axis named batch."
# Fields of a line about a head, by heading.
_FIELDS = {
    "rows": "{rows}",
    "spread": "{spread:.3g}",
    "ratio = length x alignment": (
        "{variance_ratio:.3g} = {length_effect:.3g} x {alignment_effect:.3g}"
    ),
    "largest weight": "{max_weight:.2f}",
    "entropy share": "{entropy_share:.2f}",
    "saturated": "{saturated_rows:.0%}",
    "top key": "{most_attended_key:.0f}",
    "its weight": "{most_attended_share:.2f}",
    "|J|_F": "{jacobian_norm_median:.3g}",
    "unit power": "{unit_exponent:.2f}",
}
_EXACT = {"largest weight": "max_weight_exact", "entropy share": "entropy_share_exact"}
_OF_VECTORS = ("ratio = length x alignment", "unit power")  # headings that scores alone do not have
_NO_POWER = 0.05  # a smaller unit power is that of scores without a divisor
_FEWEST = 16  # keys, beside which equal weights do not come near to a sink
_FEWEST_ROWS = 8  # of a sequence, in which one key does not get most weight by chance
_MOST_PLACES = 3
_MOST_NAMED = 3  # heads of which a sentence speaks by their numbers
# A head that is so much sharper than Gaussian rows of its spread picks its keys: another divisor is
# no remedy.
_SHARPER = 0.1
_SATURATED = (
    "In {heads}, {saturated_rows} of the rows have a weight above 0.99: their softmax passes "
    "almost no gradient. Before training, divide by more; a trained model may need such heads as "
    "they are."
)
_FLAT = (
    "In {heads}, the scores of a row have a spread of {spread}{entries}, so their weights are "
    "almost equal, and the head averages: to train on, {divide}."
)
_WIDE = (
    "In {heads}, the scores of a row have a spread of {spread}, far above 1{entries}: check that "
    "they are divided; to start training, {divide}."
)
_SINK = (
    "In {heads}, {top_key} gets {most_attended_share} of the weight, so keep it in every "
    "cache and window: without it, other keys get this weight."
)
_HEALTHY = (
    "Under 5% of the rows of each head are saturated, and none has almost equal weights on "
    "average, so nothing here asks for another divisor."
)
_UNSETTLED = (
    "These numbers do not settle whether another divisor would help: compare the loss of the model "
    "under both."
)


def read_as(arrays: HeadArrays) -> str:
    """The shape of q, scores or weights, with the names of its axes, told or by their number."""
    last = "position, d_k" if arrays.kind == "q" else "query, key"
    order = ", ".join([*arrays.leading, last])
    other = {2: "layer,head", 3: "batch,layer,head"}.get(len(arrays.leading))
    is_assumed = other and not arrays.axes
    assumed = f", assumed from their number; if not, add --axes {other}" if is_assumed else ""
    return f"{arrays.kind} of shape {arrays.q.shape} read as ({order}){assumed}"


def sizes(table: Columns) -> str:
    """The sizes and options of a table of a diagnosis, with a warning of one sequence."""
    parts = [f"Heads {len(table['rows'])}"]
    for column in ("n_queries", "n_keys", "d_k", "sequences", "divisor"):
        if column in table:
            parts.append(f"{column.removeprefix('n_')} {_range(table[column])}")
    text = ", ".join(parts)
    if "scaling" in table:
        text += f" ({table['scaling'][0]})"
    mask = table["mask"][0]
    text += f", mask {mask}"
    if mask.startswith("window"):
        text += " (causal: no key after the query's own)"
    if mask.startswith("local"):
        text += " (on both sides of the query's own key)"
    lines = [text]
    if "divisor" in table:
        lines.append(multiplies(table["divisor"].min()))
    if (table["sequences"] == 1).any():
        lines.append(_NO_ERRORS)
    return "\n".join(filter(None, lines))


def overflow(heads: Sequence[HeadArrays], table: Columns) -> list[str]:
    """A line on products q.k that the type of q and k does not have; none without any."""
    if "divisor" not in table:
        return []
    dtype = np.result_type(*(array for each in heads for array in (each.q, each.k)))
    reached = (table["largest_score"] * table["divisor"]).max()
    if reached <= np.finfo(dtype).max:
        return []
    return [
        f"q.k reaches {reached:.3g}, above {np.finfo(dtype).max:.6g}, the largest {dtype.name}: a product "
        "in this type is inf, and the weights of its row are nan."
    ]


def sharpest(table: Columns) -> str:
    """One line for each of the sharpest heads, below the headings of its columns; many axes make
    the lines long.
    """
    order = np.argsort(table["entropy_share"], kind="stable")[:MOST_LINES]
    shown = chosen(table, order)
    shown["spread"] = np.sqrt(shown["row_variance"])
    fields = {name: f"{{{name}}}" for name in indices(table)}
    for heading, text in _FIELDS.items():
        exact = _EXACT.get(heading)
        in_brackets = f" ({{{exact}:.2f}})" if exact in table else ""
        if "q_std" in table or heading not in _OF_VECTORS:
            fields[heading] = text + in_brackets
    lines = [
        {name: text.format(**head) for name, text in fields.items()} for head in rows_of(shown)
    ]
    rest = len(table["rows"]) - len(order)
    return aligned(lines) + (f"\nLess sharp heads, not shown: {rest}" if rest else "")


def legend(table: Columns) -> str:
    """The meaning of the words for the columns that a table has."""
    return " ".join(text for column, text in _LEGEND if column in table)


def summary(table: Columns) -> list[str]:
    """The sentences, of six, whose condition holds for at least one head, each with the number of
    these heads.
    """
    away = table["entropy_share"] - _gaussian_share(table)
    ratios = [table[name] for name in ("unit_divisor", "variance_ratio") if name in table]
    # Agreement with Gaussian rows says little below a spread of 0.8, because the rows of most laws
    # agree there (docs/your-model.md has numbers).
    conditions = {
        "a weight above 0.99 in most rows": table["saturated_rows"] > 0.5,
        "a spread below 0.5 or above 2": _is_far_from_1(table),
        "an entropy share more than 0.05 from that of Gaussian rows": np.abs(away) > 0.05,
        "a spread below 0.8, too flat to differ from Gaussian rows": (
            table["row_variance"] < 0.8**2
        ),
        "most weight on one key, an attention sink": _has_sink(table),
        "equal scores in each row, or equal entries of q or k, and so without some numbers (nan)": (
            np.isnan(ratios).any(axis=0)
        ),
    }
    return [
        f"Heads with {words}: {holds.sum()} of {len(holds)}{_named(table, holds)}."
        for words, holds in conditions.items()
        if holds.any()
    ]


def advice(table: Columns, *, is_capped: bool) -> tuple[list[str], list[str]]:
    """At most three sentences on what to change, and one on what to keep; none where the numbers of
    the table do not settle it.

    Args:
        table: of a diagnosis.
        is_capped: True for scores under a soft cap, whose spread no divisor changes in proportion.
    """
    variance, entropy = table["row_variance"], table["entropy_share"]
    saturated, has_sink_logit = table["saturated_rows"], "visible_mass" in table
    picks_keys = entropy < _gaussian_share(table) - _SHARPER
    # Rows that saturate on one key idle on purpose; beside a sink logit, gradients of saturated
    # rows may be large.
    is_stuck = (saturated > 0.5) & ~_has_sink(table) & ~picks_keys & (not has_sink_logit)
    conditions = {
        _SATURATED: is_stuck,
        # A single large score among many keys gives a small spread, too, but not a large entropy.
        # Below a spread of 0.001, scores are equal but for rounding.
        _FLAT: (variance >= 1e-6) & (variance <= 0.2**2) & (entropy > 0.95),
        # All heads together: then the cause is rather the scale than what a head has learned.
        _WIDE: (variance > 0) & (variance > 2.0**2).all(),
        _SINK: _has_sink(table) & (table["n_keys"] >= _FEWEST),
    }
    told = {
        words: _advised(words, table, where, is_capped=is_capped)
        for words, where in conditions.items()
        if where.any()
    }
    kept = [told.pop(_SINK)] if _SINK in told else []
    return [*told.values()], kept


def without_advice(table: Columns) -> str:
    """The sentence on heads for which there is no advice: they are healthy, or it is not clear."""
    is_trainable = (table["saturated_rows"] < 0.05) & (table["entropy_share"] < 0.95)
    settled = is_trainable.all() and "visible_mass" not in table
    return _HEALTHY if settled and not _is_far_from_1(table).all() else _UNSETTLED


def _named(table: Columns, where: npt.NDArray[np.bool_]) -> str:
    """The numbers of the heads where a mask is true, in brackets; nothing for all or many heads."""
    found = rows_of(chosen(table, where))
    if len(found) in (0, len(where)) or len(found) > _MOST_NAMED:
        return ""
    names = (" ".join(f"{name} {head[name]}" for name in indices(table)) for head in found)
    return f" ({', '.join(names)})"


def _gaussian_share(table: Columns) -> Any:
    """The entropy share of Gaussian rows; NaN where it is unknown."""
    return table.get("entropy_share_exact", math.nan)


def _advised(words: str, table: Columns, where: npt.NDArray[np.bool_], *, is_capped: bool) -> str:
    """A sentence with the numbers of the heads where a mask is true."""
    heads = chosen(table, where)
    by = _range(heads["unit_divisor"], 2)
    divide = f"divide these scores by about {by}, for a spread of 1"
    if "divisor" in heads:
        divide = (
            f"divide there by about {by} rather than {_range(heads['divisor'])}, for a spread of 1"
        )
    entries = ""
    if words == _FLAT and (np.abs(heads.get("unit_exponent", math.nan)) < _NO_POWER).all():
        divide += "; if q is divided by sqrt(d_k) already, pass --scaling unscaled"
    if "q_std" in heads:
        of_q, of_k = (_range(heads[name], 2) for name in ("q_std", "k_std"))
        entries = f" (standard deviation of the entries: q {of_q}, k {of_k})"
    return words.format(
        heads=f"{where.sum()} of {len(where)} head{'s' * (len(where) != 1)}{_named(table, where)}",
        saturated_rows=_range(100 * heads["saturated_rows"], 2) + "%",
        top_key=_top_keys(heads["most_attended_key"]),
        most_attended_share=_range(100 * heads["most_attended_share"], 2) + "%",
        spread=_range(np.sqrt(heads["row_variance"]), 2),
        entries=entries,
        divide="change the soft cap or the divisor" if is_capped else divide,
    )


def _has_sink(table: Columns) -> npt.NDArray[np.bool_]:
    """True where one key gets more than half of the weight."""
    has_rows = table["rows"] >= _FEWEST_ROWS * table["sequences"]
    return np.asarray((table["most_attended_share"] > 0.5) & has_rows)


def _top_keys(places: npt.NDArray[Any]) -> str:
    """The keys at some places, the most frequent ones first, with the numbers of their heads.

    >>> _top_keys(np.array([5.0, 5.0])), _top_keys(np.array([5.0, 0.0, 5.0]))
    ('key 5', 'key 5 (2) or the first key (1)')
    """
    found, counts = np.unique(places, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    names = {"0": "the first key", "nan": "a key whose place differs between sequences"}
    positions = map("{:.0f}".format, found[order])
    keys = [names.get(position, f"key {position}") for position in positions]
    if len(keys) == 1:
        return keys[0]
    shown = [f"{key} ({count})" for key, count in zip(keys, counts[order], strict=True)]
    if len(shown) > _MOST_PLACES:
        shown[_MOST_PLACES:] = ["another"]
    return " or ".join(shown)


def _is_far_from_1(heads: Columns) -> npt.NDArray[np.bool_]:
    """True where the spread is below 0.5 or above 2."""
    variance = heads["row_variance"]
    return np.asarray((variance < 0.5**2) | (variance > 2.0**2))


def _range(numbers: npt.NDArray[Any], digits: int = 4) -> str:
    """The smallest and the largest number, or the only one."""
    ends = (f"{float(f'{number:.{digits}g}'):.6g}" for number in (numbers.min(), numbers.max()))
    return " to ".join(dict.fromkeys(ends))
