"""Training of one attention layer: which learning rates solve a task under each scaling rule, and
what rows become.

A trial is one run per rule: the rules share the initial weights and the batches of their trial
(`sdpa.training`). At some steps a run records its loss, accuracy, rows and gradients; the table
`history` holds their means over runs. The main table describes the starts and ends of runs. A run
whose weights leave the range of numbers counts as diverged.

With s the scaled scores of a row of n keys, on the batch of a step:

    variance_ratio              mean over rows of (1/(n-1)) sum_j (s_j - mean)^2, over d_k Var[q_a] Var[k_a] / divisor^2
    unrelated_variance_ratio    the same for the scores of each query with the tokens of the next sequence of the batch

The denominator is the variance of scaled scores for independent q and k with independent entries of
mean 0, as in the textbook argument for sqrt(d_k). Var[q_a] is the unbiased variance over the
queries of the batch, and Var[k_a] that over all of its tokens. So the ratio is about 1 at random
weights. If W_Q and W_K come to use the same few directions, both ratios rise; if a query aligns
with the key of the token that it asks for, only the first one does.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge, Gt, Le

from experiments.measuring.columns import Column, Meaning, names
from experiments.measuring.experiment import MEASURED, Experiment, Row
from experiments.measuring.metric import Metric, metric_columns, metric_row
from experiments.measuring.quantiles import Histograms, Quantile
from experiments.measuring.rules import TREATMENT, Floats, ScaledCell
from sdpa import Scaling
from sdpa.metrics import entropy, max_weight
from sdpa.training import D_MODEL, Initial, OptimizerName, Run, Task, accuracy, train

HISTORY = "history"
LAST_BATCHES = 10  # over which the loss and the accuracy of a run are averaged
SOLVED_ACCURACY = 0.9
DIVERGED = 1.25  # times the first loss, which varies by a twentieth between batches of 64 sequences
_RECORDS = 20  # of a run, after its start
_NEVER = 1e300  # steps of a run that never solves its task; records hold finite numbers alone
_UNSCALED, _SMALLEST_DIVISOR = Scaling.parse("unscaled"), 1e-6
_Size = Annotated[int, Ge(1), Le(2**20)]


@dataclass(frozen=True)
class Cell(ScaledCell):
    """One point of the grid: a task, a layer and an optimizer (`sdpa.training.train`)."""

    task: Annotated[
        Task, Meaning("what the layer learns: the class of one token (recall), or of two (pair)")
    ]
    d_k: Annotated[_Size, Meaning("width of queries and keys")]
    n_keys: Annotated[_Size, Ge(2), Meaning("tokens of a sequence, the length of a softmax row")]
    learning_rate: Annotated[
        float, Gt(0), Le(1e6), Meaning("learning rate of all weights, before rate_divisor")
    ]
    scaling: tuple[Scaling, ...]
    optimizer: Annotated[
        OptimizerName, Meaning("adam, or sgd: plain stochastic gradient descent")
    ] = "adam"
    initial: Annotated[
        Initial,
        Meaning(
            "initial W_Q and W_K: unit (entries of q and k have variance 1) or small (N(0, 0.02^2))"
        ),
    ] = "unit"
    steps: Annotated[int, Ge(LAST_BATCHES), Le(2**20), Meaning("steps of the optimizer")] = 400
    n_sequences: Annotated[_Size, Ge(2), Meaning("sequences of a batch, each with one query")] = 64
    initial_divisor: Annotated[
        Scaling, Meaning("rule whose divisor divides the initial W_Q and W_K")
    ] = _UNSCALED
    rate_divisor: Annotated[
        Scaling,
        Meaning(
            "rule whose divisor divides the learning rate of W_Q and W_K; those of W_V and W_O stay"
        ),
    ] = _UNSCALED

    def of_weights(self) -> list[float]:
        """The divisors of the initial W_Q and W_K, and of their learning rate."""
        return [
            rule.divisor(self.d_k, self.n_keys)
            for rule in (self.initial_divisor, self.rate_divisor)
        ]

    def stamp(self) -> dict[str, Any]:
        """As `ScaledCell.stamp`, with the divisors of weights and rates."""
        return {"of_weights": self.of_weights(), **super().stamp()}

    def problem(self) -> str | None:
        """As `ScaledCell.problem`: larger initial weights could overflow before the first step."""
        for name, divisor in zip(
            ("initial_divisor", "rate_divisor"), self.of_weights(), strict=True
        ):
            if divisor < _SMALLEST_DIVISOR:
                return (
                    f"{name}: expected a divisor of at least {_SMALLEST_DIVISOR}, got {divisor:g}"
                )
        return None

    @property
    def chunk_trials(self) -> int:
        """As `Cell.chunk_trials`: a run."""
        return 1

    @property
    def seconds_per_trial(self) -> float:
        """As `Cell.seconds_per_trial`: of a run under all rules."""
        return 1e-6 * self.steps * (100 + len(self.scaling) * (150 + 1.5e-3 * self._numbers))

    @property
    def memory(self) -> int:
        """As `Cell.memory`."""
        return 8 * len(self.scaling) * self._numbers

    @property
    def _numbers(self) -> int:
        """Upper limit of the numbers of a rule in memory: weights with gradients and sums, a batch
        and its products.
        """
        batch = self.n_sequences * (self.n_keys * (3 * D_MODEL + 8) + 4 * (self.d_k + D_MODEL))
        return 12 * D_MODEL * self.d_k + batch + 2**14

    @property
    def recorded_steps(self) -> list[int]:
        """The steps before which a run records, from 0 to the last one; closer together at the
        start.

        >>> Cell("recall", 8, 16, 0.01, (), steps=100).recorded_steps[:8]
        [0, 1, 2, 4, 6, 9, 12, 16]
        """
        return sorted({round(self.steps * (i / _RECORDS) ** 2) for i in range(_RECORDS + 1)})


def _unrelated_variance_ratio(run: Run, divisors: Floats) -> Floats:
    """The variance ratio of each query and the tokens of the next sequence."""
    u = run.at.q @ run.weights.W_K.swapaxes(-1, -2)
    scores = (np.roll(run.batch.tokens, -1, axis=0) @ u[..., None])[..., 0]
    return _variance_ratio(scores / divisors[:, None, None], run, divisors)


def _variance_ratio(scores: Floats, run: Run, divisors: Floats) -> Floats:
    """Mean variance within rows of scaled scores, over that for independent entries of the q and k
    of a run.

    The keys k_j = x_j W_K have the second moment E k_a^2 = tr(W_K^T E[x x^T] W_K) / d_k.
    """
    tokens = run.batch.tokens.reshape(-1, run.batch.tokens.shape[-1])
    weights, d_k = run.weights.W_K, run.weights.W_K.shape[-1]
    second = tokens.T @ tokens / len(tokens)
    squares = (weights * (second @ weights)).sum(axis=(-2, -1)) / d_k
    means = tokens.mean(axis=0) @ weights
    key_variance = (squares - (means * means).mean(axis=-1)) * len(tokens) / (len(tokens) - 1)
    query_variance = run.at.q.var(axis=-2, ddof=1).mean(axis=-1)
    predicted = d_k * query_variance * key_variance / divisors**2
    found = scores.var(axis=-1, ddof=1).mean(axis=-1)
    ratio = np.divide(
        found, predicted, out=np.zeros_like(found), where=predicted > 0
    )  # 0 in a run that has ended
    return np.asarray(ratio)


# The numbers that a run records at a step: of its state and the divisors, an array (rules,).
RECORDED = (
    Metric(
        "loss",
        "cross-entropy of a batch",
        "mean of -sum_c y_c ln p_c",
        "loss (nats)",
        compute=lambda run, _: run.at.losses.mean(axis=-1),
        unit="nats",
    ),
    Metric(
        "accuracy",
        "share of the sequences of a batch whose largest logits are the classes of the target",
        "",
        "accuracy",
        compute=lambda run, _: accuracy(run.at.logits, run.batch.targets),
    ),
    Metric(
        "max_weight",
        "largest weight of a row, mean over a batch",
        "E max_j w_j",
        "largest weight",
        compute=lambda run, _: max_weight(run.at.weights).mean(axis=-1),
    ),
    Metric(
        "asked_weight",
        "weight of the tokens that a query asks for, together; mean over a batch",
        "E sum_asked w_j",
        "weight of the tokens asked for",
        compute=lambda run, _: run.at.weights[..., : run.batch.n_asked].sum(axis=-1).mean(axis=-1),
    ),
    Metric(
        "entropy",
        "entropy of a row, mean over a batch",
        "E[-sum_j w_j ln w_j]",
        "entropy (nats)",
        compute=lambda run, _: entropy(run.at.weights).mean(axis=-1),
        unit="nats",
    ),
    Metric(
        "largest_score",
        "largest absolute scaled score of a batch",
        "max |s_j|",
        "largest |scaled score|",
        compute=lambda run, _: np.abs(run.at.scores).max(axis=(-2, -1)),
    ),
    Metric(
        "variance_ratio",
        "variance of the scaled scores within a row, over its value for independent entries of q "
        "and k of the same "
        "variances",
        "E (1/(n-1)) sum_j (s_j - mean)^2 / (d_k Var[q_a] Var[k_a] / divisor^2)",
        "variance within rows over that of independent entries",
        compute=lambda run, divisors: _variance_ratio(run.at.scores, run, divisors),
    ),
    Metric(
        "unrelated_variance_ratio",
        "variance_ratio of each query with the tokens of the next sequence of the batch",
        "",
        "the same, with the keys of another sequence",
        compute=_unrelated_variance_ratio,
    ),
    Metric(
        "score_gradient",
        (
            "norm of the gradient of a sequence's loss to its scores q.k, root mean square over a "
            "batch"
        ),
        "sqrt(E |dL/ds|^2)",
        r"$|\partial L/\partial s|$",
        compute=lambda run, _: np.sqrt(
            np.square(run.at.score_gradients).sum(axis=-1).mean(axis=-1)
        ),
    ),
    Metric(
        "query_weights_gradient",
        "Frobenius norm of the gradient of a batch's loss to W_Q",
        "|dL/dW_Q|_F",
        r"$|\partial L/\partial W_Q|$",
        compute=lambda run, _: np.sqrt(np.square(run.at.gradients.W_Q).sum(axis=(-2, -1))),
    ),
)
RECORDED_NAMES = [each.name for each in RECORDED]


def _at_end(name: str, when: str, reduction: str) -> Metric:
    """A recorded value before or after training: NAME_before or NAME_after, its mean or its median
    over runs.
    """
    recorded, is_median = RECORDED[RECORDED_NAMES.index(name)], reduction == "median"
    return Metric(
        f"{name}_{when}",
        f"{recorded.meaning}; {when} training, {reduction} over runs",
        recorded.formula,
        f"{recorded.title}, {when} training",
        unit=recorded.unit,
        **(_MEDIAN if is_median else {"within": (0, math.inf)}),
    )


_MEDIAN: Any = {"kind": "quantile", "share": 0.5, "within": (0, math.inf), "is_logarithmic": True}
TRAINING_METRICS = (
    Metric(
        "solved",
        "share of runs that solve the task: an accuracy of at least 90% over their last 10 batches",
        "",
        "runs that solve the task",
        kind="share",
        within=(0, 1),
    ),
    Metric(
        "diverged",
        "share of runs that diverge: the loss over their last 10 batches exceeds that of their "
        "first batch by a "
        "quarter, or a weight exceeds 1e25",
        "",
        "runs that diverge",
        kind="share",
        within=(0, 1),
    ),
    Metric(
        "steps_to_solve",
        "steps until the accuracy over 10 batches first reaches 90%, median over runs; empty "
        "unless more than half of "
        "them solve",
        "",
        "steps to an accuracy of 90%",
        may_be_empty=True,
        **_MEDIAN,
    ),
    Metric(
        "final_loss",
        "cross-entropy over the last 10 batches, median over runs",
        "mean of -sum_c y_c ln p_c",
        "loss after training (nats)",
        unit="nats",
        **_MEDIAN,
    ),
    Metric(
        "final_accuracy",
        "accuracy over the last 10 batches, mean over runs",
        "",
        "accuracy after training",
        within=(0, 1),
    ),
    *(
        _at_end(name, when, reduction)
        for name, *reductions in (
            ("max_weight", "mean", "mean"),
            ("asked_weight", "mean", "mean"),
            ("entropy", "mean", "mean"),
            ("largest_score", "median", "median"),
            ("variance_ratio", "mean", "median"),
            ("unrelated_variance_ratio", "mean", "median"),
        )
        for when, reduction in zip(("before", "after"), reductions, strict=True)
    ),
)


@dataclass(frozen=True)
class Runs:
    """The runs of some trials."""

    ends: Floats  # the value of each metric in each run, (trials, metrics, rules)
    history: Floats  # what each run records, (trials, rules, recorded steps, names of RECORDED)

    def merge(self, following: Self) -> Self:
        """The runs of both chunks, in order."""
        pairs = (self.ends, following.ends), (self.history, following.history)
        return type(self)(*map(np.concatenate, pairs))


def measure(cell: Cell, trials: int, rng: np.random.Generator) -> Runs:
    """Train that many runs of each rule; initial weights and batches are drawn for one run after
    the other.
    """
    return Runs(*map(np.stack, zip(*(_train(cell, rng) for _ in range(trials)), strict=True)))


def states(cell: Cell, rng: np.random.Generator) -> Iterator[Run]:
    """The states of one run of each rule, before each step and after the last one."""
    initial_divisor, rate_divisor = cell.of_weights()
    return train(
        rng,
        cell.task,
        cell.d_k,
        cell.n_keys,
        cell.divisors(),
        optimizer=cell.optimizer,
        learning_rate=cell.learning_rate,
        steps=cell.steps,
        n_sequences=cell.n_sequences,
        initial=cell.initial,
        initial_divisor=initial_divisor,
        rate_divisor=rate_divisor,
    )


def _train(cell: Cell, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """One run of each rule: its metrics, (metrics, rules), and its history, (rules, recorded steps,
    names).

    A run ends once a weight leaves the range of numbers; its loss is then that of the last batches
    before.
    """
    divisors, recorded_steps = np.array(cell.divisors()), set(cell.recorded_steps)
    losses, accuracies = (deque[Floats](maxlen=LAST_BATCHES) for _ in range(2))
    reached = np.full(len(divisors), _NEVER)
    history: list[Floats] = []
    first_loss = loss = np.zeros(len(divisors))
    has_ended = np.zeros(len(divisors), dtype=bool)
    for run in states(cell, rng):
        has_ended = run.has_ended
        loss = np.where(has_ended, loss, run.at.losses.mean(axis=-1))
        losses.append(loss)
        accuracies.append(accuracy(run.at.logits, run.batch.targets))
        if run.step == 0:
            first_loss = loss
        if len(losses) == LAST_BATCHES:
            now = (reached == _NEVER) & (np.mean(accuracies, axis=0) >= SOLVED_ACCURACY)
            reached = np.where(now, float(run.step), reached)
        if run.step in recorded_steps:
            values = np.stack([each.compute(run, divisors) for each in RECORDED], axis=-1)
            history.append(np.where(has_ended[:, None], history[-1], values) if history else values)
    final_loss, final_accuracy = np.mean(losses, axis=0), np.mean(accuracies, axis=0)
    solved = final_accuracy >= SOLVED_ACCURACY
    found = {
        "solved": 1.0 * solved,
        "diverged": 1.0 * (has_ended | (final_loss > DIVERGED * first_loss)),
        "steps_to_solve": np.where(solved, reached, _NEVER),
        "final_loss": final_loss,
        "final_accuracy": final_accuracy,
        **{
            f"{name}_before": values
            for name, values in zip(RECORDED_NAMES, history[0].T, strict=True)
        },
        **{
            f"{name}_after": values
            for name, values in zip(RECORDED_NAMES, history[-1].T, strict=True)
        },
    }
    return np.stack([found[metric.name] for metric in TRAINING_METRICS]), np.stack(history, axis=1)


def tabulate(cell: Cell, runs: Runs) -> dict[str, list[Row]]:
    """One row per rule with each metric of two or more runs; and the mean of every recorded value,
    by rule and step.
    """
    trials, rows, history = len(runs.ends), [], []
    for i, treatment in enumerate(cell.treatments()):
        found: dict[str, tuple[float, float] | Quantile] = {}
        for metric, values in zip(TRAINING_METRICS, runs.ends[..., i].T, strict=True):
            if metric.kind == "quantile":
                found[metric.name] = _quantile(values, metric.share)
            else:
                mean, error = _mean_and_error(values)
                found[metric.name] = float(mean), float(error)
        rows.append(
            {**treatment, "trials": trials, **metric_row(TRAINING_METRICS, cell, trials, found)}
        )
        of_steps = np.stack(_mean_and_error(runs.history[:, i]), axis=-1)
        for step, numbers in zip(
            cell.recorded_steps, of_steps.reshape(len(of_steps), -1).tolist(), strict=True
        ):
            of_step = treatment["scaling"], trials, step, *numbers
            history.append(dict(zip(names(HISTORY_COLUMNS), of_step, strict=True)))
    return {MEASURED: rows, HISTORY: history}


def _mean_and_error(values: Floats) -> tuple[Floats, Floats]:
    """Means over the first axis, of two values or more, and their errors; exact for equal values
    (Welford 1962).
    """
    mean, squares = values[0], np.zeros_like(values[0])
    for trials, value in enumerate(values[1:], 2):
        shift, share = value - mean, 1 / trials
        mean = mean + shift * share
        squares = squares + np.square(shift) * ((trials - 1) * share)
    return mean, np.sqrt(squares / (len(values) * (len(values) - 1)))


def _quantile(values: Floats, share: float) -> Quantile:
    """A quantile over runs, with NaN where its value or an end of its interval is that of runs that
    never get there.
    """
    reached = np.where(values == _NEVER, math.inf, values)
    found = Histograms.of(reached[None, :, None]).quantile(0, share)
    value, low, high = (
        x if math.isfinite(x) else math.nan for x in (found.value, found.low, found.high)
    )
    return Quantile(value, low, high, found.inside)


_RUNS = Column("trials", "int", "runs of the rule, each from its own initial weights")
HISTORY_COLUMNS = (
    TREATMENT[0],
    _RUNS,
    Column("step", "int", "steps taken before"),
    *(
        column
        for each in RECORDED
        for column in (
            Column(each.name, "float", f"{each.meaning}; mean over runs", each.formula, each.unit),
            Column(
                f"{each.name}_se",
                "float",
                f"standard error of {each.name} between runs",
                "",
                each.unit,
            ),
        )
    ),
)


EXPERIMENT = Experiment(
    name="training",
    cell=Cell,
    columns=(*TREATMENT, _RUNS, *metric_columns(TRAINING_METRICS)),
    metrics=TRAINING_METRICS,
    beside={HISTORY: tuple(names(HISTORY_COLUMNS))},
    measure=measure,
    tabulate=tabulate,
    min_trials=2,
)
