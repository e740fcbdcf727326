"""Values of the measured tables, mostly on the (d_k, n_keys) plane of the sweep `plane`, and their forms in words.

The tables come from the config.yaml of this folder, so that an edit of the user's config changes no verdict. The
functions that answer statements use these values for conditions, and put their words into notes.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from experiments.figures.caption_text import number
from experiments.statements.cutoffs import CERTAIN, LEVEL

Tables = Mapping[str, pd.DataFrame]

# The kind of queries and keys behind the measured and exact values, as worded in notes.
UNTRAINED = "for independent, centred and untrained q and k"
MEDIAN = "jacobian_norm_median"  # measured: no exact value is known
ROOT_MEAN_SQUARES = ("jacobian_norm_exact", "query_gradient_norm_exact")
_WITH_COMMAS = 10_000
_HALF_WIDTHS = 2.0  # standard errors on either side of a value in its 95% interval


def rows_of(table: pd.DataFrame, scaling: str) -> pd.DataFrame:
    """The rows of a table of one scaling, by d_k, which stays a column too."""
    return table[table["scaling"] == scaling].set_index("d_k", drop=False)


def agree(rows: pd.DataFrame, metric: str, expected: Any) -> bool:
    """True if a metric has its expected value, within its error, in every row.

    Args:
        rows: rows with the columns METRIC and METRIC_se.
        metric: its name.
        expected: a number, or one for each row.

    Returns:
        True if every distance is below 4.5 standard errors, the cut-off `CERTAIN`.
    """
    return bool((abs(rows[metric] - expected) < CERTAIN.value * rows[f"{metric}_se"]).all())


def plane(tables: Tables, scaling: str, metric: str) -> pd.DataFrame:
    """A metric under one rule, with a row per d_k and a column per number of keys.

    Args:
        tables: with the table `plane`.
        scaling: the name of the rule, `unscaled` or `d_k^1/2`.
        metric: any numeric column, such as METRIC_exact.
    """
    rows = tables["plane"]
    return rows[rows["scaling"] == scaling].pivot_table(index="d_k", columns="n_keys", values=metric)


def ratio(tables: Tables, metric: str) -> pd.DataFrame:
    """The unscaled value of a metric divided by its value under d_k^1/2."""
    return plane(tables, "unscaled", metric) / plane(tables, "d_k^1/2", metric)


def median_errors(tables: Tables, scaling: str) -> pd.DataFrame:
    """The standard error of the median of |J| that its interval implies: a quarter of the width of the 95% interval."""
    return _errors(*(plane(tables, scaling, f"{MEDIAN}_{end}") for end in ("low", "high")))


def ratio_errors(tables: Tables) -> pd.DataFrame:
    """The standard error of the ratio of these medians, whose interval is (low / high, high / low) of theirs."""
    ends = [[plane(tables, name, f"{MEDIAN}_{end}") for end in ("low", "high")] for name in ("unscaled", "d_k^1/2")]
    (low, high), (scaled_low, scaled_high) = ends
    return _errors(low / scaled_high, high / scaled_low)


def _errors(low: pd.DataFrame, high: pd.DataFrame) -> pd.DataFrame:
    return (high - low) / (2 * _HALF_WIDTHS)


def level(values: "pd.Series[float]") -> bool:
    """True if a metric hardly changes with d_k: its largest value is below 1.1 times its smallest.

    >>> level(pd.Series([0.25, 0.27])), level(pd.Series([0.25, 0.28]))
    (True, False)
    """
    return bool(values.max() < LEVEL.value * values.min())


def count(number: int) -> str:
    """A number of keys in words, with commas from 10,000 on.

    >>> count(4096), count(65536)
    ('4096', '65,536')
    """
    return f"{number:,}" if number >= _WITH_COMMAS else str(number)


def grid(values: pd.DataFrame, errors: pd.DataFrame) -> str:
    """All values in words, by the number of keys, with as many digits as their errors justify."""
    columns = (f"{', '.join(map(number, values[n], errors[n]))} with {count(n)} keys" for n in values)
    return f"{'; '.join(columns)}, each at d_k = {', '.join(map(str, values.index))}"


def measured_by_keys(values: "pd.Series[float]", errors: "pd.Series[float]") -> str:
    """Measured values by the number of keys, in words, with as many digits as their errors justify."""
    return ", ".join(f"{number(value, errors[n])} with {count(n)} keys" for n, value in values.items())


def by_keys(values: "pd.Series[float]", form: str = ".3g") -> str:
    """Exact values by the number of keys, in words.

    >>> by_keys(pd.Series({4: 0.4631, 4096: 0.01}))
    '0.463 with 4 keys, 0.01 with 4096 keys'
    """
    return ", ".join(f"{value:{form}} with {count(n)} keys" for n, value in values.items())
