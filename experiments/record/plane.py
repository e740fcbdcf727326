"""The (d_k, n_keys) plane: one metric of the sweep `plane` by d_k and number of keys, and how it stands in a note."""

import pandas as pd

from experiments.figures.caption_text import number
from experiments.record.answers import Tables
from experiments.record.cutoffs import LEVEL

MEDIAN = "jacobian_norm_median"  # measured: no exact value is known
ROOT_MEAN_SQUARES = ("jacobian_norm_exact", "query_gradient_norm_exact")
_HALF_WIDTHS = 2.0  # standard errors on either side of a value in its 95% interval


def plane(tables: Tables, scaling: str, metric: str) -> pd.DataFrame:
    """A column of a metric under one rule, with a row per d_k and a column per number of keys."""
    rows = tables["plane"]
    return rows[rows["scaling"] == scaling].pivot_table(index="d_k", columns="n_keys", values=metric)


def ratio(tables: Tables, metric: str) -> pd.DataFrame:
    """A column of a metric unscaled over the same under d_k^1/2."""
    return plane(tables, "unscaled", metric) / plane(tables, "d_k^1/2", metric)


def median_errors(tables: Tables, scaling: str) -> pd.DataFrame:
    """What the interval of the median of |J| amounts to as a standard error."""
    return _errors(*(plane(tables, scaling, f"{MEDIAN}_{end}") for end in ("low", "high")))


def ratio_errors(tables: Tables) -> pd.DataFrame:
    """The same of the ratio of these medians, whose interval is (low / high, high / low) of theirs."""
    ends = [[plane(tables, name, f"{MEDIAN}_{end}") for end in ("low", "high")] for name in ("unscaled", "d_k^1/2")]
    (low, high), (scaled_low, scaled_high) = ends
    return _errors(low / scaled_high, high / scaled_low)


def _errors(low: pd.DataFrame, high: pd.DataFrame) -> pd.DataFrame:
    return (high - low) / (2 * _HALF_WIDTHS)


def level(values: "pd.Series[float]") -> bool:
    """True if a metric hardly changes with d_k."""
    return bool(values.max() < LEVEL * values.min())


def grid(values: pd.DataFrame, errors: pd.DataFrame) -> str:
    """All values in words, a number of keys at a time, with the digits that their errors leave."""
    columns = (f"{', '.join(map(number, values[n], errors[n]))} with {n:,} keys" for n in values)
    return f"{'; '.join(columns)}, each at d_k = {', '.join(map(str, values.index))}"


def measured_by_keys(values: "pd.Series[float]", errors: "pd.Series[float]") -> str:
    """Measured values by the number of keys, in words, with the digits that their errors leave."""
    return ", ".join(f"{number(value, errors[n])} with {n:,} keys" for n, value in values.items())


def by_keys(values: "pd.Series[float]", form: str = ".3g") -> str:
    """Exact values by the number of keys, in words."""
    return ", ".join(f"{value:{form}} with {n:,} keys" for n, value in values.items())
