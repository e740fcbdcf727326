"""Verdicts and severities, and the order of statements in lists."""

from typing import Literal, get_args

Verdict = Literal[
    "reproduced", "to rounding", "approximately", "within sampling error", "holds", "wrong", "misleading", "open"
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
FAULTY: tuple[Verdict, ...] = ("wrong", "misleading")  # the verdicts that have a severity

Severity = Literal["conceptual error", "wrong number", "overstatement", "slip"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the gravest first

_RANKS = (*((verdict, severity) for severity in SEVERITIES for verdict in FAULTY), ("open", ""))


def rank(verdict: str, severity: str) -> int:
    """The position of a statement: by severity, wrong before misleading; then open ones, then right ones.

    Args:
        verdict: one of `VERDICTS`.
        severity: one of `SEVERITIES`; empty unless the verdict is one of `FAULTY`.

    >>> rank("wrong", "conceptual error"), rank("misleading", "conceptual error"), rank("wrong", "wrong number")
    (0, 1, 2)
    >>> rank("open", "") < rank("reproduced", "") < rank("holds", "")
    True
    """
    if (verdict, severity) in _RANKS:
        return _RANKS.index((verdict, severity))
    return len(_RANKS) + [str(right) for right in VERDICTS].index(verdict)
