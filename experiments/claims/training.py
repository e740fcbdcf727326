"""Training behind statements: runs of both rules, at learning rates that other runs chose.

A setup is a task with initial weights and an optimizer. A rule works in a setup if most runs solve
the task at its best learning rate, and fails if most do not: the 95% interval of their share lies
above or below one half. The runs of the sweep `rates` choose the best rates, and those of
`training`, which have one step less and so other draws, are judged.
"""

from typing import Any

import pandas as pd

from experiments.claims.measured import Given

LIMITS = (
    "A rule that solves nothing here may do so in more steps. One layer and two tasks show nothing"
    " about depth, layer norm or warm-up"
)
ONE_LAYER = "One layer on two small tasks decides nothing about transformers trained on text"
OUTCOMES = (
    "Runs that solve the task at the best learning rate, unscaled and under d_k^1/2, with the"
    " median number of steps and its 95% interval"
)
_AXES = ["task", "d_k", "n_keys", "initial", "optimizer", "steps"]
_OTHER_DRAWS = 1  # steps that the sweep `rates` has more, so that its draws are others
_RULES = {"unscaled": "unscaled", "scaled": "d_k^1/2"}
_STARTS = {"unit": "unit-variance q and k", "small": "small initial weights"}
_OPTIMIZERS = {"adam": "Adam", "sgd": "SGD"}


def setups(given: Given, **axes: str) -> pd.DataFrame:
    """Rows of the table `training` in the setups with these values of axes, at the best rates.

    A row for each setup, and the columns of the table for `unscaled` and `scaled`. The column
    `words` says task, number of keys, initial weights, optimizer and steps; the index says the
    numbers of runs and learning rates and d_k, too.
    """
    rows, bands = given.tables["training"], given.tables["rates/bands"]
    chosen = bands.assign(steps=bands["steps"] - _OTHER_DRAWS)
    rates = rows.groupby(_AXES)["learning_rate"].nunique().rename("rates")
    names = [*_AXES, "scaling"]
    rows = rows.merge(rates, on=_AXES).merge(chosen[[*names, "best_rate"]], "left", on=names)
    best_rate = rows["best_rate"].fillna(rows["learning_rate"])  # of one rate without a band
    best = rows[rows["learning_rate"] == best_rate]
    for axis, value in axes.items():
        best = best[best[axis] == value]
    words = best.apply(_in_words, axis=1)
    condition = best.apply(_condition, axis=1, others=bands["trials"].min())
    best = best.assign(words=words).set_index(words + condition)
    of_rules = {name: best[best["scaling"] == rule] for name, rule in _RULES.items()}
    return pd.concat(of_rules, axis=1)


def _in_words(row: "pd.Series[Any]") -> str:
    start, optimizer = _STARTS[row["initial"]], _OPTIMIZERS[row["optimizer"]]
    keys, steps = row["n_keys"], row["steps"]
    return f"{row['task']} of {keys} keys from {start} with {optimizer} in {steps} steps"


def _condition(row: "pd.Series[Any]", others: int) -> str:
    rates = "one learning rate"
    if row["rates"] > 1:
        rates = f"the best of {row['rates']} learning rates in {others} others"
    return f", {row['trials']} runs at {rates}, at d_k = {row['d_k']}"


def one_hot_setups(given: Given) -> pd.DataFrame:
    """Setups whose unscaled rows are nearly one-hot before training; the source: saturated."""
    runs = setups(given)
    return runs[runs.unscaled["max_weight_before_high"] > given.one_hot]


def works(rows: pd.DataFrame, given: Given) -> "pd.Series[Any]":
    """True where a rule works."""
    return rows["solved_low"] > given.most


def decided(runs: pd.DataFrame, given: Given) -> "pd.Series[Any]":
    """True where unscaled training fails and training under d_k^1/2 works."""
    return (runs.unscaled["solved_high"] < given.most) & works(runs.scaled, given)


def sooner(runs: pd.DataFrame, given: Given) -> "pd.Series[Any]":
    """True where d_k^1/2 works alone, or in fewer steps with disjoint 95% intervals."""
    steps, unscaled = runs.scaled["steps_to_solve_high"], runs.unscaled["steps_to_solve_low"]
    return decided(runs, given) | (works(runs.scaled, given) & (steps < unscaled))


def second(rows: pd.DataFrame, of_asked: str = "", of_largest: str = "") -> "pd.Series[Any]":
    """A lower bound of the mean weight of the second token asked for in `pair`, after training.

    Args:
        rows: of the task `pair`.
        of_asked, of_largest: ends of 95% intervals, such as `_low`; empty for the values.
    """
    return rows[f"asked_weight_after{of_asked}"] - rows[f"max_weight_after{of_largest}"]


def told(runs: pd.DataFrame, form: str, *columns: "pd.Series[Any]") -> str:
    """Each setup in words with values in a printf form."""
    rows = pd.concat([runs.unscaled["words"], *columns], axis=1)
    return "; ".join(f"{words}, {form % tuple(values)}" for words, *values in rows.to_numpy())


def outcomes(runs: pd.DataFrame, given: Given) -> str:
    """The share of runs that solve the task under both rules, and their steps where it works."""

    def solved(row: "pd.Series[Any]") -> str:
        share = f"{row['solved']:.0%}"
        if not row["solved_low"] > given.most:
            return share
        steps, low, high = (row[f"steps_to_solve{end}"] for end in ("", "_low", "_high"))
        return f"{share} in {steps:.0f} steps ({low:.0f} to {high:.0f})"

    both = (rows.apply(solved, axis=1) for rows in (runs.unscaled, runs.scaled))
    return told(runs, "%s and %s", *both)
