"""The record: nothing forgotten, one rule for verdicts, and the numbers that its sources print."""

import ast
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments import saturation
from experiments.analysis.growth import exponents
from experiments.harness.config import load_config
from experiments.harness.tables import csv_bytes
from experiments.statements import article, comparison, cutoffs, elsewhere, files, formula, law, lesson, weights
from experiments.statements.answers import QUANTITIES, Answer, quantity, tempered
from experiments.statements.build import build, claims
from experiments.statements.checks import least_likely
from experiments.statements.files import CONFIG, FOLDER
from experiments.statements.left_out import REASONS, left_out
from experiments.statements.order import MISLEADING, SEVERITIES, VERDICTS, WRONG, rank
from experiments.statements.plane import MEDIAN, ROOT_MEAN_SQUARES, by_keys, measured_by_keys, ratio_errors
from experiments.statements.sources import SOURCES, sources, statements
from experiments.statements.summary import counts, counts_by_source, gravest_first, severities, summary
from experiments.statements.verdicts import Claimed, severity, verdict
from experiments.steps import statements as steps
from sdpa import theory
from tests.shipped import RESULTS

SHIPPED = RESULTS / FOLDER / files.TABLE
IDS = (Path(__file__).parent / "record_ids.txt").read_text().split()
ELSEWHERE = ["cv8-64", "cv8-256", "usc-1", "hello-840", "infw-1", "ssmax-1", "ngpt-1", "mup-1", "se-1"]
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
    return steps.measured_tables(load_config(CONFIG), RESULTS / FOLDER)


@pytest.fixture(scope="module")
def record(tables) -> pd.DataFrame:
    return build(tables)


def test_every_statement_is_answered_once_or_left_out_with_a_reason():
    """A statement may be answered in parts: a, b and so on, each once."""
    answered = " ".join(claims()["ids"]).split()
    whole = [name for name in answered if [name] == statements(name)]
    parts: dict[str, list[str]] = {}
    for name in set(answered) - set(whole):
        parts.setdefault(statements(name)[0], []).append(name[-1])
    assert len(answered) == len(set(answered))
    assert all("".join(sorted(letters)) == "ab" for letters in parts.values()), parts
    assert sorted([*whole, *parts, *left_out()["id"]]) == sorted([*IDS, *ELSEWHERE])
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
    (folder / "statements.csv").unlink()

    def said() -> str:
        steps.update_statements(tmp_path, jobs=1)
        return capsys.readouterr().out

    assert "statements.csv: new" in said()
    assert said().endswith("statements.csv: made before, nothing to do\n")
    (folder / "statements.csv").write_bytes(SHIPPED.read_bytes()[:-2])
    assert "wrote" in said()
    assert (folder / "statements.csv").read_bytes() == SHIPPED.read_bytes()
    reworded = tmp_path / "claims"
    reworded.write_text(files.CLAIMS.read_text() + " ")
    monkeypatch.setattr(steps, "CLAIMS", reworded)
    assert "statements.csv: byte-identical" in said()
    assert "made before" in said()


@pytest.mark.parametrize("block", BLOCKS)
def test_the_numbers_of_a_printed_block_are_met(record, block):
    verdicts = record.set_index("id")["verdict"]
    assert {verdicts[f"article-{number:02d}"] for number in BLOCKS[block]} <= {"reproduced", "holds"}


def test_what_is_wrong_or_misleading_says_why_and_how_grave_it_is(record):
    found = record["verdict"].isin([WRONG, MISLEADING])
    assert (record["note"][found] != "").all()
    assert record["severity"][found].isin(SEVERITIES).all()
    assert (record["severity"][~found] == "").all()
    assert found.sum() > 30


def test_every_claim_says_how_grave_a_mistake_in_it_is():
    """So that the severity does not depend on a verdict that is known."""
    judged = claims()["rule"] != "training"
    assert claims()["severity"][judged].isin(SEVERITIES).all()
    assert (claims()["severity"][~judged] == "").all()


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
        ("512", "digits", 517.9, "wrong"),
        ("512", "about", 517.9, "approximately"),
        ("100", "about", 105, "approximately"),
        ("100", "about", 105.1, "wrong"),
        ("-100", "about", -104, "approximately"),
        ("0.9999", "about", 0.99963, "wrong"),
        ("0.9999", "about", 0.95, "wrong"),
        ("0.0001", "about", 0.05, "wrong"),
        ("0.90", "about", 0.9049, "reproduced"),
        ("0.90", "about", 0.9051, "wrong"),
        ("0.500", "about", 0.524, "approximately"),
        ("0.500", "about", 0.526, "wrong"),
        ("1.0", "about", 0.96, "reproduced"),
        ("1.0", "about", 0.94, "wrong"),
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


