"""The record in short: verdicts by source and by severity, what is wrong or misleading, what is left out."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from experiments.statements.left_out import OUTSIDE, left_out
from experiments.statements.order import MISLEADING, OPEN, SEVERITIES, VERDICTS, WRONG, rank
from experiments.statements.sources import SOURCES, Source, sources, statements

_LONGEST = 100
_ALL = "all, once"


def counts(record: pd.DataFrame) -> pd.DataFrame:
    """How many claims of each source have each verdict; a claim of several sources counts for each, and once in all."""
    each = record.assign(source=record["id"].map(sources)).explode("source")
    table = pd.crosstab(each["source"].map(_label), each["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)
    table = table.reindex([source.label for source in SOURCES.values()], fill_value=0)
    table.loc[_ALL] = record["verdict"].value_counts().reindex(VERDICTS, fill_value=0)
    return table


def _label(source: Source) -> str:
    return source.label


def severities(record: pd.DataFrame) -> pd.DataFrame:
    """How many wrong and misleading entries have each severity, the gravest first."""
    table = pd.crosstab(record["severity"], record["verdict"])
    return table.reindex(index=list(SEVERITIES), columns=[WRONG, MISLEADING], fill_value=0)


def gravest_first(record: pd.DataFrame) -> pd.DataFrame:
    """The wrong and misleading entries, the gravest first."""
    found = record[record["severity"] != ""]
    ranks = [rank(row["verdict"], row["severity"]) for _, row in found.iterrows()]
    return found.assign(rank=ranks).sort_values("rank", kind="stable").drop(columns="rank")


def counts_by_source(path: Path) -> str:
    """The counts as tables in Markdown, with every source, and what was left out and why."""
    record = pd.read_csv(path, keep_default_na=False)
    by_source, by_severity = counts(record), severities(record)
    names = [source.citation for source in SOURCES.values()] + [_ALL]
    opened = int(by_source.loc[_ALL, OPEN])
    return "\n".join(
        [
            *_markdown("source", names, by_source),
            "",
            *_markdown("severity", SEVERITIES, by_severity),
            "",
            f"{len(_statements(record))} statements are merged into {len(record)} entries. {opened} entries are open:"
            f" they are about training, which nothing here does. {not_included()}",
        ]
    )


def _markdown(corner: str, names: Iterable[str], table: pd.DataFrame) -> list[str]:
    rows = (f"| {name} | {' | '.join(map(str, row))} |" for name, row in zip(names, table.to_numpy(), strict=True))
    return [f"| {corner} | {' | '.join(table.columns)} |", f"|---|{'---:|' * len(table.columns)}", *rows]


def _statements(record: pd.DataFrame) -> set[str]:
    return {name for ids in record["id"] for name in statements(ids)}


def not_included() -> str:
    """The kinds of statements that have no entry."""
    reasons = left_out()["reason"].value_counts(sort=False).sort_index()
    listed = ", ".join(f"{reason} ({count})" for reason, count in reasons.items())
    return (
        f"{reasons.sum()} statements have no entry, since they claim nothing that a computation could refute: {listed}."
        f" Not included at all are statements about {'; '.join(OUTSIDE)}."
    )


def summary(path: Path) -> str:
    """The counts by source and by severity, what is left out, then every wrong or misleading statement."""
    record = pd.read_csv(path, keep_default_na=False)
    lines = []
    for (name, row), source in zip(counts(record).iterrows(), [*SOURCES.values(), None], strict=True):
        found = ", ".join(f"{count} {verdict}" for verdict, count in row.items() if count)
        lines += [source.citation if source else str(name), f"  {found}"]
    lines += ["", severities(record).to_string(), "", not_included()]
    for grave, group in gravest_first(record).groupby("severity", sort=False):
        lines += ["", f"{grave}:", *(_line(row) for _, row in group.iterrows())]
    return "\n".join(lines)


def _line(row: "pd.Series[str]") -> str:
    right = row["computed"] if len(row["computed"]) <= _LONGEST else f"{row['computed'][:_LONGEST]}..."
    claimed = f" claimed {row['claimed']};" if row["claimed"] else ""
    names = ", ".join(source.label for source in sources(row["id"]))
    text = f"  {row['verdict']}: {row['statement']}{claimed} computed: {right}. {row['note']}"
    return f"{text.rstrip()} [{row['id']}, {names}]"
