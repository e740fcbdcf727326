"""The words about a diagnosis on the terminal: sizes, the sharpest heads, and fixed sentences with
numbers of the table.
"""

import math

import pandas as pd

from experiments.analysis.written import significant
from experiments.diagnosis.table import indices
from experiments.errors import counted

MOST_LINES = 20
_LEGEND = (
    (
        "max_weight_exact",
        "In brackets: exact values of Gaussian rows of the same lengths and variance.",
    ),
    ("row_variance", "Spread: standard deviation of the scaled scores within rows."),
    ("variance_ratio", "Ratio: their variance over that of independent entries."),
    ("row_variance", "Saturated: share of rows with a weight above 0.99. |J|_F: its median."),
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
    "first key": "{first_key_weight:.2f}",
    "|J|_F": "{jacobian_norm_median:.3g}",
    "unit power": "{unit_exponent:.2f}",
}
_EXACT = {"largest weight": "max_weight_exact", "entropy share": "entropy_share_exact"}
_OF_VECTORS = ("ratio = length x alignment", "unit power")  # headings that scores alone do not have
# A head that is so much sharper than Gaussian rows of its spread picks its keys: another divisor is
# no remedy.
_SHARPER = 0.1
_SATURATED = (
    "In {heads}, {saturated_rows} of the rows have a weight above 0.99, so their softmax "
    "passes almost no gradient. At the start of training that is a fault; a trained model may "
    "need such heads as they are."
)
_FLAT = (
    "In {heads}, the scores of a row have a spread of {spread}, so their weights are almost "
    "equal, and the head averages: to train on, {divide}."
)
_WIDE = (
    "In {heads}, the scores of a row have a spread of {spread}, far above 1: check that they "
    "are divided; to start training, {divide}."
)
_SINK = (
    "In {heads}, the first key gets {first_key_weight} of the weight, so keep it in every "
    "cache and window: without it, other keys get this weight."
)
_HEALTHY = (
    "Under 5% of the rows of each head are saturated, and none has almost equal weights on "
    "average, so nothing here asks for another divisor."
)


def legend(table: pd.DataFrame) -> str:
    """The meaning of the words for the columns that a table has."""
    return " ".join(text for column, text in _LEGEND if column in table)


def sizes(table: pd.DataFrame) -> str:
    """The sizes and options of a table of a diagnosis, with a warning of one sequence."""
    first = table.iloc[0]
    parts = [f"Heads {len(table)}"]
    for column in ("n_queries", "n_keys", "d_k", "sequences", "divisor"):
        if column in table:
            parts.append(f"{column.removeprefix('n_')} {_range(table[column])}")
    text = ", ".join(parts)
    if "scaling" in table:
        text += f" ({first['scaling']})"
    text += f", mask {first['mask']}"
    if first["mask"].startswith("window"):
        text += " (causal: no key after the query's own)"
    lines = [text]
    if (table["sequences"] == 1).any():
        lines.append(_NO_ERRORS)
    return "\n".join(lines)


def sharpest(table: pd.DataFrame) -> str:
    """One line for each of the sharpest heads, below the headings of its columns; many axes make
    the lines long.
    """
    shown = table.sort_values("entropy_share", kind="stable").head(MOST_LINES)
    rows = shown.assign(spread=shown["row_variance"] ** 0.5).to_dict("records")
    lines = shown[indices(shown)].reset_index(drop=True)
    for heading, text in _FIELDS.items():
        exact = _EXACT.get(heading)
        if exact in table:
            text += f" ({{{exact}:.2f}})"
        if "q_std" in table or heading not in _OF_VECTORS:
            lines[heading] = [text.format(**row) for row in rows]
    text = lines.to_string(index=False)
    rest = len(table) - len(shown)
    return f"{text}\nLess sharp heads, not shown: {rest}" if rest else text


