"""The table of claims: it comes out as shipped, every claim has an answer, and planted claims get their verdicts."""

import io
import re
from dataclasses import replace

import pandas as pd
import pytest

from experiments.claims.data import Case, Claim, chosen, claims, left_out, sources
from experiments.claims.judge import FAULTY, RULES, SEVERITIES, parse_claimed
from experiments.claims.summary import counts, severities, summary
from experiments.claims.table import Names, compute_row, read_statements
from experiments.harness.tables import csv_bytes
from sdpa import metrics
from tests.shipped import RESULTS

IDS = [name for claim in claims() for name in claim.id.split()]
PLANTED = Claim("se-98 qa-99", "So.", "", "true", "conceptual error", "", "", ())


@pytest.fixture(scope="module")
def names(tables) -> Names:
    return Names(tables)


def as_text(rows: list[dict]) -> pd.DataFrame:
    """Rows as the shipped table has them."""
    return pd.read_csv(io.BytesIO(csv_bytes(pd.DataFrame(rows))), keep_default_na=False, dtype=str).set_index("id")


@pytest.mark.parametrize("source", sources())
def test_every_claim_is_answered_as_the_shipped_table_has_it(names, source):
    own = [claim for claim in claims() if claim.id.startswith(f"{source}-")]
    computed, shipped = as_text([compute_row(claim, names) for claim in own]), read_statements(RESULTS).set_index("id")
    assert computed.compare(shipped.loc[[claim.id for claim in own]]).to_dict() == {}


def test_the_shipped_table_has_every_claim_and_says_why_one_is_wrong():
    shipped = read_statements(RESULTS)
    assert shipped["id"].tolist() == [claim.id for claim in claims()]
    assert (shipped.loc[shipped["verdict"].isin(FAULTY), "note"] != "").all()


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.id)
def test_a_claim_is_complete(claim):
    """A source, an id of its own, a rule and a severity, and either cases, or numbers and a quantity."""
    assert all(name.partition("-")[0] in sources() and IDS.count(name) == 1 for name in claim.id.split())
    assert not set(claim.id.split()) & set(left_out())
    if not claim.rule:
        assert (claim.claimed, claim.severity, claim.quantity, claim.cases) == ("", "", "", ())
        return
    assert claim.rule in RULES
    assert claim.severity in SEVERITIES
    assert bool(claim.cases) == (claim.rule == "true")
    assert bool(claim.quantity) == bool(parse_claimed(claim.claimed)) == (claim.rule != "true")


def cases(*tests: str) -> dict:
    return {"cases": tuple(Case(f"{test} at {{n}}", test) for test in tests)}


@pytest.mark.parametrize(
    ("planted", "verdict"),
    [
        ({"claimed": "2.83", "rule": "digits", "quantity": "sqrt(8)"}, "reproduced"),
        ({"claimed": "2.84", "rule": "digits", "quantity": "sqrt(8)"}, "wrong"),
        ({"claimed": "9", "rule": "draw", "quantity": "by_chance([8], share_beyond(9, 64))"}, "within sampling error"),
        ({"claimed": "40", "rule": "draw", "quantity": "by_chance([8], share_beyond(40, 64))"}, "wrong"),
        (cases("sqrt(8) > TENTH", "sqrt(8) < TENTH"), "misleading"),
        (cases("bare('max_weight_exact').loc[LARGE] > ONE_HOT"), "holds"),
        (cases("bare('max_weight_exact').loc[LARGE] < ONE_HOT"), "wrong"),
    ],
)
def test_a_planted_claim_gets_its_verdict(names, planted, verdict):
    row = compute_row(replace(PLANTED, **planted), names)
    assert (row["verdict"], bool(row["severity"])) == (verdict, verdict in FAULTY)
    assert row["source"] == f"{sources()['se'].citation}; {sources()['qa'].citation}"
    if "bare" in row["computed"]:  # a case for each number of keys
        assert [int(case.split(" at ")[1]) for case in row["computed"].split("; ")] == [4, 64, 1024, 4096]


def test_a_verdict_that_another_cut_off_changes_is_told(names):
    row = compute_row(replace(PLANTED, cases=(Case("here", "0.15 < TENTH"),)), names)
    assert (row["verdict"], row["other_cutoffs"]) == ("wrong", "TENTH = 0.2: holds")
    assert not compute_row(replace(PLANTED, cases=(Case("here", "0.15 < 1"),)), names)["other_cutoffs"]
    assert chosen()["SATURATED"] == metrics.SATURATED


def test_counts_and_order():
    """A row counts for each of its sources, and once in all; the gravest come first, wrong before misleading."""
    rows = [
        ("qa-02", "wrong", "slip"),
        ("qa-03", "misleading", "wrong number"),
        ("qa-04 se-1", "wrong", "wrong number"),
        ("qa-05", "misleading", "conceptual error"),
        ("qa-08", "reproduced", ""),
        ("qa-09", "open", ""),
    ]
    table = pd.DataFrame(rows, columns=["id", "verdict", "severity"])
    table = table.assign(statement="So.", note="", claimed="", computed="")
    assert counts(table).sum(axis=1).loc[lambda n: n > 0].tolist() == [6, 1, 6]
    assert severities(table).to_numpy().tolist() == [[0, 1], [1, 1], [0, 0], [1, 0]]
    for whole in (True, False):
        places = re.findall(r"\[(qa-[^]]+)\]", summary(table, whole=whole))
        assert [place.split()[0] for place in places] == ["qa-05", "qa-04", "qa-03", "qa-02"]
