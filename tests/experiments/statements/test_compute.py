"""The table: every statement is computed as its declaration says, and the shipped table is what comes out."""

import re
from collections import defaultdict
from string import ascii_lowercase

import pytest

from experiments.harness.tables import csv_bytes
from experiments.statements.answer import Answer, cases
from experiments.statements.compute import compute_row, compute_table
from experiments.statements.declare import Statement, all_statements
from experiments.statements.sources import SOURCES, parse_ids
from experiments.statements.table import table_path
from experiments.statements.verdicts import FAULTY, SEVERITIES
from tests.shipped import RESULTS


@pytest.fixture(scope="module")
def table(tables):
    return compute_table(tables)


def test_every_statement_is_computed_as_the_shipped_table_has_it(table):
    assert csv_bytes(table).decode().splitlines() == table_path(RESULTS).read_text(encoding="utf-8").splitlines()


def test_what_is_wrong_or_misleading_says_why_and_how_grave_it_is(table):
    for _, row in table.iterrows():
        faulty = row["verdict"] in FAULTY
        assert row["severity"] in (SEVERITIES if faulty else ("",)), row["id"]
        assert row["note"] or not faulty, row["id"]


@pytest.mark.parametrize("source", SOURCES)
def test_the_statements_of_a_source_are_numbered_without_gap(source):
    """Those left out, and numbers that its list skips, taken together; parts are lettered without gap."""
    parts = defaultdict(list)
    for statement in all_statements():
        for one in parse_ids(statement.ids):
            if one.source == source:
                parts[one.number].append(one.part)
    for number, letters in parts.items():
        expected = [""] if len(letters) == 1 else list(ascii_lowercase[: len(letters)])
        assert sorted(letters) == expected, f"{source}-{number}"
    numbers = [*parts, *SOURCES[source].left_out, *SOURCES[source].skipped]
    assert parts
    if SOURCES[source].counts:
        assert sorted(numbers) == list(range(1, max(numbers) + 1))


def test_a_note_is_made_of_whole_sentences(table):
    """The page and the terminal add the last full stop."""
    for _, row in table[table["note"] != ""].iterrows():
        assert re.match(r"[A-Z]|\d", row["note"]), row["id"]
        assert not row["note"].endswith("."), row["id"]


def test_ids_in_notes_are_those_of_statements(table):
    known = {name for ids in table["id"] for name in ids.split()}
    named = {name for note in table["note"] for name in re.findall(rf"\b(?:{'|'.join(SOURCES)})-\d+[a-z]?\b", note)}
    assert named <= known


def test_every_source_can_be_found():
    """By an address without a scheme; an author alone is not enough."""
    for source in SOURCES.values():
        assert re.fullmatch(r"[a-z.-]+\.[a-z]+/\S+", source.address), source.label
        assert source.citation.endswith(f", {source.address}")


def test_a_row_names_each_source_once():
    found = compute_row(Statement("qa-3 article-5 qa-4", "So.", "", "true", "slip", lambda: cases({"here": True})), {})
    assert found["source"] == f"{SOURCES['qa'].citation}; {SOURCES['article'].citation}"


def test_a_statement_that_cannot_be_computed_is_named():
    with pytest.raises(ValueError, match="expected cases") as failed:
        compute_row(Statement("qa-3", "So it is.", "", "true", "slip", lambda: Answer()), {})
    assert failed.value.__notes__ == ["in statement qa-3"]