def summary(table: pd.DataFrame) -> list[str]:
    """Those of six sentences whose condition holds for at least one head, with the number of such
    heads.
    """
    away = table["entropy_share"] - table.get("entropy_share_exact", math.nan)
    ratios = table.filter(["unit_divisor", "variance_ratio"])
    # Agreement with Gaussian rows says little below a spread of 0.8, because the rows of most laws
    # agree there (docs/your-model.md has numbers).
    conditions = {
        "a weight above 0.99 in most rows": table["saturated_rows"] > 0.5,
        "a spread below 0.5 or above 2": _is_far_from_1(table),
        "an entropy share more than 0.05 from that of Gaussian rows": away.abs() > 0.05,
        "a spread below 0.8, too flat to differ from Gaussian rows": (
            table["row_variance"] < 0.8**2
        ),
        "most weight on the first key, an attention sink": table["first_key_weight"] > 0.5,
        "equal scores in each row, or equal entries of q or k, and so without some numbers (nan)": (
            ratios.isna().any(axis=1)
        ),
    }
    return [
        f"Heads with {words}: {holds.sum()} of {len(table)}."
        for words, holds in conditions.items()
        if holds.any()
    ]


def advice(table: pd.DataFrame, *, is_capped: bool) -> list[str]:
    """At most four sentences on what to do; none where the numbers of the table do not settle it.

    Args:
        table: of a diagnosis.
        is_capped: True for scores under a soft cap, whose spread no divisor changes in proportion.
    """
    variance, entropy = table["row_variance"], table["entropy_share"]
    saturated, first_key = table["saturated_rows"], table["first_key_weight"]
    has_sink_logit = "visible_mass" in table
    picks_keys = entropy < table.get("entropy_share_exact", math.nan) - _SHARPER
    # Rows that saturate on the first key idle on purpose; beside a sink logit, gradients of
    # saturated rows may be large.
    is_stuck = (saturated > 0.5) & (first_key < 0.5) & ~picks_keys & (not has_sink_logit)
    conditions = {
        _SATURATED: is_stuck,
        # A single large score among many keys gives a small spread, too, but not a large entropy.
        # Below a spread of 0.001, scores are equal but for rounding.
        _FLAT: variance.between(1e-6, 0.2**2) & (entropy > 0.95),
        # All heads together: then the cause is rather the scale than what a head has learned.
        _WIDE: (variance > 0) & (variance > 2.0**2).all(),
        # With fewer than 16 keys, equal weights come near to a sink.
        _SINK: (first_key > 0.5) & (table["n_keys"] >= 16),
    }
    told = [
        _advised(words, table[chosen], len(table), is_capped=is_capped)
        for words, chosen in conditions.items()
        if chosen.any()
    ]
    is_trainable = ((saturated < 0.05) & (entropy < 0.95)).all() and not has_sink_logit
    if not told and is_trainable and not _is_far_from_1(table).all():
        return [_HEALTHY]
    return told


def _advised(words: str, heads: pd.DataFrame, of: int, *, is_capped: bool) -> str:
    """A sentence with the numbers of its heads."""
    divided = "what is divided already"
    if "divisor" in heads:
        divided = f"rather than {_range(heads['divisor'])}"
    divide = (
        f"divide there by about {_range(heads['unit_divisor'], 2)} {divided}, for a spread of 1"
    )
    return words.format(
        heads=f"{len(heads)} of {counted(of, 'head')}",
        saturated_rows=_range(100 * heads["saturated_rows"], 2) + "%",
        first_key_weight=_range(100 * heads["first_key_weight"], 2) + "%",
        spread=_range(heads["row_variance"] ** 0.5, 2),
        divide="change the soft cap or the divisor" if is_capped else divide,
    )


def _is_far_from_1(heads: pd.DataFrame) -> pd.Series:
    """True where the spread is below 0.5 or above 2."""
    return ~heads["row_variance"].between(0.5**2, 2.0**2)


def _range(numbers: pd.Series, digits: int = 4) -> str:
    """The smallest and the largest number, or the only one."""
    ends = (significant(number, digits) for number in (numbers.min(), numbers.max()))
    return " to ".join(dict.fromkeys(map("{:.6g}".format, ends)))
