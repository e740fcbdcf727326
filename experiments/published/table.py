"""Published statements and the table of their verdicts, results/statements/statements.csv.

The CSV files of this folder and the measured tables go in:

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
import inspect
import math
import textwrap
from collections import UserDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.paths import STATEMENTS
from experiments.published.judge import FAULTY, SEVERITIES, VERDICTS, Answer, parse_claimed, severity, verdict

FOLDER = Path(__file__).parent
CONFIG = FOLDER / "config.yaml"  # of the measurements that config.yaml lacks
# The names of expressions.
_OURS = ("examples", "judge", "quantities", "answers")
MODULES = ("math", "sdpa", *(f"experiments.published.{name}" for name in _OURS))
_ROUNDING = 1e-12  # smaller errors come from the rounding of doubles and differ between machines
_ALL = "all sources, each entry once"
_WIDTH = 100  # of a line in the terminal


@dataclass(frozen=True)
class Claim:
    """An entry of `claims.csv`, with its note and its cases, each in words and with its test."""

    id: str
    statement: str
    claimed: str
    rule: str
    severity: str
    quantity: str
    note: str = ""
    cases: tuple[tuple[str, str], ...] = ()


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def claims() -> tuple[Claim, ...]:
    """All entries, in the order of the table."""
    cases: dict[str, list[tuple[str, str]]] = {}
    for row in _rows("cases"):
        cases.setdefault(row["id"], []).append((row["case"], row["test"]))
    notes = {row["id"]: row["note"] for row in _rows("notes")}
    firsts = ((row["id"].split()[0], row) for row in _rows("claims"))
    return tuple(Claim(**row, note=notes.get(first, ""), cases=tuple(cases.get(first, ()))) for first, row in firsts)


@cache
def sources() -> dict[str, str]:
    """Kind, title, author and address of all publications, by the first part of the ids of their statements."""
    rows = {row["source"]: row for row in _rows("sources")}
    return {
        name: ", ".join(filter(None, (f"{row['kind']} {row['title']}", row["author"], row["address"])))
        for name, row in rows.items()
    }


def cited(ids: str) -> list[str]:
    """The sources of ids with blanks between them, each once, in their order."""
    return list(dict.fromkeys(sources()[one.partition("-")[0]] for one in ids.split()))


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
def cutoffs() -> dict[str, tuple[float, ...]]:
    """All cut-offs by name: the value behind the verdicts, then others that one might choose."""
    return {row["name"]: (float(row["value"]), *map(float, row["others"].split())) for row in _rows("cutoffs")}


def chosen() -> Values:
    """The values behind the verdicts."""
    return Values({name: values[0] for name, values in cutoffs().items()})


def table_path(results: Path) -> Path:
    """The table of statements in a results folder, whether it exists or not."""
    return results / STATEMENTS / "statements.csv"


def read_statements(results: Path) -> pd.DataFrame:
    """The table of statements as text, because some fields have several numbers; without rows if there is none."""
    path = table_path(results)
    return pd.read_csv(path, keep_default_na=False, dtype=str) if path.exists() else pd.DataFrame()


class Names:
    """The names in the expressions of entries: those of `MODULES`, with the measured tables as first argument.

    The expressions are part of this repository, as its code is.

    Args:
        tables: the measured tables by name: `dimension`, or `dimension/slopes` for a derived table.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame]) -> None:
        self._names = {name: value for module in MODULES for name, value in vars(import_module(module)).items()}
        self._names["tables"] = tables
        for name, value in self._names.items():
            if inspect.isfunction(value) and "tables" in inspect.signature(value).parameters:
                self._names[name] = partial(value, tables)

    def value(self, expression: str, cut: Values, **more: Any) -> Any:
        """The value of an expression, in which cut-offs are names, too."""
        return eval(expression, {**self._names, **more}, cut)

    def text(self, template: str, cut: Values, **more: Any) -> str:
        """A text with the values of the expressions in its braces, as in an f-string."""
        return str(self.value(f'f"""{template}"""', cut, **more))


