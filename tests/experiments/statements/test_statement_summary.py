"""The summary: counts of rows and of statements, and the mistakes with the gravest first."""

import pandas as pd
import pytest

from experiments.statements.sources import SOURCES
from experiments.statements.summary import counts, counts_in_markdown, severities, short_summary, summary
from experiments.statements.verdicts import SEVERITIES

ROWS = [
    ("qa-02 article-01a", "holds", ""),
    ("article-01b", "open", ""),
    ("article-05", "wrong", "slip"),
    ("lesson-01 lesson-02", "misleading", "conceptual error"),
    ("qa-03 qa-04", "wrong", "conceptual error"),
    ("se-1", "wrong", "wrong number"),
    ("lesson-05", "misleading", "overstatement"),
]


@pytest.fixture
def table() -> pd.DataFrame:
    rows = [
        {
            "id": ids,
            "statement": f"It is {ids}.",
            "claimed": "",
            "computed": "no: here",
            "verdict": found,
            "severity": grave,
        }
        for ids, found, grave in ROWS
    ]
    return pd.DataFrame(rows).assign(note="", other_cutoffs="")


def test_a_row_counts_for_each_of_its_sources_and_once_in_all(table):
    found = counts(table)
    assert found.loc[SOURCES["article"].label, ["holds", "wrong", "open"]].tolist() == [1, 1, 1]
    assert found.loc[SOURCES["qa"].label].sum() == 2
    assert found.loc[SOURCES["mup"].label].sum() == 0
    assert found.loc["all sources, each entry once"].sum() == len(ROWS)
    assert severities(table).to_numpy().tolist() == [[1, 1], [1, 0], [0, 1], [1, 0]]


def test_parts_are_counted_as_one_statement(table):
    assert "The 9 statements form 7 entries. Open entries: 1, about" in counts_in_markdown(table)


def test_mistakes_are_listed_by_severity_and_the_wrong_before_the_misleading(table):
    groups = summary(table).split("\n\n")[-len(SEVERITIES) :]
    assert [group.splitlines()[0] for group in groups] == [f"{grave}:" for grave in SEVERITIES]
    assert [line.split()[0] for line in groups[0].splitlines()[1:]] == ["wrong:", "misleading:"]
    assert f"[qa-03 qa-04, {SOURCES['qa'].label}]" in groups[0]


def test_the_terminal_lists_the_mistakes_alone(table):
    lines = short_summary(table).splitlines()
    assert [line for line in lines if not line.startswith("  ")][1:] == [f"{grave}:" for grave in SEVERITIES]
    assert len(lines) == 1 + len(SEVERITIES) + severities(table).to_numpy().sum()


@pytest.mark.parametrize("shown", [summary, counts_in_markdown])
def test_every_source_and_every_reason_to_leave_out_is_named(table, shown):
    text = shown(table)
    for source in SOURCES.values():
        assert source.citation in text
        assert all(kind in text for kind in source.left_out.values())
