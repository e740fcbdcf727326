"""Verdicts and severities, and the order in which entries are listed."""

from typing import Literal

WRONG, MISLEADING, OPEN = "wrong", "misleading", "open"
RIGHT = ("reproduced", "to rounding", "approximately", "within sampling error", "holds")
VERDICTS = (*RIGHT, WRONG, MISLEADING, OPEN)

Severity = Literal["conceptual error", "wrong number", "slip"]
CONCEPT, NUMBER, SLIP = SEVERITIES = ("conceptual error", "wrong number", "slip")  # the gravest first

_RANKS = (*((verdict, severity) for severity in SEVERITIES for verdict in (WRONG, MISLEADING)), (OPEN, ""))


def rank(verdict: str, severity: str) -> int:
    """The place of an entry: by severity, the wrong before the misleading; then what is open; then what is right."""
    return _RANKS.index((verdict, severity)) if (verdict, severity) in _RANKS else len(_RANKS) + RIGHT.index(verdict)
