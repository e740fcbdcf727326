"""The rules that the page tells about training."""

import pandas as pd

from experiments.figures.training import spread

_MAIN = ("unscaled", "d_k^1/2", "d_k^1")


def main_rules(rows: pd.DataFrame) -> list[str]:
    """All rules if they are three or fewer; else unscaled, d_k^1/2 and d_k^1, or any three."""
    rules = list(rows["scaling"].unique())
    main = [name for name in _MAIN if name in rules]
    return main if len(rules) > 3 and len(main) > 1 else spread(rules, 3)
