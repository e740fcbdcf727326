"""The order of statements and the digits of their numbers, which terminal and page share."""

import pandas as pd
import pytest

from experiments.page.entries import entries
from experiments.statements.order import like_claimed, position, size_of_error
from experiments.statements.summary import gravest_first, summary
from experiments.statements.table import read_statements
from tests.shipped import RESULTS


def row(name: str, verdict: str, severity: str, claimed: str, computed: str) -> dict[str, str]:
    columns = {"id": name, "statement": f"{name}.", "claimed": claimed, "computed": computed, "note": ""}
    return columns | {"verdict": verdict, "severity": severity}


ROWS = [
    row("qa-02", "wrong", "slip", "10", "30"),
    row("qa-03", "wrong", "wrong number", "1.0", "0.9999999999"),
    row("qa-04", "wrong", "wrong number", "0.40", "0.46"),
    row("qa-05", "misleading", "conceptual error", "", "yes: here; no: there"),
    row("qa-06", "misleading", "conceptual error", "", "no: here; no: there; yes: elsewhere"),
    row("qa-07", "wrong", "wrong number", "200 3", "22.6274 3"),
    row("qa-08", "reproduced", "", "1", "1"),
]


def test_large_errors_come_before_pedantic_ones_of_the_same_severity():
    shuffled = pd.DataFrame(ROWS).sample(frac=1, random_state=0)
    expected = ["qa-06", "qa-05", "qa-07", "qa-04", "qa-03", "qa-02", "qa-08"]
    assert gravest_first(shuffled)["id"].tolist() == expected
    text = summary(shuffled)
    assert sorted(expected[:-1], key=lambda name: text.index(f"[{name}, ")) == expected[:-1]


def test_the_page_and_the_terminal_have_the_same_order_and_digits():
    shown = entries(RESULTS)
    table = gravest_first(read_statements(RESULTS))
    assert [entry.ids for entry in shown] == table["id"].tolist()
    assert [entry.rank for entry in shown] == sorted(entry.rank for entry in shown)
    text = summary(table)
    assert all(entry.right in text for entry in shown if entry.severity)


def test_sizes_of_errors_are_relative_to_the_claimed_numbers():
    assert size_of_error("100 1", "110 1") == pytest.approx(0.1)
    assert size_of_error("0.00", "0.005") == pytest.approx(0.5)
    assert position("wrong", "slip", "1", "2") > position("misleading", "wrong number", "", "no: here")


@pytest.mark.parametrize(
    ("claimed", "computed", "shown"),
    [
        ("0.27", "0.2747", "0.27"),
        ("0.28", "0.2747", "0.275"),
        ("0.27", "0.27", "0.27"),
        ("22", "20.7854", "20.8"),
        ("3", "5", "5"),
        ("0.005", "4.53958e-05", "0.000045"),
        ("-1", "-0.4", "-0.4"),
        ("9.8197e-01", "0.981973", "0.98197"),
        ("0.0", "0", "0.0"),
        ("1e-05", "1.2e-05", "0.00001"),
        ("1000000", "1.23457e+06", "1234570"),
    ],
)
def test_a_computed_number_has_the_digits_of_the_claimed_one(claimed, computed, shown):
    assert like_claimed(claimed, computed) == [shown]
