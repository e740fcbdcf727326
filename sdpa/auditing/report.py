"""The result of an audit: findings, and the mass that rows lose."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["as expected", "FINDING", "not tested"]


@dataclass(frozen=True)
class Finding:
    """One item of an audit.

    Attributes:
        item: such as `divisor`.
        verdict: `as expected`, `FINDING`, or `not tested`.
        found, expected: in the words of the suite.
        evidence: the probe and its numbers.
    """

    item: str
    verdict: Verdict
    found: str
    expected: str
    evidence: str


@dataclass(frozen=True)
class LostMass:
    """The mass that rows of standard normal scores lose.

    Attributes:
        n_keys, spread: the number of keys, and the standard deviation of the scaled scores.
        lost: 1 minus the sum of the weights over the exact sum, mean over eight rows.
        tiny_share: exact share of the weights that the format of the arrays rounds to 0; NaN if unknown.
    """

    n_keys: int
    spread: float
    lost: float
    tiny_share: float


@dataclass(frozen=True)
class Audit:
    """Findings about a function; printed, a report."""

    name: str
    items: tuple[Finding, ...]
    lost_mass: tuple[LostMass, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The items that are not as expected."""
        return tuple(item for item in self.items if item.verdict == "FINDING")

    def __str__(self) -> str:
        names = ", ".join(finding.item for finding in self.findings)
        count = f"findings: {names}" if names else "no findings"
        untested = sum(item.verdict == "not tested" for item in self.items)
        rest = f"; {untested} of {len(self.items)} items not tested" if untested else ""
        lines = [f"audit of {self.name}: {count}{rest}"]
        for item in self.items:
            what = f"{item.found}, expected {item.expected}" if item.verdict == "FINDING" else item.found
            text = f"{item.item}: {what}. {item.evidence}"
            lines += textwrap.wrap(text, 96, initial_indent=f"  {item.verdict:<12}", subsequent_indent=" " * 14)
        return "\n".join(lines)