def compute_table(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per entry, in the order of `claims.csv`, with the columns of `compute_row`."""
    names = Names(tables)
    return pd.DataFrame([compute_row(claim, names) for claim in claims()])


def compute_row(claim: Claim, names: Names) -> dict[str, Any]:
    """The row of an entry; an error in it names the entry in a note.

    Returns:
        `id` (all ids), `source` (citations), `statement`, `claimed`, `computed` (numbers with six digits, or cases),
        `error` (the largest distance of a computed number from the claimed one; NaN without numbers), `verdict`,
        `severity` (empty unless the statement is wrong or misleading), `note`, and `other_cutoffs` (the verdict and the
        severity under other cut-offs, one at a time, where they differ).
    """
    cut = chosen()
    try:
        answer, error, judged = judge(claim, names, cut)
        other = []
        for name, value in [(one, other) for one in cutoffs() if one in cut.read for other in cutoffs()[one][1:]]:
            _, _, now = judge(claim, names, Values(cut.data | {name: value}))
            if now != judged:
                other.append(f"{name} = {value:g}: {', '.join(filter(None, now))}")
        note = names.text(claim.note, cut, claimed=claim.claimed)
    except Exception as problem:
        problem.add_note(f"in statement {claim.id}")
        raise
    return {
        "id": claim.id,
        "source": "; ".join(cited(claim.id)),
        "statement": claim.statement,
        "claimed": claim.claimed,
        "computed": _computed(answer),
        "error": float(f"{error:.4g}") if error > _ROUNDING else error * 0,
        "verdict": judged[0],
        "severity": judged[1],
        "note": note,
        "other_cutoffs": "; ".join(other),
    }


def judge(claim: Claim, names: Names, cut: Values) -> tuple[Answer, float, tuple[str, str]]:
    """The answer to an entry, its largest error, and its verdict with the severity or an empty text."""
    claimed = parse_claimed(claim.claimed)
    found = names.value(claim.quantity or "()", cut, claimed=claim.claimed)
    if not isinstance(found, Answer):  # a number, an array, or several of them
        parts = found if isinstance(found, list | tuple) else [found]
        found = Answer(tuple(float(number) for part in parts for number in np.ravel(part)))
    answer = replace(found, cases=dict(_cases(claim, names, cut)))
    judged, error = verdict(claim.rule, claimed, answer, cut)
    return answer, error, (judged, severity(judged, claim.severity, claimed, answer, cut))


def _cases(claim: Claim, names: Names, cut: Values) -> Iterator[tuple[str, bool]]:
    """The cases of an entry in words, each with whether the statement is true in it."""
    for case, test in claim.cases:
        true = names.value(test, cut)
        for n, one in true.items() if hasattr(true, "items") else ((None, true),):
            yield names.text(case, cut, n=names.value("label", cut)(n)), bool(one)


def _computed(answer: Answer) -> str:
    """Numbers with six digits, or the tested cases of a statement.

    A number within 1e-12 of 0 is shown as 0: its digits are rounding errors, which differ between machines.
    """
    if answer.numbers:
        return " ".join(f"{0.0 if math.isclose(x, 0, abs_tol=1e-12) else x:.6g}" for x in answer.numbers)
    return "; ".join(f"{'yes' if true else 'no'}: {condition}" for condition, true in answer.cases.items())


# For the terminal and the documentation.


def counts(statements: pd.DataFrame) -> pd.DataFrame:
    """The number of rows by source and verdict; a row of several sources counts for each, and once in all."""
    each = statements.assign(source=statements["id"].map(cited)).explode("source")
    table = pd.crosstab(each["source"], each["verdict"])
    table = table.reindex(index=[*sources().values()], columns=list(VERDICTS), fill_value=0)
    table.loc[_ALL] = statements["verdict"].value_counts().reindex(VERDICTS, fill_value=0)
    return table


def severities(statements: pd.DataFrame) -> pd.DataFrame:
    """The number of wrong and misleading rows by severity, the gravest first."""
    table = pd.crosstab(statements["severity"], statements["verdict"])
    return table.reindex(index=list(SEVERITIES), columns=list(FAULTY), fill_value=0)


def summary(statements: pd.DataFrame, *, whole: bool) -> str:
    """The number of entries by verdict, and every wrong or misleading one, the gravest first.

    Args:
        statements: the table.
        whole: True for counts by source and by severity, and for the numbers and reasons behind each.
    """
    by_source = counts(statements)
    by_verdict = ", ".join(f"{count} {verdict}" for verdict, count in by_source.loc[_ALL].items() if count)
    lines = [f"{len(statements)} entries: {by_verdict}"]
    if whole:
        lines += ["", by_source.to_string(), "", severities(statements).to_string(), ""]
    for grave in SEVERITIES:
        rows = statements[statements["severity"] == grave].sort_values("verdict", ascending=False, kind="stable")
        lines += [f"{grave}:"] * bool(len(rows))
        lines += [_line(row, whole=whole) for _, row in rows.iterrows()]
    return "\n".join(lines)


def _line(row: "pd.Series[str]", *, whole: bool) -> str:
    said = f"  {row['verdict']}: {row['statement']}"
    if not whole:
        place = f" [{row['id'].split()[0]}]"
        return f"  {textwrap.shorten(said, _WIDTH - len(place) - 2, placeholder=' ...')}{place}"
    claimed = f" Claimed: {row['claimed']}." if row["claimed"] else ""
    note = f" {row['note']}." if row["note"] else ""
    return f"{said}{claimed} Computed: {row['computed']}.{note} [{row['id']}]"
