"""What is no claim about the subject, with the reason why it is left out."""

from pathlib import Path

import pandas as pd

REASONS = ("analogy", "convention", "figure without numbers", "input of an example")


def left_out() -> pd.DataFrame:
    """The ids that are left out, each with a reason of that list."""
    return pd.read_csv(Path(__file__).with_suffix(".csv"), dtype=str)