@pytest.mark.parametrize("value", ["0.9", "0.99", "0.999", "0.9999"])
@pytest.mark.parametrize("off", [0.0, 0.04, 0.06, 0.6])
def test_an_approximation_of_a_weight_and_of_what_it_leaves_is_judged_alike(value, off):
    """The tolerance near 1 is that near 0: 0.999 for 0.9995 is as far off as 0.001 for 0.0005."""
    left = f"{1 - float(value):.{len(value) - 2}f}"
    right = float(left) * (1 - off)
    of_large, of_small = (verdict(x, "about", Answer(numbers=(y,)))[0] for x, y in ((value, 1 - right), (left, right)))
    assert of_large == of_small


@pytest.mark.parametrize(
    ("claimed", "right", "expected"),
    [
        ("0.9999", 0.99963, "slip"),  # 2.7 units of the last digit
        ("0.9999", 0.99958, "wrong number"),  # 3.2 units
        ("0.32", 0.3037, "wrong number"),  # 1.6 units, but more than 5%
        ("22", 20.79, "wrong number"),
    ],
)
def test_a_wrong_number_is_a_slip_if_it_is_close(claimed, right, expected):
    answer = Answer(numbers=(right,))
    assert severity(WRONG, "wrong number", claimed, answer) == expected
    assert severity(WRONG, "conceptual error", claimed, answer) == "conceptual error"
    assert severity("to rounding", "wrong number", claimed, answer) == ""


def test_a_statement_has_the_severity_that_its_line_gives():
    answer = Answer(cases={"here": False})
    assert [severity(WRONG, grave, "", answer) for grave in SEVERITIES] == list(SEVERITIES)
    assert severity("holds", "conceptual error", "", answer) == severity("open", "", "", Answer()) == ""


def test_entries_are_listed_by_severity_then_wrong_before_misleading():
    graves = [rank(verdict_, grave) for grave in SEVERITIES for verdict_ in (WRONG, MISLEADING)]
    others = [rank(verdict_, "") for verdict_ in ("open", *VERDICTS) if verdict_ not in (WRONG, MISLEADING)]
    assert graves == sorted(set(graves))
    assert max(graves) < rank("open", "") == min(others)
    assert SEVERITIES == ("conceptual error", "wrong number", "slip")


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


def test_the_summary_names_the_sources_and_lists_what_is_wrong_the_gravest_first(record):
    table = counts(record)
    assert table.loc["all, once"].sum() == len(record)
    of_article = record["id"].str.contains("article")
    assert table.loc[SOURCES["article"].label].sum() == of_article.sum()
    text, page = summary(SHIPPED), counts_by_source(SHIPPED)
    places = [text.index(f"\n{grave}:\n") for grave in SEVERITIES]
    assert places == sorted(places)
    assert text.count("\n  wrong: ") == (record["verdict"] == WRONG).sum()
    assert text.count("\n  misleading: ") == (record["verdict"] == MISLEADING).sum()
    for source in SOURCES.values():
        assert source.citation in text
        assert source.citation in page
    for reason in REASONS:
        assert reason in text
        assert reason in page
    assert f"{len(IDS) + len(ELSEWHERE) - len(left_out())} statements" in page
    assert severities(record).to_numpy().sum() == len(gravest_first(record)) == (record["severity"] != "").sum()


def test_every_entry_names_its_sources(record):
    for _, row in record.iterrows():
        prefixes = dict.fromkeys(name.split("-")[0] for name in row["id"].split())
        assert row["source"].split("; ") == [SOURCES[prefix].citation for prefix in prefixes]
    assert {source for ids in record["id"] for source in sources(ids)} == set(SOURCES.values())
    addressed = [source.address for source in SOURCES.values() if source.address]
    assert len(addressed) == len(set(addressed)) == len(SOURCES) - 4


def entry(record: pd.DataFrame, name: str) -> pd.Series:
    (row,) = (row for _, row in record.iterrows() if name in row["id"].split())
    return row


