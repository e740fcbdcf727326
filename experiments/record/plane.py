"""The (d_k, n_keys) plane: one metric of the sweep `plane` by d_k and number of keys, and how it stands in a note."""

import pandas as pd

from experiments.record.answers import Tables
from experiments.record.cutoffs import LEVEL

NORMS = ("jacobian_norm_median", "jacobian_norm", "query_gradient_norm")


def plane(tables: Tables, scaling: str, metric: str) -> pd.DataFrame:
    """A metric under one rule, with a row per d_k and a column per number of keys."""
    rows = tables["plane"]
    return rows[rows["scaling"] == scaling].pivot_table(index="d_k", columns="n_keys", values=metric)


def ratio(tables: Tables, metric: str) -> pd.DataFrame:
    """A metric unscaled over the same under d_k^1/2."""
    return plane(tables, "unscaled", metric) / plane(tables, "d_k^1/2", metric)


def level(values: "pd.Series[float]") -> bool:
    """True if a metric hardly changes with d_k."""
    return bool(values.max() < LEVEL * values.min())


def grid(values: pd.DataFrame) -> str:
    """All values in words, a number of keys at a time."""
    columns = (f"{', '.join(f'{x:.3g}' for x in values[n])} with {n:,} keys" for n in values)
    return f"{'; '.join(columns)}, each at d_k = {', '.join(map(str, values.index))}"


def by_keys(values: "pd.Series[float]", form: str = ".3g") -> str:
    """Values by the number of keys, in words."""
    return ", ".join(f"{value:{form}} with {n:,} keys" for n, value in values.items())
