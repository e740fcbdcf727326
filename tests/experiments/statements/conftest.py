"""The measured tables that statements rest on, and the verdict on a statement of another table or source."""

from collections.abc import Callable

import pytest

from experiments.statements.answer import Answer
from experiments.statements.declare import Statement, all_statements
from experiments.statements.judge import verdict
from experiments.statements.measured import Tables
from experiments.statements.verdicts import Verdict
from experiments.steps.statements import measured_tables
from tests.shipped import RESULTS


@pytest.fixture(scope="session")
def tables() -> Tables:
    """The measured tables by name."""
    return measured_tables(RESULTS)


@pytest.fixture(scope="session")
def find() -> Callable[[str], Statement]:
    """The statement that has an id."""
    by_id = {name: statement for statement in all_statements() for name in statement.ids.split()}
    return by_id.__getitem__


@pytest.fixture(scope="session")
def answer(find, tables) -> Callable[..., Answer]:
    """The answer to the statement that has an id, from these measured tables if others are given."""

    def answered(name: str, **others) -> Answer:
        return find(name).answer({**tables, **others})

    return answered


@pytest.fixture(scope="session")
def judge(find, answer) -> Callable[..., Verdict]:
    """The verdict on the statement that has an id, from these measured tables if others are given."""

    def judged(name: str, **others) -> Verdict:
        statement = find(name)
        return verdict(statement.rule, statement.numbers, answer(name, **others))[0]

    return judged