@pytest.mark.parametrize(
    ("name", "found", "grave"),
    [
        ("article-31", WRONG, "slip"),
        ("article-62", "holds", ""),
        ("article-74", WRONG, "wrong number"),
        ("article-50", WRONG, "conceptual error"),
        ("lesson-17", WRONG, "conceptual error"),
        ("lesson-18", WRONG, "conceptual error"),
        ("notebook-11", "holds", ""),
        ("article-01a", "holds", ""),
        ("article-27", "holds", ""),
        ("article-123", "holds", ""),
        ("article-125", "holds", ""),
        ("article-131", "holds", ""),
        ("article-01b", "open", ""),
        ("notebook-19b", "open", ""),
        ("article-54b", "open", ""),
        ("ssmax-1", MISLEADING, "wrong number"),
        ("hello-840a", "within sampling error", ""),
        ("lesson-28", "holds", ""),
        ("lesson-26", "holds", ""),
        ("lesson-29", "holds", ""),
        ("article-69", "holds", ""),
        ("qa-18", "reproduced", ""),
        ("qa-19", "reproduced", ""),
        ("qa-37", "holds", ""),
        ("textbook-12", "holds", ""),
        ("lesson-20a", "holds", ""),
        ("lesson-20b", MISLEADING, "conceptual error"),
        ("notebook-18", MISLEADING, "conceptual error"),
    ],
)
def test_statements_that_are_easily_misjudged(record, name, found, grave):
    row = entry(record, name)
    assert (row["verdict"], row["severity"]) == (found, grave)


def test_merged_statements_say_the_same(record):
    assert "textbook-16" in entry(record, "article-62")["id"]
    assert entry(record, "lesson-29")["id"] == "lesson-29"
    assert not set(left_out()["id"]) & set(" ".join(record["id"]).split())
    assert {"lesson-35", "lesson-40"} <= set(left_out()["id"])
    for one in ("lesson-13 lesson-14 lesson-15 lesson-16 lesson-17 lesson-18", "qa-24 qa-33"):
        assert one in set(record["id"])
    assert entry(record, "qa-12")["id"] == entry(record, "article-01a")["id"] == entry(record, "notebook-19a")["id"]
    assert entry(record, "textbook-12")["id"] == entry(record, "article-33")["id"]


def test_a_slope_is_judged_by_its_exact_value(tables):
    """Not by the last digit of a measured one, which chance decides."""
    slopes = tables["scaling-slopes"]
    off = {"scaling-slopes": slopes.assign(slope=slopes["slope"] + 0.002)}
    wrong = {"scaling-slopes": slopes.assign(slope_exact=slopes["slope_exact"] + 0.002)}
    for claim in claims()[claims()["ids"].isin(["qa-18", "qa-19"])].itertuples():
        judged = (verdict(claim.claimed, claim.rule, QUANTITIES[claim.quantity](given))[0] for given in (off, wrong))
        assert tuple(judged) == ("reproduced", WRONG)


def test_the_least_likely_of_several_draws_is_judged_by_their_number():
    assert least_likely([0.2, 0.01, 0.7]) == pytest.approx(0.03)
    assert least_likely(iter([0.6, 0.9])) == 1.0


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_sample_is_judged_by_how_far_chance_goes(monkeypatch, factor):
    drawn = article.variances()
    assert verdict("", "true", QUANTITIES["sweep_follows_the_law"]({}))[0] == "holds"
    monkeypatch.setattr(article, "variances", lambda: factor * drawn)
    assert verdict("", "true", QUANTITIES["sweep_follows_the_law"]({}))[0] == MISLEADING


@pytest.mark.parametrize("name", ["scaled_deviation_is_one", "deviation_grows_as_root", "increasingly_peaked"])
def test_a_table_of_draws_is_judged_by_how_far_chance_goes(tables, monkeypatch, name):
    """Deviations of 25 scores off by a quarter come by chance; five times as large, or weights of a half, do not."""
    assert verdict("", "true", QUANTITIES[name](tables))[0] == "holds"
    own = comparison.comparison
    monkeypatch.setattr(comparison, "comparison", lambda d_k: (5 * own(d_k)[0], 5 * own(d_k)[1], 0.5, own(d_k)[3]))
    assert verdict("", "true", QUANTITIES[name](tables))[0] == MISLEADING


def test_terms_take_independent_queries_and_keys_and_the_law_of_the_rows():
    answer = QUANTITIES["terms_are_independent"]({})
    assert all(answer.cases.values())
    assert "correlate by 0.254" in answer.note
    same = np.random.default_rng(0).standard_normal(1000)
    assert law._dependence(np.stack([same, -same])) == pytest.approx(1)
    assert law._dependence(np.stack([same, abs(same)])) > 0.9


def test_a_row_that_does_not_sum_to_one_is_found():
    weights_ = np.full((2, 4), 0.25)
    assert all(article.exactly_one(weights_).cases.values())
    assert not any(article.exactly_one(weights_ * (1 + 1e-13)).cases.values())


