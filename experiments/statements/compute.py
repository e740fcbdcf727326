"""The table of published statements: the computed values and the verdict for each.

The declarations of `experiments.statements.published` and the measured tables go in; the rows of
results/statements/statements.csv come out.
"""

import math
from typing import Any

import pandas as pd

from experiments.statements.answer import Answer
from experiments.statements.cutoffs import CUTOFFS
from experiments.statements.declare import Statement, all_statements
from experiments.statements.judge import severity, verdict
from experiments.statements.measured import Tables
from experiments.statements.sources import sources_of

_ROUNDING = 1e-12  # smaller errors come from the rounding of doubles and differ between machines


def compute_table(tables: Tables) -> pd.DataFrame:
    """One row per statement, in the order of `all_statements`.

    Args:
        tables: the measured tables by name, of the sweeps in the config.yaml of this folder: `dimension`, or
            `dimension/slopes` for a derived table.

    Returns:
        The columns of `compute_row`.
    """
    return pd.DataFrame([compute_row(statement, tables) for statement in all_statements()])


def compute_row(statement: Statement, tables: Tables) -> dict[str, Any]:
    """The row of a statement; an error in it names the statement in a note.

    Returns:
        `id` (all ids), `source` (citations), `statement`, `claimed` (as declared), `computed` (numbers with six digits,
        or cases), `error` (the largest distance of a computed number from the claimed one; NaN without numbers),
        `verdict`, `severity` (empty unless the statement is wrong or misleading), `note`, and `other_cutoffs` (the
        verdict and the severity under other cut-offs, one at a time, where they differ).
    """
    try:
        for cutoff in CUTOFFS.values():
            cutoff.was_read = False
        answer, error, *judged = _judged(statement, tables)
        other = []
        for name, cutoff in CUTOFFS.items():
            for value in cutoff.others if cutoff.was_read else ():
                with cutoff.moved(value):
                    _, _, *now = _judged(statement, tables)
                if now != judged:
                    other.append(f"{name} = {value:g}: {', '.join(filter(None, now))}")
    except Exception as problem:
        problem.add_note(f"in statement {statement.ids}")
        raise
    return {
        "id": statement.ids,
        "source": "; ".join(source.citation for source in sources_of(statement.ids)),
        "statement": statement.says,
        "claimed": statement.claimed,
        "computed": _computed(answer),
        "error": float(f"{error:.4g}") if error > _ROUNDING else error * 0,
        "verdict": judged[0],
        "severity": judged[1],
        "note": answer.note,
        "other_cutoffs": "; ".join(other),
    }


def _judged(statement: Statement, tables: Tables) -> tuple[Answer, float, str, str]:
    """The answer to a statement, its largest error, its verdict, and its severity or an empty text."""
    answer = statement.answer(tables)
    found, error = verdict(statement.rule, statement.numbers, answer)
    return answer, error, found, severity(found, statement.severity, statement.numbers, answer) or ""


def _computed(answer: Answer) -> str:
    """Numbers with six digits, or the tested cases of a statement.

    A number within 1e-12 of 0 is shown as 0: its digits are rounding errors, which differ between machines.
    """
    if answer.numbers:
        return " ".join(f"{0.0 if math.isclose(x, 0, abs_tol=1e-12) else x:.6g}" for x in answer.numbers)
    return "; ".join(f"{'yes' if true else 'no'}: {condition}" for condition, true in answer.cases.items())
