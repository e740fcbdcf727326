"""Published statements for the page: the gravest mistakes first, and the statements for each finding."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.claims.data import Source, sources_of
from experiments.claims.judge import rank
from experiments.claims.summary import gravest_first
from experiments.claims.table import read_statements

# The statements that the first screen corrects, by one of their ids. Each figure declares the ones that it corrects.
OF_OPENING = {"notebook-15": "It is not what keeps the softmax numerically stable."}


@dataclass(frozen=True)
class Entry:
    """A published statement and its correction: a row of the table of statements, with its sources looked up.

    Attributes:
        ids: all its ids, separated by blanks.
        sources: the publications, each once.
        statement, claimed, computed, note, verdict, severity: as in the table, as text.
    """

    ids: str
    sources: tuple[Source, ...]
    statement: str
    claimed: str
    computed: str
    note: str
    verdict: str
    severity: str

    @property
    def right(self) -> str:
        """The computed numbers, or the tests that the statement passes and fails."""
        return f"Computed: {self.computed}." if self.computed else "Not computed here."

    @property
    def rank(self) -> int:
        """The position of the entry: wrong and misleading ones by severity, then open ones, then right ones."""
        return rank(self.verdict, self.severity)


def entries(results: Path) -> list[Entry]:
    """All entries in the order of `gravest_first`; none if these results have no published statements."""
    return [
        Entry(
            ids=row["id"],
            sources=tuple(sources_of(row["id"])),
            **{name: row[name] for name in ("statement", "claimed", "computed", "note", "verdict", "severity")},
        )
        for _, row in gravest_first(read_statements(results)).iterrows()
    ]


def chosen(published: Sequence[Entry], ids: Sequence[str]) -> list[Entry]:
    """The entries with these ids, in this order; none if there are no entries."""
    by_id = {name: entry for entry in published for name in entry.ids.split()}
    return [by_id[name] for name in ids] if published else []
