"""The record as a table: every claim with what was computed for it and its verdict."""

import math

import pandas as pd

# Each enters its quantities into the list.
from experiments.statements import (  # noqa: F401
    article,
    by_hand,
    comparison,
    counts,
    elsewhere,
    formula,
    law,
    lesson,
    notebook,
    questions,
    textbook,
    weights,
)
from experiments.statements.answers import QUANTITIES, Answer, Tables
from experiments.statements.files import CLAIMS
from experiments.statements.sources import sources
from experiments.statements.verdicts import severity, verdict

_ROUNDING = 1e-12  # errors below are those of doubles, and differ from machine to machine


def claims() -> pd.DataFrame:
    """The statements: ids, statement in our words, claimed numbers, rule, quantity that answers it, and severity.

    Claimed numbers have the digits that their source prints; one that is meant exactly, such as a sum of 1, has zeros.
    The severity is that of a mistake in the statement: a conceptual error if it is about attention in general, a wrong
    number if it is about one example or result, a slip if it is about counting or about the last digit of a double.
    """
    return pd.read_csv(CLAIMS, dtype=str, keep_default_na=False)


def build(tables: Tables) -> pd.DataFrame:
    """One row per claim.

    Raises:
        ValueError: a claim that names no quantity, or whose answer does not fit its rule; the message names the claim.
    """
    rows = []
    for claim in claims().itertuples():
        try:
            answer = Answer() if claim.rule == "training" else QUANTITIES[claim.quantity](tables)
            found, error = verdict(claim.claimed, claim.rule, answer)
            grave = severity(found, claim.severity, claim.claimed, answer)
        except (KeyError, ValueError) as problem:
            raise ValueError(f"claim {claim.ids}: {problem}") from problem
        rows.append(
            {
                "id": claim.ids,
                "source": "; ".join(source.citation for source in sources(claim.ids)),
                "statement": claim.statement,
                "claimed": claim.claimed,
                "computed": _computed(answer),
                "error": float(f"{error:.4g}") if error > _ROUNDING else error * 0,
                "verdict": found,
                "severity": grave,
                "note": answer.note,
            }
        )
    return pd.DataFrame(rows)


def _computed(answer: Answer) -> str:
    """Numbers with six digits, or the cases in which a statement was tested."""
    if answer.numbers:
        return " ".join(f"{0.0 if math.isclose(x, 0, abs_tol=1e-12) else x:.6g}" for x in answer.numbers)
    return "; ".join(f"{'yes' if held else 'no'}: {condition}" for condition, held in answer.cases.items())
