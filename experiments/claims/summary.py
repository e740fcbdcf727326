"""A summary of published statements for the terminal: verdicts by source and severity, mistakes, and omissions."""

import textwrap
from collections import Counter

import pandas as pd

from experiments.claims.data import left_out, sources, sources_of
from experiments.claims.judge import FAULTY, SEVERITIES, VERDICTS

_ALL = "all sources, each entry once"
_WIDTH = 100  # of a line in the terminal


def counts(statements: pd.DataFrame) -> pd.DataFrame:
    """The number of rows by source and verdict; a row of several sources counts for each, and once in all."""
    cited = statements["id"].map(lambda ids: [source.citation for source in sources_of(ids)])
    each = statements.assign(source=cited).explode("source")
    table = pd.crosstab(each["source"], each["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)
    table = table.reindex([source.citation for source in sources().values()], fill_value=0)
    table.loc[_ALL] = statements["verdict"].value_counts().reindex(VERDICTS, fill_value=0)
    return table


def severities(statements: pd.DataFrame) -> pd.DataFrame:
    """The number of wrong and misleading rows by severity, the gravest first."""
    table = pd.crosstab(statements["severity"], statements["verdict"])
    return table.reindex(index=list(SEVERITIES), columns=list(FAULTY), fill_value=0)


def _not_included() -> str:
    """The kinds of statements without an entry."""
    kinds = Counter(left_out().values())
    listed = ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items()))
    return (
        f"{kinds.total()} statements have no entry, because they claim nothing that a computation could refute:"
        f" {listed}. Our lists of statements leave out history and impact, hardware and production code, other"
        " mechanisms (several heads, masks and sparse attention) and advice."
    )


def summary(statements: pd.DataFrame, *, whole: bool) -> str:
    """The number of entries by verdict, and every wrong or misleading one, the gravest first.

    Args:
        statements: the table.
        whole: True for counts by source and by severity, and for the numbers and reasons behind each.
    """
    found = statements["verdict"].value_counts().reindex(VERDICTS, fill_value=0)
    by_verdict = ", ".join(f"{count} {verdict}" for verdict, count in found.items() if count)
    lines = [f"{len(statements)} entries: {by_verdict}"]
    if whole:
        lines += ["", counts(statements).to_string(), "", severities(statements).to_string(), "", _not_included(), ""]
    for grave in SEVERITIES:
        rows = statements[statements["severity"] == grave].sort_values("verdict", ascending=False, kind="stable")
        lines += [f"{grave}:"] * bool(len(rows))
        lines += [_whole(row) if whole else _short(row) for _, row in rows.iterrows()]
    return "\n".join(lines)


def _short(row: "pd.Series[str]") -> str:
    place = f" [{row['id'].split()[0]}]"
    said = f"  {row['verdict']}: {row['statement']}"
    return f"  {textwrap.shorten(said, _WIDTH - len(place) - 2, placeholder=' ...')}{place}"


def _whole(row: "pd.Series[str]") -> str:
    claimed = f" Claimed: {row['claimed']}." if row["claimed"] else ""
    note = f" {row['note']}." if row["note"] else ""
    return f"  {row['verdict']}: {row['statement']}{claimed} Computed: {row['computed']}.{note} [{row['id']}]"
