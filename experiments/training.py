"""Training of one attention layer: which learning rates solve a task under each scaling rule, and what rows become.

A trial is one run per rule: the rules share the initial weights and the batches of their trial (`sdpa.training`). At
some steps a run records its loss, accuracy, rows and gradients; the table `history` holds their means over runs, and
analysis makes the learning curves of it. The main table describes the starts and ends of runs. A run whose loss grows,
or whose weights leave the range of numbers, counts as diverged and raises nothing.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le

from experiments.harness.columns import Column, Meaning, names
from experiments.harness.experiment import MEASURED, Experiment, Row
from experiments.harness.metric import fields, metric_columns
from experiments.sampling import TREATMENT, ScaledCell
from experiments.statistics.moments import Moments
from experiments.statistics.quantiles import Histograms, Quantile
from experiments.training_metrics import LAST_BATCHES, RECORDED, SOLVED_ACCURACY, TRAINING_METRICS, Ends
from sdpa import InputLaw, Scaling
from sdpa.training import D_MODEL, Initial, OptimizerName, Task, accuracy, train

HISTORY = "history"
RECORDED_NAMES = [each.name for each in RECORDED]
_RECORDS = 20  # of a run, after its start
# The costs that `plan` assumes, measured on a server core of 2025, in nanoseconds: per number of a batch, per step and
# rule, per weight of W_Q and W_K (the optimizer, and a product of 40 sequences), and per number of a batch and rule.
_PER_NUMBER, _PER_STEP, _PER_WEIGHT, _PER_TOKEN = 8.0, 1.5e5, 5.0, 1.0

Floats = npt.NDArray[np.floating]
_Size = Annotated[int, Ge(1), Le(2**20)]


@dataclass(frozen=True)
class Cell(ScaledCell):
    """One point of the grid: a task, a layer and an optimizer (`sdpa.training.train`)."""

    task: Annotated[Task, Meaning("what the layer learns: the class of one token (recall), or of two (pair)")]
    d_k: Annotated[_Size, Meaning("width of queries and keys")]
    n_keys: Annotated[_Size, Ge(2), Meaning("tokens of a sequence, the length of a softmax row")]
    learning_rate: Annotated[float, Gt(0), Le(1e6), Meaning("learning rate of all weights")]
    scaling: tuple[Scaling, ...]
    optimizer: Annotated[OptimizerName, Meaning("adam, or sgd: plain stochastic gradient descent")] = "adam"
    initial: Annotated[
        Initial, Meaning("initial W_Q and W_K: unit (entries of q and k have variance 1) or small (N(0, 0.02^2))")
    ] = "unit"
    steps: Annotated[int, Ge(LAST_BATCHES), Le(2**20), Meaning("steps of the optimizer")] = 400
    n_sequences: Annotated[_Size, Ge(2), Meaning("sequences of a batch, each with one query")] = 64

    @property
    def recorded_steps(self) -> list[int]:
        """The steps before which a run records, from 0 to the last one; closer together at the start.

        >>> Cell("recall", 8, 16, 0.01, (), steps=100).recorded_steps[:8]
        [0, 1, 2, 4, 6, 9, 12, 16]
        """
        return sorted({round(self.steps * (i / _RECORDS) ** 2) for i in range(_RECORDS + 1)})


@dataclass(frozen=True)
class Histories:
    """Mean and spread over runs of everything that they record.

    Attributes:
        trials: number of runs of each rule.
        mean: (rules, recorded steps, names of RECORDED).
        squares: sum of the squared deviations from the mean, of the same shape.
    """

    trials: int
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, recorded: Floats) -> Self:
        """From the values of runs, (trials, rules, recorded steps, names)."""
        mean = recorded.mean(axis=0)
        return cls(len(recorded), mean, np.square(recorded - mean).sum(axis=0))

    def merge(self, following: Self) -> Self:
        """Both sets of runs together, as in `Moments.merge`."""
        trials, shift = self.trials + following.trials, following.mean - self.mean
        share = following.trials / trials
        squares = self.squares + following.squares + np.square(shift) * (self.trials * share)
        return type(self)(trials, self.mean + shift * share, squares)

    @property
    def errors(self) -> Floats:
        """Standard errors of the means, from two runs on."""
        return np.sqrt(self.squares / (self.trials * (self.trials - 1)))


@dataclass(frozen=True)
class Runs:
    """The runs of some trials.

    Attributes:
        moments: of the metrics that are means, by rule and metric.
        medians: of the other metrics, by rule and metric.
        histories: of the recorded values.
    """

    moments: Moments
    medians: Histograms
    histories: Histories

    def merge(self, following: Self) -> Self:
        """Both sets of runs together."""
        return type(self)(
            self.moments.merge(following.moments),
            self.medians.merge(following.medians),
            self.histories.merge(following.histories),
        )


_MEANS = [metric for metric in TRAINING_METRICS if metric.kind != "quantile"]
_MEDIANS = [metric for metric in TRAINING_METRICS if metric.kind == "quantile"]


def measure(cell: Cell, trials: int, rng: np.random.Generator) -> Runs:
    """Train that many runs of each rule; initial weights and batches are drawn for one run after the other."""
    ends, recorded = zip(*(_train(cell, rng) for _ in range(trials)), strict=True)
    means, medians = (
        np.array([[metric.of(end) for end in ends] for metric in metrics]).transpose(2, 0, 1)  # rules, metrics, trials
        for metrics in (_MEANS, _MEDIANS)
    )
    return Runs(
        Moments.of(means.reshape(-1, trials)),
        Histograms.of(medians.reshape(-1, trials, 1)),
        Histories.of(np.stack(recorded)),
    )


def _train(cell: Cell, rng: np.random.Generator) -> tuple[Ends, Floats]:
    """One run of each rule: its end, and its recorded values, (rules, recorded steps, names); see `Ends`."""
    divisors, recorded_steps = cell.divisors(), set(cell.recorded_steps)
    losses, accuracies = (deque[Floats](maxlen=LAST_BATCHES) for _ in range(2))
    reached = np.full(len(divisors), math.inf)
    history: list[Floats] = []
    first_loss = loss = np.zeros(len(divisors))
    has_ended = np.zeros(len(divisors), dtype=bool)
    for run in train(
        rng,
        cell.task,
        cell.d_k,
        cell.n_keys,
        divisors,
        optimizer=cell.optimizer,
        learning_rate=cell.learning_rate,
        steps=cell.steps,
        n_sequences=cell.n_sequences,
        initial=cell.initial,
    ):
        has_ended = run.has_ended
        loss = np.where(has_ended, loss, run.at.losses.mean(axis=-1))
        losses.append(loss)
        accuracies.append(accuracy(run.at.logits, run.batch.targets))
        if run.step == 0:
            first_loss = loss
        if len(losses) == LAST_BATCHES:
            now = np.isinf(reached) & (np.mean(accuracies, axis=0) >= SOLVED_ACCURACY)
            reached = np.where(now, float(run.step), reached)
        if run.step in recorded_steps:
            values = np.stack([each.of(run, np.asarray(divisors)) for each in RECORDED], axis=-1)
            history.append(np.where(has_ended[:, None], history[-1], values) if history else values)
    start, end = (dict(zip(RECORDED_NAMES, values.T, strict=True)) for values in (history[0], history[-1]))
    ends = Ends(start, end, first_loss, np.mean(losses, axis=0), np.mean(accuracies, axis=0), reached, has_ended)
    return ends, np.stack(history, axis=1)


def tabulate(cell: Cell, runs: Runs) -> dict[str, list[Row]]:
    """One row per rule with each metric of two or more runs; and the mean of every recorded value, by rule and step."""
    trials, means = runs.moments.trials, runs.moments.mean
    errors = np.sqrt(np.diag(runs.moments.covariance) / trials)
    rows, history = [], []
    for i, treatment in enumerate(cell.treatments()):
        found: dict[str, tuple[float, float] | Quantile] = {}
        for j, metric in enumerate(_MEANS, i * len(_MEANS)):
            found[metric.name] = float(means[j]), float(errors[j])
        for j, metric in enumerate(_MEDIANS, i * len(_MEDIANS)):
            found[metric.name] = _finite(runs.medians.quantile(j, metric.share))
        rows.append({**treatment, "trials": trials, **fields(TRAINING_METRICS, cell, trials, found)})
        for step, values, deviations in zip(
            cell.recorded_steps, runs.histories.mean[i], runs.histories.errors[i], strict=True
        ):
            pairs = zip(RECORDED_NAMES, values.tolist(), deviations.tolist(), strict=True)
            of_step = {
                name: number for one, mean, error in pairs for name, number in ((one, mean), (f"{one}_se", error))
            }
            history.append({"scaling": treatment["scaling"], "trials": trials, "step": step, **of_step})
    return {MEASURED: rows, HISTORY: history}


def _finite(quantile: Quantile) -> Quantile:
    """A quantile with NaN in the place of an infinite value or end: so many runs never get there."""
    value, low, high = (x if math.isfinite(x) else math.nan for x in (quantile.value, quantile.low, quantile.high))
    return Quantile(value, low, high, quantile.inside)


HISTORY_COLUMNS = (
    Column("scaling", "str", "scaling rule"),
    Column("trials", "int", "runs of the rule, each from its own initial weights"),
    Column("step", "int", "steps taken before"),
    *(
        column
        for each in RECORDED
        for column in (
            Column(each.name, "float", f"{each.meaning}; mean over runs", each.formula, each.unit),
            Column(f"{each.name}_se", "float", f"standard error of {each.name} between runs", "", each.unit),
        )
    ),
)


def _seconds_per_trial(cell: Cell) -> float:
    """Rough time of one run of each rule, in seconds."""
    tokens = cell.n_sequences * cell.n_keys * D_MODEL
    weights = 2 * D_MODEL * cell.d_k
    of_rule = _PER_STEP + _PER_WEIGHT * weights * (1 + cell.n_sequences / 40) + _PER_TOKEN * tokens
    return 1e-9 * (cell.steps + 1) * (_PER_NUMBER * tokens + len(cell.scaling) * of_rule)


def _memory(cell: Cell) -> int:
    """Upper limit of the bytes of a run: weights, gradients and two sums of all rules, a batch and its products."""
    weights = len(cell.scaling) * (2 * D_MODEL * cell.d_k + 2000)
    batch = cell.n_sequences * cell.n_keys * (3 * D_MODEL + 8 * len(cell.scaling))
    of_rows = 4 * len(cell.scaling) * cell.n_sequences * (cell.d_k + D_MODEL)
    return 8 * (6 * weights + batch + of_rows)


EXPERIMENT = Experiment(
    name="training",
    cell=Cell,
    columns=(
        *TREATMENT,
        Column("trials", "int", "runs of the rule, each from its own initial weights"),
        *metric_columns(TRAINING_METRICS),
    ),
    metrics=TRAINING_METRICS,
    beside={HISTORY: tuple(names(HISTORY_COLUMNS))},
    chunk_trials=lambda _: 1,
    measure=measure,
    tabulate=tabulate,
    seconds_per_trial=_seconds_per_trial,
    memory=_memory,
    table_rows=lambda cell, _: len(cell.scaling),
    min_trials=2,
    named=(Scaling, InputLaw),  # no law is drawn, but the library loads them
    stamp=Cell.stamp,
    divisors=Cell.divisors_by_rule,
)
