"""The record: nothing forgotten, one rule for verdicts, and the numbers that its sources print."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.analysis.growth import exponents
from experiments.harness.config import load_config
from experiments.harness.tables import csv_bytes
from experiments.record import files
from experiments.record.answers import QUANTITIES, Answer, quantity, tempered
from experiments.record.build import build, claims, source
from experiments.record.files import CONFIG, FOLDER
from experiments.record.left_out import REASONS, left_out
from experiments.record.summary import counts, counts_by_source, summary
from experiments.record.verdicts import Claimed, verdict
from experiments.steps import record as steps
from tests.shipped import RESULTS

SHIPPED = RESULTS / FOLDER / files.TABLE
IDS = (Path(__file__).parent / "record_ids.txt").read_text().split()
ELSEWHERE = ["cv8-64", "cv8-256", "usc-1", "hello-840", "hello-840b", "infw-1", "ssmax-1", "ngpt-1", "mup-1", "se-1"]
# The claims that say what each printed block of the article's session shows, in its order.
BLOCKS = {
    "Out[3]": (7,),
    "Out[5]": (11, 12),
    "Out[9]": (36, 37, 38, 39, 40, 41, 42),
    "Out[13]": (66, 67, 68),
    "Out[17]": (79,),
    "Out[19]": (82,),
    "Out[23]": (94, 95),
    "Out[25]": (99, 100, 101),
    "Out[27]": (104, 105, 106, 107, 108),
    "Out[29]": (110, 111),
    "Out[32]": (117, 118, 119, 120, 121),
    "Out[36]": (137, 138),
}


@pytest.fixture(scope="module")
def tables():
    return steps.record_tables(load_config(CONFIG), RESULTS / FOLDER)


@pytest.fixture(scope="module")
def record(tables) -> pd.DataFrame:
    return build(tables)


def test_every_statement_is_answered_once_or_left_out_with_a_reason():
    answered = " ".join(claims()["ids"]).split()
    assert sorted([*answered, *left_out()["id"]]) == sorted([*IDS, *ELSEWHERE])
    assert len(IDS) == 274
    assert set(left_out()["reason"]) <= set(REASONS)


def test_every_quantity_answers_a_claim_and_every_claim_but_of_training_has_one():
    named = claims()[claims()["rule"] != "training"]["quantity"]
    assert set(named) == set(QUANTITIES)
    assert (claims()[claims()["rule"] == "training"]["quantity"] == "").all()
    with pytest.raises(ValueError, match="expected one quantity called root_of_2, got a second"):
        quantity(QUANTITIES["root_of_2"])


def test_the_shipped_record_is_what_comes_out(record):
    assert csv_bytes(record) == SHIPPED.read_bytes()


def test_the_record_is_rebuilt_where_a_claim_a_table_or_the_record_itself_changed(tmp_path, capsys, monkeypatch):
    folder = tmp_path / FOLDER
    shutil.copytree(RESULTS / FOLDER, folder)
    (folder / "record.csv").unlink()

    def said() -> str:
        steps.update_record(tmp_path, jobs=1)
        return capsys.readouterr().out

    assert "record.csv: new" in said()
    assert said().endswith("record.csv: made before, nothing to do\n")
    (folder / "record.csv").write_bytes(SHIPPED.read_bytes()[:-2])
    assert "wrote" in said()
    assert (folder / "record.csv").read_bytes() == SHIPPED.read_bytes()
    reworded = tmp_path / "claims"
    reworded.write_text(files.CLAIMS.read_text() + " ")
    monkeypatch.setattr(steps, "CLAIMS", reworded)
    assert "record.csv: byte-identical" in said()
    assert "made before" in said()


@pytest.mark.parametrize("block", BLOCKS)
def test_the_numbers_of_a_printed_block_are_met(record, block):
    verdicts = record.set_index("id")["verdict"]
    assert {verdicts[f"article-{number:02d}"] for number in BLOCKS[block]} <= {"reproduced", "holds"}


def test_what_is_wrong_or_misleading_says_why(record):
    rows = record[record["verdict"].isin(["wrong", "misleading"])]
    assert (rows["note"] != "").all()
    assert len(rows) > 40


def test_only_training_is_open(record):
    assert set(record[record["verdict"] == "open"]["id"]) == set(claims()[claims()["rule"] == "training"]["ids"])


@pytest.mark.parametrize(
    ("claimed", "rule", "right", "expected"),
    [
        ("0.44", "digits", 0.4449, "reproduced"),
        ("0.44", "digits", 0.4451, "to rounding"),
        ("0.44", "digits", 0.45, "to rounding"),
        ("0.44", "digits", 0.4501, "wrong"),
        ("4.5000e-05", "digits", 4.50004e-5, "reproduced"),
        ("4.5000e-05", "digits", 4.503e-5, "wrong"),
        ("22.6", "about", 22.627, "reproduced"),
        ("0.9999", "about", 0.99963, "to rounding"),
        ("100", "about", 105, "to rounding"),
        ("100", "about", 105.1, "wrong"),
        ("3", "count", 2, "wrong"),
        ("3", "count", 3, "reproduced"),
        ("4", "shape", 4, "holds"),
        ("4", "shape", 5, "wrong"),
    ],
)
def test_numbers_are_judged_by_the_digits_that_are_shown(claimed, rule, right, expected):
    found, error = verdict(claimed, rule, Answer(numbers=(right,)))
    assert found == expected
    assert error == pytest.approx(abs(float(claimed) - right), abs=1e-15)
    assert verdict(f"{claimed} 1", rule, Answer(numbers=(right, 1.0)))[0] == expected


@pytest.mark.parametrize(
    ("held", "expected"), [((True, True), "holds"), ((True, False), "misleading"), ((False, False), "wrong")]
)
def test_statements_are_judged_by_their_cases(held, expected):
    answer = Answer(cases={str(i): case for i, case in enumerate(held)})
    assert verdict("", "true", answer)[0] == expected


def test_a_draw_is_judged_by_its_law():
    assert verdict("1.6", "draw", Answer(numbers=(1.5,), p_value=0.01))[0] == "within sampling error"
    assert verdict("1.6", "draw", Answer(numbers=(1.5,), p_value=0.0099))[0] == "wrong"


@pytest.mark.parametrize(
    ("claimed", "rule", "answer", "problem"),
    [
        ("1 2", "digits", Answer(numbers=(1.0,)), "expected 2 computed numbers, got 1"),
        ("", "true", Answer(), "expected cases"),
        ("1", "draw", Answer(numbers=(1.0,)), "expected a p-value"),
        ("x", "digits", Answer(numbers=(1.0,)), "expected a number as printed, got 'x'"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(claimed, rule, answer, problem):
    with pytest.raises(ValueError, match=problem):
        verdict(claimed, rule, answer)


def test_a_claim_that_cannot_be_answered_is_named(tables, monkeypatch):
    monkeypatch.delitem(QUANTITIES, "root_of_8")
    with pytest.raises(ValueError, match=r"claim lesson-11: 'root_of_8'"):
        build(tables)


def test_the_growth_of_cost_is_fitted_to_the_larger_sizes():
    sizes = [64, 128, 256, 512, 1024]
    rows = [{"swept": "n", "n": n, "d_k": 8, "seconds": 3e-9 * n**2 + 1e-5, "peak_bytes": 8 * n**2} for n in sizes]
    (row,) = exponents(pd.DataFrame(rows)).to_dict("records")
    assert row["peak_bytes"] == pytest.approx(2)
    assert 1.9 < row["seconds"] < 2


def test_the_shipped_cost_grows_with_the_square_of_tokens_and_not_with_that_of_the_width():
    grown = exponents(pd.read_csv(RESULTS / "cost.csv")).set_index("swept")
    assert 1.7 < grown.loc["n", "seconds"] < 2.3
    assert 1.9 < grown.loc["n", "peak_bytes"] < 2.1
    assert grown.loc["d_k", "seconds"] < 1.2


def test_digits_have_units():
    assert Claimed.parse("9.8197e-01") == Claimed(0.98197, pytest.approx(1e-5))
    assert Claimed.parse("-45") == Claimed(-45.0, 1.0)


def test_the_origin_of_a_wrong_softmax_is_found():
    halved = np.exp([0.625, 0.4, -0.1])
    assert "over 2" in tempered([1.25, 0.8, -0.2], (halved / halved.sum()).round(2).tolist(), 0.01)
    assert "no multiple" in tempered([1.0, 0.0, -1.0], [0.2, 0.2, 0.6], 0.01)


def test_the_summary_counts_sources_and_lists_what_is_wrong(record):
    table = counts(record)
    assert table.loc["all, once"].sum() == len(record)
    assert table.loc["article"].sum() == record["source"].str.contains("article").sum()
    assert summary(SHIPPED).count("\n  ") == (record["verdict"] == "wrong").sum()
    assert "274 statements" not in counts_by_source(SHIPPED)
    assert f"{len(IDS) + len(ELSEWHERE) - len(left_out())} statements" in counts_by_source(SHIPPED)
    assert source("qa-1") == "questions and answers"
