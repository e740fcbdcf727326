"""The record of published statements, statements.csv, which people edit, and its counts."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.config.paths import STATEMENTS

# Each in the words of the page.
VERDICTS = {
    "wrong": "Wrong",
    "misleading": "Misleading",
    "open": "Not decided here",
    "holds": "Right in every case tested",
    "reproduced": "Right, with the same digits",
    "to rounding": "Right but for the last digit",
    "approximately": "Right to 5%, as the source says “about”",
    "within sampling error": "Right within the error of its draws",
}
# Of wrong and misleading statements; the gravest first, likewise.
SEVERITIES = {
    "conceptual error": " about attention in general",
    "wrong number": " about one example or result",
    "overstatement": " about training",
    "slip": " in the last digit, in counting or in a word",
}
_ALL = "all sources, each entry once"


def table_path(folder: Path) -> Path:
    """The table of statements in a results folder, whether it exists or not."""
    return folder / STATEMENTS / "statements.csv"


def read_statements(folder: Path) -> pd.DataFrame:
    """The table as text, because some fields have several numbers; no rows without a table."""
    path = table_path(folder)
    return pd.read_csv(path, keep_default_na=False, dtype=str) if path.exists() else pd.DataFrame()


def grouped(folder: Path) -> list[tuple[str, list[dict[Hashable, Any]]]]:
    """The published statements by severity and verdict, the gravest first; none without a table.

    Each group has a title and its rows as text.
    """
    table = read_statements(folder)
    if table.empty:
        return []
    severity = pd.Categorical(table["severity"], [*SEVERITIES, ""])
    verdict = pd.Categorical(table["verdict"], [*VERDICTS])
    groups = table.groupby([severity, verdict], observed=True)
    return [
        (f"{VERDICTS[judged]}{SEVERITIES.get(kind, '')}", rows.to_dict("records"))
        for (kind, judged), rows in groups
    ]


def counts(statements: pd.DataFrame) -> pd.DataFrame:
    """The number of rows by source and verdict.

    A row of several sources counts for each, and once in all.
    """
    by_source = statements.assign(source=statements["source"].str.split("; ")).explode("source")
    table = pd.crosstab(by_source["source"], by_source["verdict"]).reindex(
        index=by_source["source"].unique(), columns=[*VERDICTS], fill_value=0
    )
    table.loc[_ALL] = statements["verdict"].value_counts().reindex([*VERDICTS], fill_value=0)
    return table
