"""The measured tables behind claims, and the verdict on a claim from these or from other tables."""

from collections.abc import Callable
from typing import Any

import pytest

from experiments.claims.data import chosen, claims
from experiments.claims.table import Names, judge
from experiments.steps.statements import is_shipped, measured_tables
from tests.shipped import CONFIG, RESULTS


@pytest.fixture(scope="session")
def tables() -> dict[str, Any]:
    """The measured tables by name; skips where results are of another config."""
    if not is_shipped(CONFIG):
        pytest.skip("results/ are of another config")
    return measured_tables(CONFIG, RESULTS)


@pytest.fixture(scope="session")
def judged(tables) -> Callable[..., tuple[str, dict[str, bool]]]:
    """The verdict on the claim that has an id and its cases, from these tables if others are given."""
    by_id = {name: claim for claim in claims() for name in claim.id.split()}

    def found(name: str, **others) -> tuple[str, dict[str, bool]]:
        answer, _, (verdict, _) = judge(by_id[name], Names({**tables, **others}), chosen())
        return verdict, dict(answer.cases)

    return found
