"""The record in short: verdicts by source, and what is wrong."""

from pathlib import Path

import pandas as pd

from experiments.record.left_out import left_out

VERDICTS = ("reproduced", "to rounding", "within sampling error", "holds", "wrong", "misleading", "open")
_LONGEST = 100


def counts(record: pd.DataFrame) -> pd.DataFrame:
    """How many claims of each source have each verdict; a claim of several sources counts for each, and once in all."""
    each = record.assign(source=record["source"].str.split(", ")).explode("source")
    table = pd.crosstab(each["source"], each["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)
    table = table.loc[list(dict.fromkeys(each["source"]))]
    table.loc["all, once"] = record["verdict"].value_counts().reindex(VERDICTS, fill_value=0)
    return table


def counts_by_source(path: Path) -> str:
    """The counts as a table in Markdown, and what was left out and why."""
    record = pd.read_csv(path, keep_default_na=False)
    table = counts(record)
    lines = [f"| source | {' | '.join(VERDICTS)} |", f"|---|{'---:|' * len(VERDICTS)}"]
    lines += [
        f"| {name} | {' | '.join(map(str, row))} |" for name, row in zip(table.index, table.to_numpy(), strict=True)
    ]
    statements = sum(len(ids.split()) for ids in record["id"])
    reasons = left_out()["reason"].value_counts()
    missing = ", ".join(f"{count} as {reason}" for reason, count in reasons.items())
    opened = int(table.loc["all, once", "open"])
    lines += [
        "",
        f"{statements} statements are merged into {len(record)} entries; {reasons.sum()} more are left out ({missing})."
        f" {opened} entries are open: they are about training, which nothing here does.",
    ]
    return "\n".join(lines)


def summary(path: Path) -> str:
    """The counts by source, then every wrong statement with what is right."""
    record = pd.read_csv(path, keep_default_na=False)
    lines = [counts(record).to_string(), "", "wrong:"]
    for _, row in record[record["verdict"] == "wrong"].iterrows():
        right = row["computed"] if len(row["computed"]) <= _LONGEST else f"{row['computed'][:_LONGEST]}..."
        claimed = f" claimed {row['claimed']}," if row["claimed"] else ""
        lines.append(f"  {row['id']}: {row['statement']}{claimed} right: {right}. {row['note']}".rstrip())
    return "\n".join(lines)
