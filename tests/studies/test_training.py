"""Arms of training: verdicts at own best rates and at one rate, by the rules of fair-plan.md."""

import pandas as pd
import pytest

from experiments.config.errors import Problem, TableError
from experiments.studies.training import arms as module
from experiments.studies.training import largest
from experiments.studies.training.arms import KEYS, SETTING, USUAL, comparisons, fair_runs
from experiments.studies.training.settings import settings
from tests.shipped import OF_FULL, RESULTS, shipped_only

SAME = USUAL | {"initial": "small", "trials": 3}


def run(arm, rate, loss, gradient, *, loss_reach=0.01, **changed):
    """A row of a table, whose intervals reach so far."""
    ends = {"_low": 1 - loss_reach, "": 1, "_high": 1 + loss_reach}
    losses = {f"final_loss{end}": loss * part for end, part in ends.items()}
    gradients = {f"query_gradient_median_after{end}": gradient * part for end, part in ends.items()}
    return SAME | {"arm": arm, "learning_rate": rate} | losses | gradients | changed


def compared(*rows):
    return comparisons(pd.DataFrame(rows)).set_index("at")


def test_arms_are_compared_at_three_pairs_of_rates():
    actual = compared(
        run("divided", 0.002, 1.8, 1.0),
        run("divided", 0.004, 1.7, 0.5),
        run("none", 0.002, 1.9, 0.2),
        run("none", 0.004, 2.0, 0.001),
    )
    assert actual["learning_rate"].to_dict() == {
        "own best rates": 0.002,
        "best rate of divided": 0.004,
        "best rate of the arm": 0.002,
    }
    assert actual["divided_learning_rate"].tolist() == [0.004, 0.004, 0.002]
    assert actual["excess"].tolist() == pytest.approx([1.9 / 1.7 - 1, 2 / 1.7 - 1, 1.9 / 1.8 - 1])
    assert actual["vanished"].tolist() == ["no", "yes", "no"]
    assert actual["side"].tolist() == ["above"] * 3


@pytest.mark.parametrize(
    "loss, reach, side, as_good",
    [
        (1.03, 0.01, "above", False),
        (1.03, 0.02, "open", False),
        (1.015, 0.002, "above", True),
        (0.9, 0.01, "below", True),
    ],
)
def test_a_side_needs_its_whole_interval_and_as_good_needs_two_percent(loss, reach, side, as_good):
    rows = (
        run(arm, 0.002, value, 1.0, loss_reach=reach)
        for arm, value in (("divided", 1.0), ("none", loss))
    )
    actual = compared(*rows).loc["own best rates"]
    assert (actual["side"], actual["as_good"]) == (side, as_good)


@pytest.mark.parametrize("gradient, vanished", [(0.09, "yes"), (0.1, "open"), (0.11, "no")])
def test_a_gradient_has_vanished_if_its_interval_is_below_a_tenth(gradient, vanished):
    actual = compared(run("divided", 0.002, 1.0, 1.0), run("none", 0.002, 1.0, gradient))
    assert actual["vanished"].tolist() == [vanished] * 3


def test_settings_are_compared_apart_and_an_arm_alone_is_not():
    actual = compared(
        run("divided", 0.002, 1.0, 1.0),
        run("none", 0.002, 1.5, 1.0, initial="unit"),
        run("none, slower", 0.002, 1.5, 1.0),
    )
    assert actual["arm"].unique().tolist() == ["none, slower"]


@shipped_only
def test_every_run_of_the_plan_has_an_arm_and_a_place():
    sweeps = [results.measured for name, results in OF_FULL.items() if name.startswith("fair")]
    places = pd.concat(sweeps).groupby([*SETTING, *KEYS, "learning_rate"])["trials"]
    assert sorted(fair_runs(OF_FULL)["trials"]) == sorted(places.max())


@shipped_only
def test_a_sweep_with_an_altered_table_is_not_left_out(monkeypatch):
    monkeypatch.setitem(OF_FULL.unsound, "fair_text", TableError("altered"))
    for runs in fair_runs, settings:
        with pytest.raises(TableError, match="altered"):
            runs(OF_FULL)
        monkeypatch.setitem(OF_FULL.unsound, "language", TableError("altered"))


@shipped_only
def test_runs_that_differ_in_more_than_a_setting_are_refused(monkeypatch):
    monkeypatch.setattr(module, "SETTING", [name for name in SETTING if name != "text"])
    with pytest.raises(ValueError, match=r"got several.*text"):
        fair_runs(OF_FULL)


@shipped_only
def test_a_title_that_tables_do_not_support_is_refused():
    runs = fair_runs(OF_FULL)
    runs.loc[runs["arm"] == "none, slower", "final_loss"] *= 1.1
    with pytest.raises(Problem, match="the tables do not support: From a small start"):
        module.words(runs)
    table = pd.read_csv(RESULTS / "config.full" / "largest_scores.csv")
    table["largest_score"] *= 2
    with pytest.raises(Problem, match="the tables do not support: In training"):
        largest.words(table)


@shipped_only
def test_the_shipped_comparisons_are_those_of_the_tables():
    written = pd.read_csv(RESULTS / "config.full" / "arms.csv")
    actual = comparisons(fair_runs(OF_FULL)).reset_index(drop=True)
    pd.testing.assert_frame_equal(written, actual, check_dtype=False, rtol=1e-9)
