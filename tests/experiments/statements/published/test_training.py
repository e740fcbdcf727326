"""Statements on training: judged at the best learning rate of each rule, over tasks, initial weights and optimizers."""

import math

import numpy as np
import pytest

from experiments.statements.cutoffs import MOST, ONE_HOT
from experiments.statements.measured import Tables
from experiments.statements.published import training
from experiments.statements.published.training import setups

DECIDES, IMPROVES, STALLS = "lesson-22", "notebook-19b", "textbook-13"
SHARP_AND_SOFT, RELEVANT = "article-54", "lesson-05"
STEPS = ["steps_to_solve", "steps_to_solve_low", "steps_to_solve_high"]
FAILED = {"solved": 0.0, "solved_low": 0.0, "solved_high": 0.46, **dict.fromkeys(STEPS, math.nan)}
SOLVED_LATE = {"solved": 1.0, "solved_low": 0.54, "solved_high": 1.0, **dict(zip(STEPS, (300, 290, 310), strict=True))}


@pytest.fixture
def changed(tables):
    """The tables with other values in the rows of a rule, a task and initial weights; `None` is any of them."""

    def change(values, scaling: str | None = None, task: str | None = None, initial: str | None = None) -> Tables:
        rows = tables["training"].copy()
        chosen = np.ones(len(rows), dtype=bool)
        for name, wanted in {"scaling": scaling, "task": task, "initial": initial}.items():
            chosen &= (rows[name] == wanted) | (wanted is None)
        rows.loc[chosen, list(values)] = list(values.values())
        return {"training": rows}

    return change


def test_a_setup_has_both_rules_at_the_rates_that_other_runs_choose(tables):
    """No verdict changes with the runs that choose, unless these choose another rate."""
    found = setups(tables)
    assert len({one.condition for one in found}) == len(found)
    assert len(found) == len(tables["training"][training.AXES].drop_duplicates())
    for one in found:
        assert (one.unscaled["divisor"], one.scaled["divisor"]) == (1, pytest.approx(math.sqrt(one.scaled["d_k"])))
    worst = tables["rates/bands"].assign(best_rate=tables["rates/bands"]["lowest_rate"])
    moved = setups({**tables, "rates/bands": worst})
    lowest = tables["training"].groupby([*training.AXES, "scaling"])["learning_rate"].min()
    for one in moved:
        for row in (one.unscaled, one.scaled):
            assert row["best_rate"] == lowest[*row[training.AXES], "unscaled" if row["divisor"] == 1 else "d_k^1/2"]


def test_the_runs_that_choose_rates_are_not_those_that_are_judged(tables):
    """The same cells but for the number of steps, which their draws depend on, and no run in common."""
    chosen = tables["rates"].assign(steps=tables["rates"]["steps"] - 1)
    both = chosen.merge(tables["training"], on=[*training.AXES, "learning_rate", "scaling"])
    assert len(both) == len(chosen)
    assert (both["max_weight_before_x"] != both["max_weight_before_y"]).all()


def test_every_setup_has_enough_runs_to_work_or_to_fail(tables):
    """A share of 0 or of 1 has an interval on one side of one half."""
    rows = tables["training"]
    assert (rows.loc[rows["solved"] == 1, "solved_low"] > MOST.value).all()
    assert (rows.loc[rows["solved"] == 0, "solved_high"] < MOST.value).all()


def test_the_learning_rates_lie_on_both_sides_of_the_best_one_of_a_rule_that_fails(tables):
    found = tables["rates/bands"]
    failing = found[found["solved"] == 0]
    assert len(failing)
    assert failing["best_rate"].between(failing["lowest_rate"], failing["highest_rate"], inclusive="neither").all()


def test_scaling_decides_where_unscaled_training_fails_and_scaled_training_works(judge, answer, changed):
    assert judge(DECIDES) == "misleading"
    decided = [condition for condition, true in answer(DECIDES).cases.items() if true]
    assert decided
    of_pair = ["pair of 16 keys from unit-variance q and k" in condition for condition in decided]
    of_many = ["recall of 128 keys from unit-variance q and k" in condition for condition in decided]
    assert all(np.logical_or(of_pair, of_many))
    assert any(of_pair)
    assert any(of_many)
    assert judge(DECIDES, **changed(FAILED, "unscaled")) == "holds"
    assert judge(DECIDES, **changed(SOLVED_LATE, "unscaled")) == "wrong"
    assert judge(DECIDES, **changed(FAILED)) == "wrong"  # without scaling, but with it too


def test_scaling_improves_learning_if_it_takes_fewer_steps(judge, changed):
    assert judge(IMPROVES) == "holds"
    assert judge(IMPROVES, **changed(SOLVED_LATE)) == "wrong"
    assert judge(IMPROVES, **changed(FAILED, "d_k^1/2")) == "wrong"
    assert judge(IMPROVES, **changed(SOLVED_LATE, "d_k^1/2", initial="small")) == "holds"  # not those of the source


def test_saturation_is_judged_where_rows_are_nearly_one_hot_before_training(judge, answer, changed):
    assert judge(STALLS) == "misleading"
    assert all("from unit-variance q and k" in condition for condition in answer(STALLS).cases)
    assert judge(STALLS, **changed(SOLVED_LATE, "unscaled")) == "wrong"
    assert judge(STALLS, **changed(FAILED, "unscaled")) == "holds"
    small = answer(STALLS, **changed({"max_weight_before_high": ONE_HOT.value + 0.01}, "unscaled", initial="small"))
    assert any("from small initial weights" in condition for condition in small.cases)


@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("recall", {"max_weight_after": 0.5, "max_weight_after_low": 0.45}),
        ("pair", {"max_weight_after": 0.95, "max_weight_after_high": 0.96}),
        ("pair", FAILED),
    ],
)
def test_sharp_and_soft_rows_are_both_needed(judge, changed, task, values):
    assert judge(SHARP_AND_SOFT) == "holds"
    assert judge(SHARP_AND_SOFT, **changed(values, "unscaled")) == "holds"
    assert judge(SHARP_AND_SOFT, **changed(values, "d_k^1/2", task)) == "misleading"


def test_relevant_pairs_are_those_that_a_query_asks_for(judge, changed):
    assert judge(RELEVANT) == "holds"
    assert judge(RELEVANT, **changed({"asked_weight_after_low": 0.5}, "d_k^1/2")) == "wrong"
    assert judge(RELEVANT, **changed({"asked_weight_before_high": 1.0}, "unscaled", "recall")) == "misleading"
