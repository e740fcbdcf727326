"""A summary of published statements: verdicts by source and by severity, the mistakes, and the omissions.

The table as read from its file goes in; text for the terminal (`summary`) and Markdown (`counts_in_markdown`) come out.
"""

import re
import textwrap
from collections import Counter

import pandas as pd

from experiments.claims.data import cutoffs, left_out, sources, sources_of
from experiments.claims.judge import FAULTY, SEVERITIES, VERDICTS, parse_claimed, rank

_ALL = "all sources, each entry once"
_WIDTH = 100  # of a line in the terminal


def counts(statements: pd.DataFrame) -> pd.DataFrame:
    """The number of rows by source and verdict; a row of several sources counts for each, and once in all.

    Returns:
        A row per source, by its citation, and a row of all; a column per verdict, 0 where there is none.
    """
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


def gravest_first(statements: pd.DataFrame) -> pd.DataFrame:
    """The rows, the gravest first, and of equal rank the largest errors first; equal ones keep their order."""
    keys = [
        (rank(row["verdict"], row["severity"]), -size_of_error(row["claimed"], row["computed"]))
        for _, row in statements.iterrows()
    ]
    return statements.iloc[sorted(range(len(keys)), key=keys.__getitem__)]


def size_of_error(claimed: str, computed: str) -> float:
    """The largest relative error of the claimed numbers, or the share of failed tests; 0 without either.

    An error is relative to the claimed number, or to the unit of its last digit if the number is smaller.

    >>> size_of_error("200 0.00", "150 1e-17"), size_of_error("", "yes: here; no: there"), size_of_error("", "")
    (0.25, 0.5, 0.0)
    """
    if claimed:
        pairs = zip(parse_claimed(claimed), map(float, computed.split()), strict=True)
        return max(abs(number.value - right) / max(abs(number.value), number.unit) for number, right in pairs)
    results = re.findall(r"(?:^|; )(yes|no): ", computed)
    return results.count("no") / len(results) if results else 0.0


def not_included() -> str:
    """The kinds of statements without an entry."""
    kinds = Counter(left_out().values())
    listed = ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items()))
    return (
        f"{kinds.total()} statements have no entry, because they claim nothing that a computation could refute:"
        f" {listed}. Our lists of statements leave out history and impact, hardware and production code, other"
        " mechanisms (several heads, masks and sparse attention) and advice."
    )


def counts_in_markdown(statements: pd.DataFrame) -> str:
    """The counts as tables in Markdown, with every source, the omissions with their reasons, and other cut-offs."""
    by_source = counts(statements)
    whole = {re.sub("[a-z]$", "", one) for ids in statements["id"] for one in ids.split()}
    text = (
        f"The {len(whole)} statements form {len(statements)} entries. Open entries: {by_source.loc[_ALL, 'open']},"
        f" about models trained on text, which the suite does not train. {not_included()}\n\n"
        "Another value of a cut-off, one at a time, changes these verdicts:"
    )
    changed = statements.set_index("id")["other_cutoffs"].str.split("; ").explode()
    found = changed.str.extract(r"(?P<name>.*) = (?P<value>.*): (?P<now>.*)").reset_index()
    rows = {}
    for name, one in cutoffs().items():
        others = ", ".join(f"{value:g}" for value in one.others)
        moves = "; ".join(f"at {x.value}, {x.id}: {x.now}" for x in found[found["name"] == name].itertuples())
        rows[f"`{name}`"] = [one.words, f"{one.value:g}", others, moves or "none"]
    moved = pd.DataFrame.from_dict(rows, orient="index", columns=["words", "value", "other values", "other verdicts"])
    tables = (("source", by_source), ("severity", severities(statements)), ("cut-off", moved))
    first, second, third = (_markdown(corner, table) for corner, table in tables)
    return "\n\n".join([first, second, text, third])


def _markdown(corner: str, table: pd.DataFrame) -> str:
    """A table in Markdown, with numbers aligned to the right."""
    rules = ("---:|" if name in (*VERDICTS, "value", "other values") else "---|" for name in table.columns)
    lines = ([name, *map(str, row)] for name, row in zip(table.index, table.to_numpy(), strict=True))
    head, *rest = (f"| {' | '.join(line)} |" for line in ([corner, *table.columns], *lines))
    return "\n".join([head, f"|---|{''.join(rules)}", *rest])


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
        lines += ["", counts(statements).to_string(), "", severities(statements).to_string(), "", not_included(), ""]
    faulty = gravest_first(statements[statements["verdict"].isin(FAULTY)])
    for grave, group in faulty.groupby("severity", sort=False):
        lines += [f"{grave}:", *(_whole(row) if whole else _short(row) for _, row in group.iterrows())]
    return "\n".join(lines)


def _short(row: "pd.Series[str]") -> str:
    place = f" [{row['id'].split()[0]}]"
    said = f"  {row['verdict']}: {row['statement']}"
    return f"  {textwrap.shorten(said, _WIDTH - len(place) - 2, placeholder=' ...')}{place}"


def _whole(row: "pd.Series[str]") -> str:
    claimed = f" Claimed: {row['claimed']}." if row["claimed"] else ""
    note = f" {row['note']}." if row["note"] else ""
    return f"  {row['verdict']}: {row['statement']}{claimed} Computed: {row['computed']}.{note} [{row['id']}]"
