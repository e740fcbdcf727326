"""Names of what the harness itself writes to a results folder."""

from experiments.harness.experiment import MEASURED

STORE = ".cells"  # the folder of finished chunks
STORED_CONFIG = "config.yaml"  # the text of the config that the tables are of
COLUMNS = "columns.csv"  # the meaning of every column
LONG = "long-format.csv"  # the values of all sweeps; no sweep has a hyphen in its name
MANIFEST = "manifest.json"  # the account of the last run
DERIVED = "derived"  # the folder of the tables that follow from measured ones


def csv_name(sweep: str, kind: str) -> str:
    """The path of a table below a results folder: SWEEP.csv for `measured`, else derived/SWEEP/KIND.csv.

    >>> csv_name("dimension", "measured"), csv_name("dimension", "slopes")
    ('dimension.csv', 'derived/dimension/slopes.csv')
    """
    return f"{sweep}.csv" if kind == MEASURED else f"{DERIVED}/{sweep}/{kind}.csv"