def test_two_scaled_scores_differ_as_in_a_simulation():
    q, one, other = np.random.default_rng(0).standard_normal((3, 100_000, 8))
    ratio = np.exp(abs((q * (one - other)).sum(axis=1)) / 8**0.5)
    assert np.median(ratio) == pytest.approx(lesson.median_ratio(8, 8**0.5), rel=0.02)
    assert lesson.median_ratio(8, 8.0) < cutoffs.AMPLIFIED


def test_shapes_other_than_that_of_the_input_are_found(monkeypatch):
    assert all(QUANTITIES["output_has_the_shape_of_the_input"]({}).cases.values())
    narrow = formula.ScaledDotProductAttention(6, 4, 4, seed=99)
    monkeypatch.setattr(formula, "ScaledDotProductAttention", lambda *_, seed: narrow)  # noqa: ARG005
    assert not any(QUANTITIES["output_has_the_shape_of_the_input"]({}).cases.values())


def test_a_wrong_output_names_the_weights_that_it_comes_from(record):
    assert "qa-24" in entry(record, "qa-32")["note"]


def test_scalable_softmax_is_judged_at_few_keys_too(record):
    row = entry(record, "ssmax-1")
    assert "0.816, 0.888" in row["note"]
    assert {"no: with 2 keys", "no: with 5 keys", "yes: with 10 keys"} <= set(row["computed"].split("; "))
    assert elsewhere._leading_weight(2, 0.43 * np.log(2)) == pytest.approx(1 / (1 + 2**-2.15))


def test_published_draws_are_judged_with_shared_and_with_own_keys(record):
    for name in ("hello-840a", "hello-840b"):
        note = entry(record, name)["note"]
        assert "share eight keys" in note
        assert "eight of its own" in note
    shared, own = (elsewhere._chance_of_deviations(n) for n in (4000, 1))
    assert all(few < many for few, many in zip(own, shared, strict=True))
    assert min(own) == pytest.approx(0.054, abs=1e-3)


def test_sharpening_does_not_depend_on_a_constant_added_to_the_scores(monkeypatch):
    """And a map that flattens, such as the square root, is found to."""
    before = QUANTITIES["table_is_sharpened"]({}).cases
    scores = lesson.SCORES
    monkeypatch.setattr(lesson, "SCORES", scores + 5)
    assert QUANTITIES["table_is_sharpened"]({}).cases == before
    monkeypatch.setattr(lesson, "WEIGHTS", np.sqrt(scores - scores.min() + 0.1))
    assert not any(QUANTITIES["table_is_sharpened"]({}).cases.values())


def changed(tables, d_k: int, metric: str, factor: float):
    """The tables with one metric of unscaled rows of the plane multiplied."""
    plane = tables["plane"].copy()
    plane.loc[(plane["scaling"] == "unscaled") & (plane["d_k"] == d_k), metric] *= factor
    return {**tables, "plane": plane}


def test_vanishing_gradients_are_judged_over_the_number_of_keys(tables):
    """As the whole (d_k, n_keys) plane has it: the ratio of medians is not the same at 64 and at 1024 keys."""
    now = QUANTITIES["gradients_vanish"](tables)
    assert "1.14, 0.44, 0.12, 0.022, 3e−07 with 64 keys" in now.note
    assert "5.8, 3.6, 1.2, 0.37, 4e−05 with 1,024 keys" in now.note
    assert verdict("", "true", now)[0] == MISLEADING
    dead = tables
    for metric in (MEDIAN, *ROOT_MEAN_SQUARES):
        dead = changed(dead, cutoffs.LARGE, metric, 1e-6)
    assert verdict("", "true", QUANTITIES["gradients_vanish"](dead))[0] == "holds"
    alive = changed(tables, cutoffs.LARGE, MEDIAN, 1e16)
    assert verdict("", "true", QUANTITIES["gradients_vanish"](alive))[0] == WRONG


def test_the_d_k_at_which_a_root_mean_square_falls_to_a_tenth_is_where_it_does():
    d_k = weights._falls_to_a_tenth(4)
    bare, scaled = (theory.attention_expectations(d_k, 4, divisor).jacobian_norm for divisor in (1.0, d_k**0.5))
    assert 16_384 < d_k < 65_536
    assert bare / scaled == pytest.approx(0.1, rel=1e-3)


def test_large_d_k_is_the_same_for_weights_and_gradients(tables):
    assert tables["plane"]["d_k"].max() == cutoffs.LARGE
    for name in ("unscaled_is_peaked", "gradients_vanish", "always_saturated"):
        assert all(f"d_k = {cutoffs.LARGE} " in condition for condition in QUANTITIES[name](tables).cases)


