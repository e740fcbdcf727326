"""Training of one attention layer: the effects of scaling and of saturated rows, and the keys that it learns to prefer.

A *setup* is a task with initial weights and an optimizer. A rule *works* in a setup if most runs solve the task at its
best learning rate, and *fails* if most do not: the 95% interval of their share lies above or below one half. With one
half inside its interval, a rule neither works nor fails. The runs of the sweep `rates` choose the best rates, and those
of `training`, which have one step less and so other draws, are judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from experiments.analysis.bands import at_best_rates
from experiments.statements.answer import Answer, cases
from experiments.statements.cutoffs import DOMINANT, MOST, ONE_HOT, STRONGLY
from experiments.statements.declare import open_statement, statement
from experiments.statements.measured import Tables
from sdpa.training import loss_levels

AXES = ["task", "d_k", "n_keys", "initial", "optimizer", "steps"]
_OTHER_DRAWS = 1  # steps that the sweep `rates` has more, so that its draws are others
_STARTS = {"unit": "unit-variance q and k", "small": "small initial weights"}
_OPTIMIZERS = {"adam": "Adam", "sgd": "SGD"}
_LIMITS = (
    "A rule that solves nothing here may do so in more steps. One layer and two tasks show nothing about depth, layer"
    " norm or warm-up"
)
_OUTCOMES = (
    "Runs that solve the task at the best learning rate, unscaled and under d_k^1/2, with the median number of steps"
    " and its 95% interval"
)
_ONE_HOT_LOSS = loss_levels("pair")["one-hot row"]


@dataclass(frozen=True)
class Setup:
    """The runs of both rules in a setup, each at its best learning rate.

    Attributes:
        task, n_keys, initial: of the setup.
        words: task, number of keys, initial weights, optimizer and steps.
        condition: the same with the numbers of runs and learning rates, and d_k.
        unscaled, scaled: the rows of the table `training`, unscaled and under d_k^1/2.
    """

    task: str
    n_keys: int
    initial: str
    words: str
    condition: str
    unscaled: "pd.Series[float]"
    scaled: "pd.Series[float]"

    @property
    def is_decided_by_scaling(self) -> bool:
        """True if unscaled training fails and training under d_k^1/2 works."""
        return _fails(self.unscaled) and _works(self.scaled)

    @property
    def is_sooner_scaled(self) -> bool:
        """True if d_k^1/2 works, and takes fewer steps (with disjoint 95% intervals) or works alone."""
        fewer = self.scaled["steps_to_solve_high"] < self.unscaled["steps_to_solve_low"]
        return self.is_decided_by_scaling or (_works(self.scaled) and bool(fewer))


def setups(tables: Tables) -> list[Setup]:
    """All setups of the sweep `training`, in its order.

    Args:
        tables: with the tables `training` and `rates/bands`, which gives the best learning rates.
    """
    rows, bands = tables["training"], tables["rates/bands"]
    chosen, found = bands.assign(steps=bands["steps"] - _OTHER_DRAWS), []
    for axes, at_best in at_best_rates(rows, chosen).groupby(AXES, sort=False):
        task, d_k, n_keys, initial, optimizer, steps = axes
        rates = rows.loc[(rows[AXES] == list(axes)).all(axis=1), "learning_rate"].nunique()
        by_rule = at_best.set_index("scaling")
        words = f"{task} of {n_keys} keys from {_STARTS[initial]} with {_OPTIMIZERS[optimizer]} in {steps} steps"
        best = (
            f"the best of {rates} learning rates in {bands['trials'].min()} others"
            if rates > 1
            else "one learning rate"
        )
        condition = f"{words}, {by_rule['trials'].min()} runs at {best}, at d_k = {d_k}"
        found.append(Setup(task, n_keys, initial, words, condition, by_rule.loc["unscaled"], by_rule.loc["d_k^1/2"]))
    return found


@statement(
    "textbook-04 lesson-22 article-151 article-01b notebook-23b",
    says="Scaling decides whether training works at large d_k.",
    severity="overstatement",
)
def scaling_decides(tables: Tables) -> Answer:
    """The share of runs that solve a task at the best learning rate, with and without scaling, in every setup."""
    found = setups(tables)
    note = f"{_OUTCOMES}: {_compared(found)}. {_starts(found)}. {_LIMITS}"
    conditions = {
        f"unscaled training fails and training under d_k^1/2 works: {one.condition}": one.is_decided_by_scaling
        for one in found
    }
    return cases(conditions, note)


@statement("notebook-19b", says="With scaling learning improves.", severity="overstatement")
def scaling_improves(tables: Tables) -> Answer:
    """Steps to solve a task at the best learning rate, with and without scaling, from unit-variance q and k.

    The source draws its vectors with unit variance.
    """
    found = {start: [one for one in setups(tables) if one.initial == start] for start in _STARTS}
    conditions = {
        f"training under d_k^1/2 takes fewer steps, or works where unscaled training fails: {one.condition}": (
            one.is_sooner_scaled
        )
        for one in found["unit"]
    }
    sooner = sum(one.is_sooner_scaled for one in found["small"])
    note = (
        f"{_OUTCOMES}: {_compared(found['unit'])}. From small initial weights, which the source does not mention,"
        f" d_k^1/2 takes fewer steps in {sooner} of {len(found['small'])} setups: {_compared(found['small'])}."
        f" {_LIMITS}"
    )
    return cases(conditions, note)


@statement("textbook-13", says="With a saturated softmax learning stalls.", severity="overstatement")
def saturation_stalls(tables: Tables) -> Answer:
    """Unscaled training in the setups whose rows are nearly one-hot before training.

    The source calls saturated a row that is nearly one-hot.
    """
    found = [one for one in setups(tables) if one.unscaled["max_weight_before_high"] > ONE_HOT.value]
    learned, stalled = ([one for one in found if _works(one.unscaled) == works] for works in (True, False))
    before = _range([one.unscaled["max_weight_before"] for one in found])
    sentences = [f"Before training, the mean largest weight of unscaled rows is {before}"]
    if learned:
        sentences.append(f"{_OUTCOMES}: {_compared(learned)}")
    if stalled:
        ends = "; ".join(
            f"{one.words}, the mean weight of the tokens asked for changes {_asked(one.unscaled)}, the mean largest"
            f" weight is {_after(one.unscaled)} after training, and the loss {one.unscaled['final_loss']:.2f}"
            f" ({one.scaled['final_loss']:.2f} under d_k^1/2)"
            for one in stalled
        )
        least = f"the loss of pair is at least {_ONE_HOT_LOSS:.2f}"
        sentences.append(f"Unscaled training does not solve these: {ends}. With one-hot rows, {least}")
    conditions = {
        f"from nearly one-hot rows, training fails and training under d_k^1/2 works: {one.condition}": (
            one.is_decided_by_scaling
        )
        for one in found
    }
    return cases(conditions, ". ".join([*sentences, _LIMITS]))


@statement(
    "article-54 article-132b",
    says="With scaling a model learns sharp and soft attention.",
    severity="overstatement",
)
def sharp_and_soft_is_learned(tables: Tables) -> Answer:
    """The rows of a trained layer under d_k^1/2: sharp in `recall`, and with a second large weight in `pair`.

    The mean largest weight does not show soft rows here, because the best row of `pair` has two weights of one half.
    """
    sharp, soft = ([one for one in setups(tables) if one.task == task] for task in ("recall", "pair"))
    conditions = {
        f"under d_k^1/2, training works and ends with a mean largest weight above one half: {one.condition}": (
            _works(one.scaled) and one.scaled["max_weight_after_low"] > DOMINANT.value
        )
        for one in sharp
    }
    conditions |= {
        "under d_k^1/2, training works and ends with a mean second weight of more than twice a uniform one:"
        f" {one.condition}": _works(one.scaled) and _second(one.scaled, "_low", "_high") > STRONGLY.value / one.n_keys
        for one in soft
    }
    largest = "; ".join(f"{one.words}, {_after(one.scaled)} (unscaled {_after(one.unscaled)})" for one in sharp)
    second = "; ".join(f"{one.words}, {_of_second(one.scaled)} (unscaled {_of_second(one.unscaled)})" for one in soft)
    note = (
        f"Recall needs one token, and pair two. The mean largest weight after training under d_k^1/2: {largest}. A"
        " lower bound of the mean weight of the second token, the weight of both less the largest of the row:"
        f" {second}. {_LIMITS}"
    )
    return cases(conditions, note)


@statement("lesson-05", says="Training makes relevant pairs of query and key score high.", severity="overstatement")
def relevant_pairs_score_high(tables: Tables) -> Answer:
    """The weight of the tokens that a query asks for, before and after training, under both rules in every setup.

    A layer that has not learned the task has not found out which pairs are relevant, so that only rules count that
    solve it.
    """
    found = setups(tables)
    solving = {one.condition: [row for row in (one.unscaled, one.scaled) if _works(row)] for one in found}
    conditions = {
        "under each of both rules that solves the task, the tokens asked for get more than half of the weight, and more"
        f" than before training: {condition}": all(map(_attends, rows))
        for condition, rows in solving.items()
        if rows
    }
    weights = "; ".join(f"{one.words}, {_asked(one.unscaled)} and {_asked(one.scaled)}" for one in found)
    before, after = (
        _range([one.scaled[f"variance_ratio_{when}"] for one in found], ".1f") for when in ("before", "after")
    )
    note = (
        f"The mean weight of the tokens asked for changes, unscaled and under d_k^1/2: {weights}. The variance of the"
        f" scores within a row under d_k^1/2, divided by that for independent entries of q and k, is {before} before"
        f" training and {after} after it; the argument for sqrt(d_k) assumes independent entries. {_LIMITS}"
    )
    return cases(conditions, note)


open_statement("qa-35", says="Trained attention lets a word find the words it refers to.")


def _works(row: "pd.Series[float]") -> bool:
    return bool(row["solved_low"] > MOST.value)


def _fails(row: "pd.Series[float]") -> bool:
    return bool(row["solved_high"] < MOST.value)


def _attends(row: "pd.Series[float]") -> bool:
    """True if the tokens asked for get more than half of the weight, and more than before training."""
    return bool(row["asked_weight_after_low"] > max(DOMINANT.value, row["asked_weight_before_high"]))


def _second(row: "pd.Series[float]", of_asked: str = "", of_largest: str = "") -> float:
    """A lower bound of the mean weight of the second token asked for, after training.

    Args:
        row: of the task `pair`.
        of_asked, of_largest: ends of 95% intervals, such as `_low`; empty for the values themselves.
    """
    return float(row[f"asked_weight_after{of_asked}"] - row[f"max_weight_after{of_largest}"])


def _of_second(row: "pd.Series[float]") -> str:
    return f"{max(_second(row), 0.0):.2f}"


def _after(row: "pd.Series[float]") -> str:
    return f"{row['max_weight_after']:.3f}"


def _asked(row: "pd.Series[float]") -> str:
    """The weight of the tokens asked for, before and after training, in words."""
    return f"from {row['asked_weight_before']:.2f} to {row['asked_weight_after']:.2f}"


def _solved(row: "pd.Series[float]") -> str:
    """The share of runs that solve the task, and their steps if the rule works, in words."""
    steps, low, high = (row[f"steps_to_solve{end}"] for end in ("", "_low", "_high"))
    return f"{row['solved']:.0%}" + (f" in {steps:.0f} steps ({low:.0f} to {high:.0f})" if _works(row) else "")


def _compared(found: Sequence[Setup]) -> str:
    """The outcomes of both rules in some setups, in words."""
    return "; ".join(f"{one.words}, {_solved(one.unscaled)} and {_solved(one.scaled)}" for one in found)


def _starts(found: Sequence[Setup]) -> str:
    """The mean largest weight of unscaled rows before training, by initial weights, in words."""
    largest = {
        start: _range([one.unscaled["max_weight_before"] for one in found if one.initial == start])
        for start in dict.fromkeys(one.initial for one in found)
    }
    listed = " and ".join(f"{weights} from {_STARTS[start]}" for start, weights in largest.items())
    return f"Before training, the mean largest weight of unscaled rows is {listed}"


def _range(values: Sequence[float], form: str = ".2f") -> str:
    """The smallest and the largest of some values, in words."""
    low, high = (f"{end(values):{form}}" for end in (min, max))
    return low if low == high else f"{low} to {high}"
