"""Statements that claim nothing that a computation could refute, each with the kind of statement it is."""

from pathlib import Path

import pandas as pd

OUTSIDE = (  # kinds of statements that no list of ours has
    "history and impact",
    "hardware and production code",
    "other mechanisms, such as several heads, masks and sparse attention",
    "advice",
)
REASONS = ("analogy", "convention", "figure without numbers", "illustration", "input of an example")


def left_out() -> pd.DataFrame:
    """The ids that are left out, each with a reason of that list."""
    return pd.read_csv(Path(__file__).with_suffix(".csv"), dtype=str)
