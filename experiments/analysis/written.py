"""Tables as CSV files: their paths, their digits, and the columns that name their sweep."""

from typing import TYPE_CHECKING

from experiments.measuring.columns import Column
from experiments.measuring.experiment import MEASURED

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = "columns.csv"  # the meaning of every column
LONG = "long-format.csv"  # the values of all sweeps; no sweep has a hyphen in its name
DERIVED = "derived"  # the folder of the tables that follow from measured ones
DIGITS = "%.10g"
IDENTITY = (
    Column("sweep", "str", "name of the sweep"),
    Column("experiment", "str", "name of the experiment"),
    Column("seed", "int", "root seed of the config"),
)


def csv_name(sweep: str, kind: str) -> str:
    """The path of a table below a results folder: SWEEP.csv for `measured`, else derived/SWEEP/KIND.csv.

    >>> csv_name("dimension", "measured"), csv_name("dimension", "slopes")
    ('dimension.csv', 'derived/dimension/slopes.csv')
    """
    return f"{sweep}.csv" if kind == MEASURED else f"{DERIVED}/{sweep}/{kind}.csv"


def csv_bytes(table: "pd.DataFrame") -> bytes:
    r"""A table as CSV: floats have ten significant digits, missing values are empty.

    >>> import pandas as pd
    >>> csv_bytes(pd.DataFrame({"d_k": [4, 8], "slope": [1 / 3, float("nan")]}))
    b'd_k,slope\n4,0.3333333333\n8,\n'
    """
    text: str = table.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    return text.encode()


def as_written(value: object) -> str:
    """A value as the text of a field of a table.

    >>> as_written(8), as_written(1 / 3), as_written("gaussian")
    ('8', '0.3333333333', 'gaussian')
    """
    return value if isinstance(value, str) else DIGITS % value
