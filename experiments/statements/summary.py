"""A summary of published statements: verdicts by source and by severity, the mistakes, and the omissions.

The table of `experiments.statements.compute` goes in, as data or read from its file; text for the terminal (`summary`)
and for Markdown (`counts_in_markdown`) comes out.
"""

from collections import Counter
from collections.abc import Iterable

import pandas as pd

from experiments.statements.sources import OUTSIDE, SOURCES, parse_ids, sources_of
from experiments.statements.verdicts import FAULTY, SEVERITIES, VERDICTS, rank

_LONGEST = 100
_ALL = "all, once"


def counts(statements: pd.DataFrame) -> pd.DataFrame:
    """The number of rows by source and verdict; a row of several sources counts for each, and once in all.

    Args:
        statements: the table, with the columns `id` and `verdict`.

    Returns:
        A row per source, by its label, and the row `all, once`; a column per verdict, 0 where there is none.
    """
    labels = statements["id"].map(lambda ids: [source.label for source in sources_of(ids)])
    each = statements.assign(source=labels).explode("source")
    table = pd.crosstab(each["source"], each["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)
    table = table.reindex([source.label for source in SOURCES.values()], fill_value=0)
    table.loc[_ALL] = statements["verdict"].value_counts().reindex(VERDICTS, fill_value=0)
    return table


def severities(statements: pd.DataFrame) -> pd.DataFrame:
    """The number of wrong and misleading rows by severity, the gravest first.

    Returns:
        A row per severity and the columns `wrong` and `misleading`; 0 where there is none.
    """
    table = pd.crosstab(statements["severity"], statements["verdict"])
    return table.reindex(index=list(SEVERITIES), columns=list(FAULTY), fill_value=0)


def gravest_first(statements: pd.DataFrame) -> pd.DataFrame:
    """The wrong and misleading rows, the gravest first; rows of equal rank keep their order."""
    found = statements[statements["severity"] != ""]
    ranks = [rank(row["verdict"], row["severity"]) for _, row in found.iterrows()]
    return found.assign(rank=ranks).sort_values("rank", kind="stable").drop(columns="rank")


def counts_in_markdown(statements: pd.DataFrame) -> str:
    """The counts as tables in Markdown, with every source, and the omissions with their reasons."""
    by_source, by_severity = counts(statements), severities(statements)
    names = [source.citation for source in SOURCES.values()] + [_ALL]
    whole = {(one.source, one.number) for ids in statements["id"] for one in parse_ids(ids)}
    return "\n".join(
        [
            *_markdown("source", names, by_source),
            "",
            *_markdown("severity", SEVERITIES, by_severity),
            "",
            f"The {len(whole)} statements form {len(statements)} entries. Open entries:"
            f" {by_source.loc[_ALL, 'open']}; they are about training, which the suite does not do. {not_included()}",
        ]
    )


def _markdown(corner: str, names: Iterable[str], table: pd.DataFrame) -> list[str]:
    """The lines of a Markdown table, with numbers aligned to the right.

    Args:
        corner: the head of the first column.
        names: one per row.
        table: the numbers.
    """
    rows = (f"| {name} | {' | '.join(map(str, row))} |" for name, row in zip(names, table.to_numpy(), strict=True))
    return [f"| {corner} | {' | '.join(table.columns)} |", f"|---|{'---:|' * len(table.columns)}", *rows]


def not_included() -> str:
    """The kinds of statements without an entry."""
    kinds = Counter(kind for source in SOURCES.values() for kind in source.left_out.values())
    listed = ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items()))
    return (
        f"{kinds.total()} statements have no entry, because they claim nothing that a computation could refute:"
        f" {listed}. The lists omit statements about {'; '.join(OUTSIDE)}."
    )


def summary(statements: pd.DataFrame) -> str:
    """The counts by source and by severity, the omissions, then every wrong or misleading statement."""
    lines = []
    for (name, row), source in zip(counts(statements).iterrows(), [*SOURCES.values(), None], strict=True):
        found = ", ".join(f"{count} {verdict}" for verdict, count in row.items() if count)
        lines += [source.citation if source else str(name), f"  {found}"]
    lines += ["", severities(statements).to_string(), "", not_included()]
    for grave, group in gravest_first(statements).groupby("severity", sort=False):
        lines += ["", f"{grave}:", *(_line(row) for _, row in group.iterrows())]
    return "\n".join(lines)


def _line(row: "pd.Series[str]") -> str:
    """One wrong or misleading statement in a line; computed values are cut after 100 characters."""
    right = row["computed"] if len(row["computed"]) <= _LONGEST else f"{row['computed'][:_LONGEST]}..."
    claimed = f" claimed {row['claimed']};" if row["claimed"] else ""
    names = ", ".join(source.label for source in sources_of(row["id"]))
    text = f"  {row['verdict']}: {row['statement']}{claimed} computed: {right}. {row['note']}"
    return f"{text.rstrip()} [{row['id']}, {names}]"
