"""Training of one attention layer: runs of both rules in each setup, at the learning rates that other runs chose.

A *setup* is a task with initial weights and an optimizer. A rule *works* in a setup if most runs solve the task at its
best learning rate, and *fails* if most do not: the 95% interval of their share lies above or below one half. With one
half inside its interval, a rule neither works nor fails. The runs of the sweep `rates` choose the best rates, and those
of `training`, which have one step less and so other draws, are judged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd

from experiments.analysis.bands import at_best_rates
from sdpa.training import loss_levels

AXES = ["task", "d_k", "n_keys", "initial", "optimizer", "steps"]
LIMITS = (
    "A rule that solves nothing here may do so in more steps. One layer and two tasks show nothing about depth, layer"
    " norm or warm-up"
)
OUTCOMES = (
    "Runs that solve the task at the best learning rate, unscaled and under d_k^1/2, with the median number of steps"
    " and its 95% interval"
)
ONE_HOT_LOSS = loss_levels("pair")["one-hot row"]
_OTHER_DRAWS = 1  # steps that the sweep `rates` has more, so that its draws are others
_STARTS = {"unit": "unit-variance q and k", "small": "small initial weights"}
_OPTIMIZERS = {"adam": "Adam", "sgd": "SGD"}

Truths: TypeAlias = "pd.Series[bool]"


@dataclass(frozen=True)
class Setups:
    """The runs of both rules in some setups, each at its best learning rate; one row per setup.

    Attributes:
        words: task, number of keys, initial weights, optimizer and steps; with the numbers of runs and learning rates
            and d_k, they are the index.
        unscaled, scaled: rows of the table `training`, with the same index.
    """

    words: "pd.Series[str]"
    unscaled: pd.DataFrame
    scaled: pd.DataFrame

    def where(self, chosen: Truths) -> "Setups":
        """Some of the setups."""
        return Setups(self.words[chosen], self.unscaled[chosen], self.scaled[chosen])

    def of(self, **axes: str) -> "Setups":
        """The setups with these values of axes."""
        return self.where((self.unscaled[list(axes)] == list(axes.values())).all(axis=1))

    def told(self, *columns: "pd.Series[str]", form: str) -> str:
        """Each setup in words with values in a printf form."""
        rows = pd.concat([self.words, *columns], axis=1).iterrows()
        return "; ".join(f"{words}, {form % tuple(values)}" for _, (words, *values) in rows)


def setups(tables: Mapping[str, pd.DataFrame]) -> Setups:
    """All setups of the sweep `training`, in its order, at the rates of `rates/bands`."""
    rows, bands = tables["training"], tables["rates/bands"]
    chosen = bands.assign(steps=bands["steps"] - _OTHER_DRAWS)
    rates = rows.groupby(AXES, sort=False)["learning_rate"].nunique()
    found = []
    for axes, at_best in at_best_rates(rows, chosen).groupby(AXES, sort=False):
        task, d_k, n_keys, initial, optimizer, steps = axes
        words = f"{task} of {n_keys} keys from {_STARTS[initial]} with {_OPTIMIZERS[optimizer]} in {steps} steps"
        others = f"the best of {rates[axes]} learning rates in {bands['trials'].min()} others"
        best = others if rates[axes] > 1 else "one learning rate"
        condition = f"{words}, {at_best['trials'].min()} runs at {best}, at d_k = {d_k}"
        found.append(at_best.assign(words=words, condition=condition))
    both = pd.concat(found).set_index("condition")
    unscaled, scaled = (both[both["scaling"] == name] for name in ("unscaled", "d_k^1/2"))
    return Setups(unscaled["words"], unscaled, scaled)


def works(rows: pd.DataFrame, most: float) -> Truths:
    """True where a rule works; `most` is the cut-off MOST."""
    return rows["solved_low"] > most


def decided(runs: Setups, most: float) -> Truths:
    """True where unscaled training fails and training under d_k^1/2 works."""
    return (runs.unscaled["solved_high"] < most) & works(runs.scaled, most)


def sooner(runs: Setups, most: float) -> Truths:
    """True where d_k^1/2 works, and takes fewer steps (with disjoint 95% intervals) or works alone."""
    fewer = runs.scaled["steps_to_solve_high"] < runs.unscaled["steps_to_solve_low"]
    return decided(runs, most) | (works(runs.scaled, most) & fewer)


def attended(runs: Setups, most: float, dominant: float) -> Truths:
    """True if the tokens asked for get more than half of the weight, and more than before training.

    Under each of both rules that works; a layer that has not learned the task has not found out which pairs are
    relevant, so that setups without such a rule do not count.
    """
    rules = (runs.unscaled, runs.scaled)
    attends = [r["asked_weight_after_low"] > r["asked_weight_before_high"].clip(lower=dominant) for r in rules]
    solves = [works(rows, most) for rows in rules]
    both = (~solves[0] | attends[0]) & (~solves[1] | attends[1])
    return both[solves[0] | solves[1]]


def second(rows: pd.DataFrame, of_asked: str = "", of_largest: str = "") -> "pd.Series[float]":
    """A lower bound of the mean weight of the second token asked for in `pair`, after training.

    Args:
        rows: of the task `pair`.
        of_asked, of_largest: ends of 95% intervals, such as `_low`; empty for the values themselves.
    """
    return rows[f"asked_weight_after{of_asked}"] - rows[f"max_weight_after{of_largest}"]


def one_hot_setups(tables: Mapping[str, pd.DataFrame], one_hot: float) -> Setups:
    """The setups whose unscaled rows are nearly one-hot before training, which the source calls saturated."""
    runs = setups(tables)
    return runs.where(runs.unscaled["max_weight_before_high"] > one_hot)


# Words of notes.


def outcomes(runs: Setups, most: float) -> str:
    """The share of runs that solve the task under both rules, and their steps where the rule works."""

    def solved(row: "pd.Series[Any]") -> str:
        steps, low, high = (row[f"steps_to_solve{end}"] for end in ("", "_low", "_high"))
        took = f" in {steps:.0f} steps ({low:.0f} to {high:.0f})" if row["solved_low"] > most else ""
        return f"{row['solved']:.0%}{took}"

    both = [rows.apply(solved, axis=1) for rows in (runs.unscaled, runs.scaled)]
    return runs.told(*both, form="%s and %s")


def asked(runs: Setups, *rules: str) -> str:
    """The weight of the tokens asked for before and after training, under `unscaled` or `scaled` or both."""
    columns = [getattr(runs, rule)[f"asked_weight_{when}"] for rule in rules for when in ("before", "after")]
    return runs.told(*columns, form=" and ".join(["from %.2f to %.2f"] * len(rules)))


def ends(runs: Setups) -> str:
    """What becomes of unscaled rows: weights of the tokens asked for, largest weights, and losses."""
    bare = runs.unscaled
    columns = [bare[f"asked_weight_{when}"] for when in ("before", "after")]
    columns += [bare["max_weight_after"], bare["final_loss"], runs.scaled["final_loss"]]
    form = (
        "the mean weight of the tokens asked for changes from %.2f to %.2f, the mean largest weight is %.3f after"
        " training, and the loss %.2f (%.2f under d_k^1/2)"
    )
    return runs.told(*columns, form=form)


def between(values: "pd.Series[float]", digits: int = 2) -> str:
    """The smallest and the largest of some values, in words."""
    low, high = (f"{end:.{digits}f}" for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"
