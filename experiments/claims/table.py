"""The table of published statements: the computed values and the verdict for each.

The CSV files of this folder and the measured tables go in; the rows of results/statements/statements.csv come out.
"""

import inspect
import math
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.claims.data import Claim, Values, chosen, claims, cutoffs
from experiments.claims.judge import Answer, parse_claimed, severity, verdict
from experiments.folders import STATEMENTS

CONFIG = Path(__file__).with_name("config.yaml")  # of the measurements that config.yaml lacks
# The names of expressions.
_OURS = ("examples.declared", *(f"claims.{name}" for name in ("judge", "quantities", "laws", "training")))
MODULES = ("math", "sdpa", *(f"experiments.{name}" for name in _OURS))
_ROUNDING = 1e-12  # smaller errors come from the rounding of doubles and differ between machines


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
        """A text with the values of the expressions in its braces, each with a format after a colon."""
        value = self.value

        class Filled(string.Formatter):
            def get_field(self, field_name: str, *_: object) -> tuple[Any, str]:
                return value(field_name, cut, **more), field_name

        return Filled().format(template)


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
        for name in [name for name in cutoffs() if name in cut.read]:
            for value in cutoffs()[name].others:
                _, _, now = judge(claim, names, Values(cut.data | {name: value}))
                if now != judged:
                    other.append(f"{name} = {value:g}: {', '.join(filter(None, now))}")
        note = names.text(claim.note, cut, claimed=claim.claimed)
    except Exception as problem:
        problem.add_note(f"in statement {claim.id}")
        raise
    return {
        "id": claim.id,
        "source": "; ".join(source.citation for source in claim.sources),
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
    given = found if isinstance(found, Answer) else Answer(tuple(_flat(found)))
    answer = replace(given, cases=dict(_cases(claim, names, cut)))
    judged, error = verdict(claim.rule, claimed, answer, cut)
    return answer, error, (judged, severity(judged, claim.severity, claimed, answer, cut))


def _flat(values: Any) -> Iterator[float]:
    """Numbers of nested sequences and arrays, row by row."""
    if hasattr(values, "ravel"):
        yield from map(float, values.ravel())
    elif isinstance(values, Sequence):
        for value in values:
            yield from _flat(value)
    else:
        yield float(values)


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
