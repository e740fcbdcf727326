"""A summary of published statements: verdicts by source and by severity, the mistakes, and the omissions.

The table of `experiments.statements.compute` goes in, as data or read from its file; text for the terminal (`summary`)
and for Markdown (`counts_in_markdown`) comes out.
"""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from experiments.figures.caption_text import listed
from experiments.statements.cutoffs import CUTOFFS
from experiments.statements.order import TESTS, like_claimed, position
from experiments.statements.sources import OUTSIDE, SOURCES, parse_ids, sources_of
from experiments.statements.verdicts import FAULTY, SEVERITIES, VERDICTS

_ALL = "all sources, each entry once"
_KEYS = re.compile(r"(?P<test>.*)\bwith (?P<keys>[\d,]+) keys")


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
    """The rows, the gravest first, and of equal rank the largest errors first; equal ones keep their order."""
    columns = ("verdict", "severity", "claimed", "computed")
    places = [position(*(row[name] for name in columns)) for _, row in statements.iterrows()]
    return statements.iloc[sorted(range(len(places)), key=places.__getitem__)]


def counts_in_markdown(statements: pd.DataFrame) -> str:
    """The counts as tables in Markdown, with every source, the omissions with their reasons, and other cut-offs."""
    by_source, by_severity = counts(statements), severities(statements)
    names = [source.citation for source in SOURCES.values()] + [_ALL]
    whole = {(one.source, one.number) for ids in statements["id"] for one in parse_ids(ids)}
    return "\n".join(
        [
            *_markdown("source", names, by_source),
            "",
            *_markdown("severity", SEVERITIES, by_severity),
            "",
            f"The {len(whole)} statements form {len(statements)} entries. Open entries: {by_source.loc[_ALL, 'open']},"
            f" about models trained on text, which the suite does not train. {not_included()}",
            "",
            "Another value of a cut-off, one at a time, changes these verdicts:",
            "",
            *_other_cutoffs(statements),
        ]
    )


def _other_cutoffs(statements: pd.DataFrame) -> list[str]:
    """The lines of a Markdown table of all cut-offs, with every verdict that another value changes."""
    changes = [(row["id"], change) for _, row in statements.iterrows() for change in row["other_cutoffs"].split("; ")]
    lines = ["| cut-off | words | value | other values | other verdicts |", "|---|---|---:|---:|---|"]
    for name, one in CUTOFFS.items():
        of_this = [
            (ids, *change.removeprefix(f"{name} = ").split(": "))
            for ids, change in changes
            if change.startswith(f"{name} = ")
        ]
        found = "; ".join(f"at {value}, {ids}: {now}" for ids, value, now in of_this)
        others = ", ".join(f"{value:g}" for value in one.others)
        lines.append(f"| `{name}` | {one.words} | {one} | {others} | {found or 'none'} |")
    return lines


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
    left_out = ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items()))
    return (
        f"{kinds.total()} statements have no entry, because they claim nothing that a computation could refute:"
        f" {left_out}. Our lists of statements leave out {listed(OUTSIDE)}."
    )


def summary(statements: pd.DataFrame) -> str:
    """The counts by source and by severity, the omissions, then every wrong or misleading statement."""
    lines = []
    for (name, row), source in zip(counts(statements).iterrows(), [*SOURCES.values(), None], strict=True):
        found = ", ".join(f"{count} {verdict}" for verdict, count in row.items() if count)
        lines += [source.citation if source else str(name), f"  {found}"]
    lines += ["", severities(statements).to_string(), "", not_included()]
    for grave, group in _mistakes(statements).groupby("severity", sort=False):
        lines += ["", f"{grave}:", *(_line(row) for _, row in group.iterrows())]
    return "\n".join(lines)


def short_summary(statements: pd.DataFrame, width: int = 100) -> str:
    """The number of entries by verdict, then a line of this width for every wrong or misleading statement."""
    found = statements["verdict"].value_counts().reindex(VERDICTS, fill_value=0)
    lines = [
        f"{len(statements)} entries: {', '.join(f'{count} {verdict}' for verdict, count in found.items() if count)}"
    ]
    for grave, group in _mistakes(statements).groupby("severity", sort=False):
        lines.append(f"{grave}:")
        for _, row in group.iterrows():
            place = f" [{row['id'].split()[0]}]"
            said = textwrap.shorten(
                f"  {row['verdict']}: {row['statement']}", width - len(place) - 2, placeholder=" ..."
            )
            lines.append(f"  {said}{place}")
    return "\n".join(lines)


def _mistakes(statements: pd.DataFrame) -> pd.DataFrame:
    """The wrong and misleading rows, the gravest first."""
    return gravest_first(statements[statements["verdict"].isin(FAULTY)])


def _line(row: "pd.Series[str]") -> str:
    """One wrong or misleading statement in a line."""
    claimed = f" Claimed: {', '.join(row['claimed'].split())}." if row["claimed"] else ""
    names = ", ".join(source.label for source in sources_of(row["id"]))
    note = f" {row['note']}." if row["note"] else ""
    right = in_words(row["claimed"], row["computed"])
    return f"  {row['verdict']}: {row['statement']}{claimed} {right}{note} [{row['id']}, {names}]"


def in_words(claimed: str, computed: str) -> str:
    """The column `computed` as sentences: the numbers, or the tests that a statement passes and those that it fails.

    Numbers have the digits of the column `claimed`, as `like_claimed` says.

    >>> in_words("0.44 0.30", "0.4412 0.35")
    'Computed: 0.44, 0.35.'
    >>> in_words("", "yes: with 4 keys; no: with 64 keys; no: with 4096 keys")
    'The statement passes this test: with 4 keys. It fails these tests: with 64 and 4096 keys.'
    """
    if not computed:
        return "Not computed here: it is about a model trained on text."
    if claimed:
        return f"Computed: {', '.join(like_claimed(claimed, computed))}."
    words = TESTS.split(computed)[1:]
    tests: dict[str, list[str]] = {"yes": [], "no": []}
    for result, test in zip(words[::2], words[1::2], strict=True):
        tests[result].append(test)
    found = [(verb, tests[result]) for verb, result in (("passes", "yes"), ("fails", "no")) if tests[result]]
    sentences = [f"{verb} {_in_one(of_verb)}." for verb, of_verb in found]
    return " It ".join(["The statement " + sentences[0], *sentences[1:]])


def _in_one(tests: Sequence[str]) -> str:
    """Tests as one list; those that differ only in the number of keys become one item."""
    keys: dict[str, list[str]] = {}
    for test in tests:
        match = _KEYS.fullmatch(test)
        keys.setdefault(match["test"] if match else test, []).extend([match["keys"]] if match else [])
    items = [f"{test}with {listed(numbers)} keys" if numbers else test for test, numbers in keys.items()]
    return f"{'this test' if len(tests) == 1 else 'these tests'}: {'; '.join(items)}"
