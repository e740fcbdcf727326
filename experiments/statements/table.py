"""The table of published statements: its path in the results, and the config of the measurements behind it."""

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.folders import STATEMENTS

if TYPE_CHECKING:
    import pandas as pd

CONFIG = Path(__file__).with_name("config.yaml")


def table_path(results: Path) -> Path:
    """The table of statements in a results folder, whether it exists or not."""
    return results / STATEMENTS / "statements.csv"


def read_statements(results: Path) -> "pd.DataFrame":
    """The table of statements as text, one row per statement; without rows if the results have none.

    All columns are text, because `computed` and `claimed` hold several numbers, as printed. The function
    imports pandas only when called, because some clients of this module need only the path.
    """
    import pandas as pd

    path = table_path(results)
    return pd.read_csv(path, keep_default_na=False, dtype=str) if path.exists() else pd.DataFrame()
