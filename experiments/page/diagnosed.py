"""The sentence of the page on the shipped diagnosis: what training did to the heads of one layer."""

from pathlib import Path

import pandas as pd

from experiments.figures.caption_text import number

_DIGIT = {"entropy_share": 0.01, "entropy_share_exact": 0.01, "row_variance": 0.1, "alignment_effect": 0.1}


def before_and_after(path: Path) -> str:
    """Medians over runs before and after training, from the table of the shipped diagnosis.

    Args:
        path: its file; layer 0 is before training, layer 1 after it, and heads are runs.
    """
    table = pd.read_csv(path)
    before, after = (table[table["layer"] == layer].median(numeric_only=True) for layer in (0, 1))
    share, exact, variance, alignment = (
        f"from {number(before[name], digit)} to {number(after[name], digit)}" for name, digit in _DIGIT.items()
    )
    return (
        f"In the median run, training takes the entropy share {share} (Gaussian rows of the same variance: {exact}) and"
        f" the variance within rows {variance}; the factor due to the alignment of q and k goes {alignment}."
    )
