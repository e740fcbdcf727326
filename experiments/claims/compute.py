"""The table of published statements, from their declarations and the measured tables."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from experiments.claims.cutoffs import OTHERS
from experiments.claims.entry import Claim
from experiments.claims.judge import Answer, parse_claimed, severity, verdict
from experiments.claims.measured import Given
from experiments.claims.record import CLAIMS
from experiments.claims.sources import cited

_ROUNDING = 1e-12  # smaller errors come from the rounding of doubles and differ between machines


def compute_table(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row per entry, in the order of their declarations, with the columns of `compute_row`.

    Args:
        tables: the measured tables by name: `dimension`, or `dimension/slopes` for a derived one.
    """
    return pd.DataFrame([compute_row(claim, tables) for claim in CLAIMS])


def compute_row(claim: Claim, tables: Mapping[str, pd.DataFrame]) -> dict[str, object]:
    """The row of an entry; an error in it names the entry in a note.

    Returns:
        `id` (all ids), `source` (citations), `statement`, `claimed`, `computed` (numbers with six
        digits, or cases), `error` (the largest distance of a computed number from the claimed one;
        NaN without numbers), `verdict`, `severity` (empty unless the statement is wrong or
        misleading), `note`, and `other_cutoffs` (the verdict and the severity under other
        cut-offs, one at a time, where they differ).
    """
    given = Given(tables=tables)
    try:
        answer, error, judged = judge(claim, given)
        others = _other_verdicts(claim, given, judged)
    except Exception as problem:
        problem.add_note(f"in statement {claim.id}")
        raise
    return {
        "id": claim.id,
        "source": "; ".join(cited(claim.id)),
        "statement": claim.statement,
        "claimed": claim.claimed,
        "computed": _computed(answer),
        "error": 0.0 if error <= _ROUNDING else float(f"{error:.4g}"),
        "verdict": judged[0],
        "severity": judged[1],
        "note": answer.note,
        "other_cutoffs": "; ".join(others),
    }


def judge(claim: Claim, given: Given) -> tuple[Answer, float, tuple[str, str]]:
    """The answer to an entry, its largest error, and its verdict with the severity."""
    claimed = parse_claimed(claim.claimed)
    answer = claim.answer(given)
    found, error = verdict(claim.rule, claimed, answer, given)
    return answer, error, (found, severity(found, claim.severity, claimed, answer, given))


def _other_verdicts(claim: Claim, given: Given, judged: tuple[str, str]) -> list[str]:
    """The verdicts and severities under other cut-offs that differ from these."""
    found = []
    read = set(given.read)
    for name, values in OTHERS.items():
        for value in values if name in read else ():
            changed: dict[str, Any] = {name: value}
            _, _, now = judge(claim, replace(given, **changed))
            if now != judged:
                found.append(f"{name.upper()} = {value:g}: {', '.join(filter(None, now))}")
    return found


def _computed(answer: Answer) -> str:
    """Numbers with six digits, or the tested cases of a statement.

    A number within 1e-12 of 0 is shown as 0: its digits are rounding errors, which differ between
    machines.
    """
    if answer.numbers:
        exact = (0.0 if math.isclose(x, 0, abs_tol=1e-12) else x for x in answer.numbers)
        return " ".join(f"{x:.6g}" for x in exact)
    return "; ".join(f"{'yes' if true else 'no'}: {words}" for words, true in answer.cases.items())
