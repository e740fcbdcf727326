"""What quantities check with: example numbers, and rows of the suite's tables."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from experiments.statements.cutoffs import CERTAIN

# The queries and keys that the suite measures and its exact values are of, as a note says it.
UNTRAINED = "q and k independent, centred and untrained"


def example(*shape: int, seed: int = 0) -> Any:
    """Standard normal numbers for a check."""
    return np.random.default_rng(seed).standard_normal(shape)


def rows_of(table: pd.DataFrame, scaling: str, **axes: float) -> pd.DataFrame:
    """The rows of a table of one scaling, at these values of axes."""
    chosen = table[table["scaling"] == scaling]
    for name, value in axes.items():
        chosen = chosen[chosen[name] == value]
    return chosen.set_index("d_k", drop=False)


def agree(rows: pd.DataFrame, metric: str, expected: Any) -> bool:
    """Whether a metric is what is expected, in every row, as far as its error says."""
    return bool((abs(rows[metric] - expected) < CERTAIN * rows[f"{metric}_se"]).all())


def least_likely(p_values: Iterable[float]) -> float:
    """How likely draws are in which one of these p-values is as small: the smallest, times their number."""
    found = list(p_values)
    return min(1.0, len(found) * min(found))
