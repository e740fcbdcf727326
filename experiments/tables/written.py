"""Tables as CSV: their digits, and the columns that name their sweep."""

from typing import TYPE_CHECKING

from experiments.measuring.columns import Column

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
