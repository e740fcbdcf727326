"""Words of notes, and what measured tables say, as names in the expressions that answer published statements.

Functions whose first argument is `tables` get the measured tables by name, `dimension` or `dimension/slopes`; an
expression leaves this argument out.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize

from experiments.analysis.bands import at_best_rates
from experiments.analysis.results import Axes
from experiments.kinds.training import Cell
from experiments.published.judge import parse_claimed
from sdpa import softmax
from sdpa.training import loss_levels

Floats = npt.NDArray[np.floating]
Tables = Mapping[str, pd.DataFrame]
UNTRAINED = "for independent, centred and untrained q and k"  # the inputs behind measured and exact values, for notes


# Words of notes.


def shown(values: npt.ArrayLike, digits: int = 4) -> str:
    """Numbers in the form of a note, with that many significant digits.

    >>> shown([1 / 3, 2.0])
    '[0.3333, 2]'
    """
    return "[" + ", ".join(f"{x:.{digits}g}" for x in np.ravel(values)) + "]"


def label(value: object) -> str:
    """A label of an axis: a number of keys from 10,000 on has commas."""
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def listed(values: Iterable[object]) -> str:
    """Labels as a list, such as `2, 5 and 10`."""
    *most, last = map(label, values)
    return f"{', '.join(most)} and {last}" if most else last


def by_keys(form: str, *series: "pd.Series[Any]", between: str = ", ") -> str:
    """Values by the number of keys in words, each in a printf form.

    >>> by_keys("%.3g", pd.Series({4: 0.4631, 65536: 0.01}))
    '0.463 with 4 keys, 0.01 with 65,536 keys'
    """
    rows = pd.concat(series, axis=1).iterrows()
    return between.join(f"{form % tuple(row)} with {label(n)} keys" for n, row in rows)


def with_error(value: float, error: float) -> str:
    """A measured value with the first digit of its standard error as the last, and at most four digits.

    >>> with_error(0.27411, 0.003), with_error(1.13e-5, 7e-6)
    ('0.274', '1.1e−05')
    """
    if not 1e-4 <= abs(value) < 1e6:
        digits = 1 + math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
        return f"{value:.{min(max(digits, 1), 3)}g}".replace("-", "−")
    places = -math.floor(math.log10(max(error, abs(value) / 1000)))
    return f"{round(value, places):.{max(places, 0)}f}"


def tempered(scores: Sequence[float], claimed: str) -> str:
    """The divisor of the scores that gives a claimed softmax, to half a unit of its last digit, in words.

    It finds the origin of a printed row of weights that is not the softmax of its scores. The divisors 1, 2 and 1/2
    have precedence over any other from 0.2 to 10 that fits better.
    """
    numbers = parse_claimed(claimed)
    wanted, given = np.array([number.value for number in numbers]), np.array(scores, dtype=float)

    def distance(divisor: float) -> float:
        return float(np.abs(softmax(given / divisor) - wanted).max())

    half = 0.51 * min(number.unit for number in numbers)
    best = optimize.minimize_scalar(distance, bounds=(0.2, 10), method="bounded").x
    whole = min((1.0, 2.0, 0.5), key=distance)
    divisor = whole if distance(whole) <= half else best
    if distance(divisor) > half:
        return f"not the softmax of any multiple of the scores (closest: divided by {best:.3g})"
    return f"the softmax of the scores divided by {divisor:.3g}"


# Measured tables: rows of a rule by d_k, and the (d_k, n_keys) plane of the sweep `phase`.

WIDTHS, KEYS = [64, 128, 256, 512, 4096], [4, 64, 1024, 4096]
MEDIAN = "jacobian_norm_median"  # measured: no exact value is known


def dimension(tables: Tables, scaling: str) -> pd.DataFrame:
    """The rows of a rule in the sweep `dimension`, by d_k, which stays a column too."""
    rows = tables["dimension"]
    return rows[rows["scaling"] == scaling].set_index("d_k", drop=False)


def slopes(tables: Tables, scaling: str) -> "pd.Series[Any]":
    """The slope of ln variance against ln d_k under a rule."""
    return tables["dimension/slopes"].set_index("scaling").loc[scaling]


def powers_apart(tables: Tables) -> "pd.Series[float]":
    """The variance at d_k = 512 less that at 64, in standard errors, by the exponent of the rule."""
    values = tables["powers"].pivot_table(
        index="exponent", columns="d_k", values=["score_variance", "score_variance_se"]
    )
    error = np.hypot(values["score_variance_se"][512], values["score_variance_se"][64])
    return (values["score_variance"][512] - values["score_variance"][64]).abs() / error


def agree(rows: pd.DataFrame, metric: str, expected: Any, errors: float) -> bool:
    """True if every distance of a metric from its expected value is below so many standard errors."""
    return bool((abs(rows[metric] - expected) < errors * rows[f"{metric}_se"]).all())


def phase(tables: Tables, scaling: str, metric: str) -> pd.DataFrame:
    """A column of the sweep `phase` under one rule, with a row per d_k and a column per number of keys."""
    rows = tables["phase"]
    return rows[rows["scaling"] == scaling].pivot_table(index="d_k", columns="n_keys", values=metric)


def bare(tables: Tables, metric: str) -> pd.DataFrame:
    """A metric without scaling, on the plane that statements about large d_k are judged over."""
    return phase(tables, "unscaled", metric).loc[WIDTHS, KEYS]


def scaled(tables: Tables, metric: str) -> pd.DataFrame:
    """The same under d_k^1/2."""
    return phase(tables, "d_k^1/2", metric).loc[WIDTHS, KEYS]


def ratio(tables: Tables, metric: str) -> pd.DataFrame:
    """The unscaled value of a metric divided by its value under d_k^1/2."""
    return bare(tables, metric) / scaled(tables, metric)


def grows(values: pd.DataFrame) -> "pd.Series[bool]":
    """True for each number of keys with which a metric grows with d_k."""
    return values.diff().iloc[1:].ge(0).all()


def spread(values: pd.DataFrame) -> "pd.Series[float]":
    """The largest value along d_k over the smallest, for each number of keys."""
    return values.max() / values.min()


def medians(tables: Tables) -> pd.DataFrame:
    """The median of |J| under d_k^1/2 in words, with as many digits as its error justifies.

    The error is a quarter of the width of the 95% interval.
    """
    low, high = (scaled(tables, f"{MEDIAN}_{end}") for end in ("low", "high"))
    return scaled(tables, MEDIAN).combine((high - low) / 4, lambda *both: both[0].combine(both[1], with_error))


def ratios_of_medians(tables: Tables) -> pd.DataFrame:
    """The same of the ratio of medians, whose interval is (low / high, high / low) of theirs."""
    low = bare(tables, f"{MEDIAN}_low") / scaled(tables, f"{MEDIAN}_high")
    high = bare(tables, f"{MEDIAN}_high") / scaled(tables, f"{MEDIAN}_low")
    return ratio(tables, MEDIAN).combine((high - low) / 4, lambda *both: both[0].combine(both[1], with_error))


# Training: runs of both rules in each setup, at the learning rates that other runs chose. A setup is a task with
# initial weights and an optimizer. A rule works in a setup if most runs solve the task at its best learning rate, and
# fails if most do not: the 95% interval of their share lies above or below one half. The runs of the sweep `rates`
# choose the best rates, and those of `training`, which have one step less and so other draws, are judged.

AXES = ["task", "d_k", "n_keys", "initial", "optimizer", "steps"]
LIMITS = (
    "A rule that solves nothing here may do so in more steps. One layer and two tasks show nothing about depth, layer"
    " norm or warm-up"
)
ONE_LAYER = "One layer on two small tasks decides nothing about transformers trained on text"
OUTCOMES = (
    "Runs that solve the task at the best learning rate, unscaled and under d_k^1/2, with the median number of steps"
    " and its 95% interval"
)
ONE_HOT_LOSS = loss_levels("pair")["one-hot row"]
_OTHER_DRAWS = 1  # steps that the sweep `rates` has more, so that its draws are others
_STARTS = {"unit": "unit-variance q and k", "small": "small initial weights"}
_OPTIMIZERS = {"adam": "Adam", "sgd": "SGD"}

Truths: TypeAlias = "pd.Series[bool]"


def setups(tables: Tables, **axes: str) -> pd.DataFrame:
    """Rows of the table `training` in the setups with these values of axes, at the rates of `rates/bands`.

    A row for each setup, `unscaled` and `scaled`. The index says task, number of keys, initial weights, optimizer and
    steps, as the column `words` does, and the numbers of runs and learning rates and d_k.
    """
    rows, bands = tables["training"], tables["rates/bands"]
    chosen = bands.assign(steps=bands["steps"] - _OTHER_DRAWS)
    rates = rows.groupby(AXES, sort=False)["learning_rate"].nunique()
    found = []
    for setup, at_best in at_best_rates(rows, chosen, Axes.of_cell(Cell)).groupby(AXES, sort=False):
        task, d_k, n_keys, initial, optimizer, steps = setup
        words = f"{task} of {n_keys} keys from {_STARTS[initial]} with {_OPTIMIZERS[optimizer]} in {steps} steps"
        others = f"the best of {rates[setup]} learning rates in {bands['trials'].min()} others"
        best = others if rates[setup] > 1 else "one learning rate"
        condition = f"{words}, {at_best['trials'].min()} runs at {best}, at d_k = {d_k}"
        found.append(at_best.assign(words=words, condition=condition))
    both = pd.concat(found).set_index("condition")
    both = both[(both[list(axes)] == list(axes.values())).all(axis=1)]
    rules = {"unscaled": "unscaled", "scaled": "d_k^1/2"}
    return pd.concat({name: both[both["scaling"] == rule] for name, rule in rules.items()}, axis=1)


def told(runs: pd.DataFrame, *columns: "pd.Series[Any]", form: str) -> str:
    """Each setup in words with values in a printf form."""
    rows = pd.concat([runs.unscaled.words, *columns], axis=1).iterrows()
    return "; ".join(f"{words}, {form % tuple(values)}" for _, (words, *values) in rows)


def works(rows: pd.DataFrame, most: float) -> Truths:
    """True where a rule works; `most` is the cut-off MOST."""
    return rows["solved_low"] > most


def decided(runs: pd.DataFrame, most: float) -> Truths:
    """True where unscaled training fails and training under d_k^1/2 works."""
    return (runs.unscaled["solved_high"] < most) & works(runs.scaled, most)


def sooner(runs: pd.DataFrame, most: float) -> Truths:
    """True where d_k^1/2 works, and takes fewer steps (with disjoint 95% intervals) or works alone."""
    fewer = runs.scaled["steps_to_solve_high"] < runs.unscaled["steps_to_solve_low"]
    return decided(runs, most) | (works(runs.scaled, most) & fewer)


def second(rows: pd.DataFrame, of_asked: str = "", of_largest: str = "") -> "pd.Series[float]":
    """A lower bound of the mean weight of the second token asked for in `pair`, after training.

    Args:
        rows: of the task `pair`.
        of_asked, of_largest: ends of 95% intervals, such as `_low`; empty for the values themselves.
    """
    return rows[f"asked_weight_after{of_asked}"] - rows[f"max_weight_after{of_largest}"]


def one_hot_setups(tables: Tables, one_hot: float) -> pd.DataFrame:
    """The setups whose unscaled rows are nearly one-hot before training, which the source calls saturated."""
    runs = setups(tables)
    return runs[runs.unscaled["max_weight_before_high"] > one_hot]


def outcomes(runs: pd.DataFrame, most: float) -> str:
    """The share of runs that solve the task under both rules, and their steps where the rule works."""

    def solved(row: "pd.Series[Any]") -> str:
        steps, low, high = (row[f"steps_to_solve{end}"] for end in ("", "_low", "_high"))
        took = f" in {steps:.0f} steps ({low:.0f} to {high:.0f})" if row["solved_low"] > most else ""
        return f"{row['solved']:.0%}{took}"

    both = [rows.apply(solved, axis=1) for rows in (runs.unscaled, runs.scaled)]
    return told(runs, *both, form="%s and %s")


def asked(runs: pd.DataFrame, *rules: str) -> str:
    """The weight of the tokens asked for before and after training, under `unscaled` or `scaled` or both."""
    columns = [runs[rule][f"asked_weight_{when}"] for rule in rules for when in ("before", "after")]
    return told(runs, *columns, form=" and ".join(["from %.2f to %.2f"] * len(rules)))


def ends(runs: pd.DataFrame) -> str:
    """What becomes of unscaled rows: weights of the tokens asked for, largest weights, and losses."""
    bare = runs.unscaled
    columns = [bare[f"asked_weight_{when}"] for when in ("before", "after")]
    columns += [bare["max_weight_after"], bare["final_loss"], runs.scaled["final_loss"]]
    form = (
        "the mean weight of the tokens asked for changes from %.2f to %.2f, the mean largest weight is %.3f after"
        " training, and the loss %.2f (%.2f under d_k^1/2)"
    )
    return told(runs, *columns, form=form)


def between(values: "pd.Series[float]", digits: int = 2) -> str:
    """The smallest and the largest of some values, in words."""
    low, high = (f"{end:.{digits}f}" for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"