def test_scaled_gradients_that_shrink_are_found(tables):
    """Each of the norms at the largest d_k, with a single number of keys."""
    assert all(QUANTITIES["scaled_gradients_are_healthy"](tables).cases.values())
    plane = tables["plane"]
    corner = (plane["d_k"] == cutoffs.LARGE) & (plane["n_keys"] == 64) & (plane["scaling"] == "d_k^1/2")
    for metric in (MEDIAN, *ROOT_MEAN_SQUARES):
        shrunk = plane.assign(**{metric: plane[metric].where(~corner, 0.8 * plane[metric])})
        held = QUANTITIES["scaled_gradients_are_healthy"]({"plane": shrunk}).cases
        (shrinks,) = (condition for condition, level in held.items() if not level)
        assert shrinks.endswith("from d_k = 64 to 4096 with 64 keys")


def test_measured_values_have_the_digits_of_their_errors_and_exact_ones_three():
    values, errors = (pd.Series([x, y], index=[4, 1024]) for x, y in ((1.13e-5, 8.75), (7e-6, 0.5)))
    assert measured_by_keys(values, errors) == "1.1e−05 with 4 keys, 8.8 with 1,024 keys"
    assert by_keys(values) == "1.13e-05 with 4 keys, 8.75 with 1,024 keys"


def test_the_digits_of_a_ratio_of_medians_follow_from_their_intervals():
    """(low / high, high / low) as half a width of two standard errors: (6/2 - 3/3) / 4."""
    ends = {"unscaled": (3.0, 6.0), "d_k^1/2": (2.0, 3.0)}
    rows = [
        {"d_k": 64, "n_keys": 4, "scaling": name, f"{MEDIAN}_low": low, f"{MEDIAN}_high": high}
        for name, (low, high) in ends.items()
    ]
    assert ratio_errors({"plane": pd.DataFrame(rows)}).to_numpy() == pytest.approx(0.5)


def test_the_rows_that_overflow_are_those_of_a_simulation():
    rng, d_k, n_keys = np.random.default_rng(0), 512, 64
    lengths = np.sqrt(rng.chisquare(d_k, 20_000))
    largest = (lengths[:, None] * rng.standard_normal((len(lengths), n_keys))).max(axis=1)
    with np.errstate(over="ignore"):
        drawn = np.isinf(np.exp(largest.astype(np.float32))).mean()
    exact = weights._overflowing(d_k, n_keys, 1.0)
    assert drawn == pytest.approx(exact, abs=4 * (exact / len(lengths)) ** 0.5)
    assert "17.6% of unscaled rows" in QUANTITIES["numerical_stability"]({}).note


def test_always_means_every_row(tables):
    assert verdict("", "true", QUANTITIES["always_saturated"](tables))[0] == WRONG
    plane = tables["plane"].assign(saturated_rows_exact=1.0)
    assert verdict("", "true", QUANTITIES["always_saturated"]({"plane": plane}))[0] == "holds"
    one = plane.assign(saturated_rows_exact=plane["saturated_rows_exact"].where(plane["n_keys"] == 64, 0.999))
    assert verdict("", "true", QUANTITIES["always_saturated"]({"plane": one}))[0] == MISLEADING


def test_a_scaled_softmax_that_saturates_is_found(tables):
    assert all(QUANTITIES["scaled_is_soft"](tables).cases.values())
    plane = tables["plane"]
    for metric, value in (("saturated_rows_exact", 0.01), ("max_weight_exact", 0.95)):
        assert not all(QUANTITIES["scaled_is_soft"]({"plane": plane.assign(**{metric: value})}).cases.values())


def test_the_premise_of_the_ranges_is_that_of_the_variances(record):
    """Unit vectors, whose products stay within 1, for both halves of one sentence; the meant premise in the note."""
    row = entry(record, "lesson-13")
    computed = [float(x) for x in row["computed"].split()]
    variances = np.array([1 / 8, 1 / 64, 1 / 512])
    assert computed[:3] == pytest.approx(variances, rel=1e-5)
    assert computed[4::2] == pytest.approx(2 * variances**0.5, rel=1e-5)
    assert computed[3::2] == pytest.approx(-2 * variances**0.5, rel=1e-5)
    assert "entries of variance 1" in row["note"]


def test_a_saturated_row_is_that_of_the_suite():
    assert cutoffs.SATURATED == saturation.SATURATED


def test_cut_offs_are_in_one_place():
    """No comparison in the record has a fraction of its own: only the cut-offs by name, and rounding of doubles."""
    found = []
    for path in Path(cutoffs.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                numbers = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                fractions = [x for x in numbers if isinstance(x, float) and x % 1 and x > 1e-7]
                found += [f"{path.name}:{node.lineno}: {x}" for x in fractions]
    assert found == []
