"""The shipped table of published statements, statements.csv, and its summaries."""

import textwrap
from pathlib import Path

import pandas as pd

from experiments.claims.judge import FAULTY, SEVERITIES, VERDICTS
from experiments.claims.sources import SOURCES, cited
from experiments.paths import STATEMENTS

_ALL = "all sources, each entry once"
_WIDTH = 100  # of a line in the terminal


def table_path(results: Path) -> Path:
    """The table of statements in a results folder, whether it exists or not."""
    return results / STATEMENTS / "statements.csv"


def read_statements(results: Path) -> pd.DataFrame:
    """The table as text, because some fields have several numbers; no rows without a table."""
    path = table_path(results)
    return pd.read_csv(path, keep_default_na=False, dtype=str) if path.exists() else pd.DataFrame()


def counts(statements: pd.DataFrame) -> pd.DataFrame:
    """The number of rows by source and verdict.

    A row of several sources counts for each, and once in all.
    """
    each = statements.assign(source=statements["id"].map(cited)).explode("source")
    table = pd.crosstab(each["source"], each["verdict"])
    table = table.reindex(index=[*SOURCES.values()], columns=list(VERDICTS), fill_value=0)
    table.loc[_ALL] = statements["verdict"].value_counts().reindex(VERDICTS, fill_value=0)
    return table


def severities(statements: pd.DataFrame) -> pd.DataFrame:
    """The number of wrong and misleading rows by severity, the gravest first."""
    table = pd.crosstab(statements["severity"], statements["verdict"])
    return table.reindex(index=list(SEVERITIES), columns=list(FAULTY), fill_value=0)


def summary(statements: pd.DataFrame) -> str:
    """The number of entries by verdict, and every wrong or misleading one, the gravest first."""
    found = counts(statements).loc[_ALL]
    by_verdict = ", ".join(f"{count} {verdict}" for verdict, count in found.items() if count)
    lines = [f"{len(statements)} entries: {by_verdict}"]
    for grave in SEVERITIES:
        rows = statements[statements["severity"] == grave]
        if len(rows):
            lines.append(f"{grave}:")
        rows = rows.sort_values("verdict", ascending=False, kind="stable")
        for row in rows.itertuples():
            place = f" [{row.id.split()[0]}]"
            said = f"{row.verdict}: {row.statement}"
            said = textwrap.shorten(said, _WIDTH - len(place) - 2, placeholder=" ...")
            lines.append(f"  {said}{place}")
    return "\n".join(lines)
