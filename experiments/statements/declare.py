"""Declarations of published statements, each above the function that computes the correct result.

A declaration is complete and checked as soon as its module is imported: the decorator enters it in `DECLARED`.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from experiments.statements import published
from experiments.statements.answer import Answer, Claimed, parse_claimed
from experiments.statements.judge import Rule
from experiments.statements.measured import Tables
from experiments.statements.sources import SOURCES, StatementId, parse_ids
from experiments.statements.verdicts import SEVERITIES, Severity

Function = TypeVar("Function", bound=Callable[..., Answer])

_RULES: tuple[Rule, ...] = get_args(Rule)
DECLARED: dict[StatementId, "Statement"] = {}  # of the modules that are imported


@dataclass(frozen=True)
class Statement:
    """A published statement, with the function that answers it; `statement` explains the fields."""

    ids: str
    says: str
    claimed: str
    rule: Rule | None
    severity: Severity | None
    function: Callable[..., Answer]
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> tuple[Claimed, ...]:
        """The claimed numbers."""
        return parse_claimed(self.claimed)

    def answer(self, tables: Tables) -> Answer:
        """Compute its answer.

        Args:
            tables: the measured tables by name, which the function gets if it has a parameter `tables`.
        """
        offered = {"tables": tables, "claimed": self.numbers, **self.given}
        return self.function(**{name: offered[name] for name in inspect.signature(self.function).parameters})


def statement(
    ids: str,
    *,
    says: str,
    claimed: str = "",
    rule: Rule = "true",
    severity: Severity,
    given: Mapping[str, Any] | None = None,
) -> Callable[[Function], Function]:
    """Declare a published statement above the function that answers it.

    The function takes its inputs by name: `tables`, the measured tables; `claimed`, the claimed numbers; and the
    arguments in `given`. If several statements share a function, their declarations are stacked above it.

    Args:
        ids: SOURCE-NUMBER for every place of publication, separated by blanks; a letter marks a part.
        says: the statement in our words.
        claimed: its numbers with the digits that the source prints, separated by blanks; an exact number, such as a
            sum of 1, has zeros.
        rule: the rule of its verdict (see `judge.verdict`); a statement without numbers is true or not.
        severity: the severity of a mistake in it: a conceptual error if it is about attention in general, a wrong
            number if it is about one example or result, an overstatement if it is about training, where one layer and
            two tasks show exceptions and no more, a slip if it is about counting or the last digit of a double.
        given: arguments of the function, by name, if it answers several statements.

    Raises:
        ValueError: an invalid declaration; the message names the statement.
    """

    def declare(function: Function) -> Function:
        _add(Statement(ids, says, claimed, rule, severity, function, given or {}))
        return function

    return declare


def open_statement(ids: str, *, says: str) -> None:
    """Declare a statement about models trained on text: its verdict stays open, because the suite trains none.

    Args:
        ids, says: as in `statement`.

    Raises:
        ValueError: invalid ids.
    """
    _add(Statement(ids, says, "", None, None, lambda: Answer()))


def statement_modules() -> list[str]:
    """The full names of the modules that declare statements: all modules of `experiments.statements.published`."""
    return [f"{published.__name__}.{name}" for _, name, _ in pkgutil.iter_modules(published.__path__)]


def all_statements() -> list[Statement]:
    """All published statements, each at the place of its first id: in the order of SOURCES, then by number."""
    for name in statement_modules():
        importlib.import_module(name)
    by_first_id = {parse_ids(one.ids)[0]: one for one in DECLARED.values()}
    return [by_first_id[first] for first in sorted(by_first_id, key=lambda first: first.order)]


def _add(declared: Statement) -> None:
    """Check a declaration and enter it in `DECLARED`, once for each of its ids."""
    try:
        ids = parse_ids(declared.ids)
        _check_ids(ids)
        if declared.rule is not None:
            _check_judging(declared)
    except ValueError as problem:
        raise ValueError(f"statement {declared.ids!r}: {problem}") from None
    DECLARED.update(dict.fromkeys(ids, declared))


def _check_ids(ids: list[StatementId]) -> None:
    """ValueError unless there is an id, each appears in one declaration only, and no source leaves out its number."""
    if not ids:
        raise ValueError("expected at least one id, got none")
    for place, (source, number, part) in enumerate(ids):
        if ids[place] in {*ids[:place], *DECLARED}:
            raise ValueError(f"expected number {number}{part} of {source} once, got it twice")
        if number in SOURCES[source].left_out:
            kind = SOURCES[source].left_out[number]
            raise ValueError(f"expected no number {number} of {source}: sources.py leaves it out as {kind}")


def _check_judging(declared: Statement) -> None:
    """ValueError unless rule and severity exist and fit the claimed numbers, and the function takes what is offered.

    A statement under the rule `true` claims no numbers; one under any other rule claims some.
    """
    if declared.rule not in _RULES:
        raise ValueError(f"expected one of the rules {', '.join(_RULES)}, got {declared.rule!r}")
    if declared.severity not in SEVERITIES:
        raise ValueError(f"expected one of the severities {', '.join(SEVERITIES)}, got {declared.severity!r}")
    of_numbers = declared.rule != "true"
    if of_numbers != bool(declared.numbers):
        expected = "claimed numbers" if of_numbers else "no claimed numbers"
        raise ValueError(f"expected {expected} with the rule {declared.rule}, got {declared.claimed!r}")
    got = set(inspect.signature(declared.function).parameters)
    if got - {"tables", "claimed"} != set(declared.given):
        offered = ", ".join(["tables", "claimed", *declared.given])
        raise ValueError(f"expected a function of {offered}, got one of {', '.join(sorted(got)) or 'nothing'}")
