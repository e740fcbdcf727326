"""Tables as CSV: their digits, and the columns that name their sweep."""

from typing import TYPE_CHECKING

from experiments.measuring.columns import Column
from experiments.measuring.metric import FEW_DRAWS

if TYPE_CHECKING:
    import pandas as pd

DIGITS = "%.10g"
IDENTITY = (
    Column("sweep", "str", "name of the sweep"),
    Column(
        "experiment",
        "str",
        "experiment of the sweep; `mechanisms` for one of `saturation` with row maps",
    ),
    Column("seed", "int", "root seed of the config"),
)


def csv_bytes(table: "pd.DataFrame") -> bytes:
    r"""A table as CSV: floats have ten significant digits, missing values are empty.

    >>> import pandas as pd
    >>> csv_bytes(pd.DataFrame({"d_k": [4, 8], "slope": [1 / 3, float("nan")]}))
    b'd_k,slope\n4,0.3333333333\n8,\n'
    """
    text: str = table.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    return text.encode()


def is_few(table: "pd.DataFrame", metric: str) -> "pd.Series[bool]":
    """True for each row in which a metric has too few draws for a reliable interval."""
    return table[FEW_DRAWS].str.split().map(lambda metrics: metric in metrics)


def significant(value: float, digits: int = 6) -> float:
    """A number rounded to its first digits; further ones may differ between machines.

    >>> significant(22 / 7, 3)
    3.14
    """
    return float(f"{value:.{digits}g}")
