"""Published statements, their sources and the cut-offs of their verdicts, as the CSV files of this folder have them.

- `claims.csv`: `id` (SOURCE-NUMBER of every place of publication, with a letter for a part), `statement` in our words,
  `claimed` numbers with the digits that the source prints, `rule` (see `judge.verdict`; empty for an open statement),
  `severity` of a mistake in it, and `quantity`, the expression that answers it.
- `cases.csv`: the tests of a statement under the rule `true`: the first `id` of its entry, the `case` in words, and
  `test`. A test that gives a series of truths is one test for each label of its index, which {n} stands for.
- `notes.csv`: what the table says beside an answer, with expressions in braces, by the first `id` of the entry.
- `cutoffs.csv`: the bounds chosen by hand, for words such as "nearly", with `others` that one might choose.
- `sources.csv`: the publications. `left_out.csv`: their statements that no computation could refute.
"""

import csv
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Source(NamedTuple):
    """A publication: its key in ids, kind, title, author (empty where it names none), and address without a scheme."""

    source: str
    kind: str
    title: str
    author: str
    address: str

    @property
    def citation(self) -> str:
        """The kind, the title, the author and the address."""
        return ", ".join(filter(None, (f"{self.kind} {self.title}", self.author, self.address)))


class Case(NamedTuple):
    """A test of a statement: the case in words, and an expression that is true where the statement is."""

    case: str
    test: str


@dataclass(frozen=True)
class Claim:
    """An entry of `claims.csv`, with its note and its cases."""

    id: str
    statement: str
    claimed: str
    rule: str
    severity: str
    quantity: str
    note: str
    cases: tuple[Case, ...]

    @property
    def sources(self) -> list[Source]:
        """Its sources, each once, in the order of its ids."""
        return sources_of(self.id)


class CutOff(NamedTuple):
    """A cut-off: the words that need it, its value, other values that one might choose, and the reason."""

    words: str
    value: float
    others: tuple[float, ...]
    reason: str


class Values(UserDict[str, float]):
    """Values of cut-offs by name, which remembers in `read` the names that somebody looked up."""

    def __init__(self, values: Mapping[str, float]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> float:
        value = super().__getitem__(name)
        self.read.add(name)
        return value


@cache
def claims() -> tuple[Claim, ...]:
    """All entries, in the order of the table."""
    cases: dict[str, list[Case]] = {}
    for row in _rows("cases"):
        cases.setdefault(row["id"], []).append(Case(row["case"], row["test"]))
    notes = {row["id"]: row["note"] for row in _rows("notes")}
    firsts = ((row["id"].split()[0], row) for row in _rows("claims"))
    return tuple(Claim(**row, note=notes.get(first, ""), cases=tuple(cases.get(first, ()))) for first, row in firsts)


@cache
def cutoffs() -> dict[str, CutOff]:
    """All cut-offs by name."""
    return {
        row["name"]: CutOff(row["words"], float(row["value"]), tuple(map(float, row["others"].split())), row["reason"])
        for row in _rows("cutoffs")
    }


def chosen() -> Values:
    """The values behind the verdicts."""
    return Values({name: cutoff.value for name, cutoff in cutoffs().items()})


@cache
def sources() -> dict[str, Source]:
    """All publications, by the first part of the ids of their statements."""
    return {row["source"]: Source(**row) for row in _rows("sources")}


def sources_of(ids: str) -> list[Source]:
    """The sources of ids with blanks between them, each once, in their order."""
    return list(dict.fromkeys(sources()[one.partition("-")[0]] for one in ids.split()))


def left_out() -> dict[str, str]:
    """The kind of each statement without an entry, by its id."""
    return {row["id"]: row["kind"] for row in _rows("left_out")}
