"""The metrics of training: what a run records at some of its steps, and the columns for the starts and ends of runs.

With s the scaled scores of a row of n keys and w their softmax, on the batch of a step:

    variance_ratio              mean over rows of (1/(n-1)) sum_j (s_j - mean)^2, over d_k Var[q_a] Var[k_a] / divisor^2
    unrelated_variance_ratio    the same for the scores of each query with the tokens of the next sequence of the batch

The denominator is the variance of scaled scores for independent q and k with independent entries of mean 0, as in the
textbook argument for sqrt(d_k). Var[q_a] is the unbiased variance over the queries of the batch, and Var[k_a] that over
all of its tokens. So the ratio is about 1 at random weights, and training may change it. A query has no key of its own
among the tokens of another sequence: if W_Q and W_K come to use the same few directions, both ratios rise; if a query
aligns with the key of the token that it asks for, only the first one does.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from experiments.harness.metric import Metric
from sdpa.metrics import entropy, max_weight
from sdpa.training import Run, accuracy

Floats = npt.NDArray[np.floating]

LAST_BATCHES = 10  # over which the loss and the accuracy of a run are averaged
SOLVED_ACCURACY = 0.9
DIVERGED = 1.25  # times the first loss, which varies by a twentieth between batches of 64 sequences


def _variance_ratio(run: Run, divisors: Floats) -> Floats:
    """The variance of scaled scores within a row over that of independent entries, as in the module."""
    return _over_independent(run.at.scores, run, divisors)


def _unrelated_variance_ratio(run: Run, divisors: Floats) -> Floats:
    """The same for each query and the tokens of the next sequence."""
    u = run.at.q @ run.weights.W_K.swapaxes(-1, -2)
    scores = (np.roll(run.batch.tokens, -1, axis=0) @ u[..., None])[..., 0]
    return _over_independent(scores / divisors[:, None, None], run, divisors)


def _over_independent(scores: Floats, run: Run, divisors: Floats) -> Floats:
    """Mean variance within rows of scaled scores, over that for independent entries of the q and k of a run.

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
    ratio = np.divide(found, predicted, out=np.zeros_like(found), where=predicted > 0)  # 0 in a run that has ended
    return np.asarray(ratio)


def _recorded(
    name: str, meaning: str, formula: str, title: str, of: Callable[[Run, Floats], Floats], unit: str = ""
) -> Metric:
    """A number of each rule that a run records at a step, from its state and the divisors to an array (rules,)."""
    return Metric(name, meaning, formula, title, per="run", of=of, unit=unit)


RECORDED = (
    _recorded(
        "loss",
        "cross-entropy of a batch",
        "mean of -sum_c y_c ln p_c",
        "loss (nats)",
        lambda run, _: run.at.losses.mean(axis=-1),
        unit="nats",
    ),
    _recorded(
        "accuracy",
        "share of the sequences of a batch whose largest logits are the classes of the target",
        "",
        "accuracy",
        lambda run, _: accuracy(run.at.logits, run.batch.targets),
    ),
    _recorded(
        "max_weight",
        "largest weight of a row, mean over a batch",
        "E max_j w_j",
        "largest weight",
        lambda run, _: max_weight(run.at.weights).mean(axis=-1),
    ),
    _recorded(
        "asked_weight",
        "weight of the tokens that a query asks for, together; mean over a batch",
        "E sum_asked w_j",
        "weight of the tokens asked for",
        lambda run, _: run.at.weights[..., : run.batch.n_asked].sum(axis=-1).mean(axis=-1),
    ),
    _recorded(
        "entropy",
        "entropy of a row, mean over a batch",
        "E[-sum_j w_j ln w_j]",
        "entropy (nats)",
        lambda run, _: entropy(run.at.weights).mean(axis=-1),
        unit="nats",
    ),
    _recorded(
        "largest_score",
        "largest absolute scaled score of a batch",
        "max |s_j|",
        "largest |scaled score|",
        lambda run, _: np.abs(run.at.scores).max(axis=(-2, -1)),
    ),
    _recorded(
        "variance_ratio",
        "variance of the scaled scores within a row, over its value for independent entries of q and k of the same "
        "variances",
        "E (1/(n-1)) sum_j (s_j - mean)^2 / (d_k Var[q_a] Var[k_a] / divisor^2)",
        "variance within rows over that of independent entries",
        _variance_ratio,
    ),
    _recorded(
        "unrelated_variance_ratio",
        "variance_ratio of each query with the tokens of the next sequence of the batch",
        "",
        "the same, with the keys of another sequence",
        _unrelated_variance_ratio,
    ),
    _recorded(
        "score_gradient",
        "norm of the gradient of a sequence's loss to its scores q.k, root mean square over a batch",
        "sqrt(E |dL/ds|^2)",
        r"$|\partial L/\partial s|$",
        lambda run, _: np.sqrt(np.square(run.at.score_gradients).sum(axis=-1).mean(axis=-1)),
    ),
    _recorded(
        "query_weights_gradient",
        "Frobenius norm of the gradient of a batch's loss to W_Q",
        "|dL/dW_Q|_F",
        r"$|\partial L/\partial W_Q|$",
        lambda run, _: np.sqrt(np.square(run.at.gradients.W_Q).sum(axis=(-2, -1))),
    ),
)


@dataclass(frozen=True)
class Ends:
    """The start and the end of one run of each rule, as arrays (rules,).

    Attributes:
        start, end: the recorded values by name, at the first and at the last recorded step.
        first_loss: of the first batch.
        loss, accuracy: means over the last 10 batches.
        reached: steps until the accuracy over the last 10 batches first reaches 90%; infinite if it never does.
        has_ended: True if a weight left the range of numbers; the loss is then that of the last batches before.
    """

    start: Mapping[str, Floats]
    end: Mapping[str, Floats]
    first_loss: Floats
    loss: Floats
    accuracy: Floats
    reached: Floats
    has_ended: npt.NDArray[np.bool_]


def _at_end(name: str, end: Literal["start", "end"], kind: Literal["mean", "quantile"]) -> Metric:
    """A recorded value at one end of training: NAME_before or NAME_after, its mean or its median over runs."""
    recorded = next(each for each in RECORDED if each.name == name)
    when = "before" if end == "start" else "after"
    return Metric(
        f"{name}_{when}",
        f"{recorded.meaning}; {when} training, {'mean' if kind == 'mean' else 'median'} over runs",
        recorded.formula,
        f"{recorded.title}, {when} training",
        kind,
        recorded.unit,
        "run",
        of=lambda ends: getattr(ends, end)[name],
        share=math.nan if kind == "mean" else 0.5,
        within=(0, math.inf),
        is_logarithmic=kind == "quantile",
    )


_MEAN: Any = {"kind": "mean", "per": "run", "within": (0, 1)}
_SHARE: Any = {"kind": "share", "per": "run", "within": (0, 1)}
_MEDIAN: Any = {"kind": "quantile", "per": "run", "share": 0.5, "within": (0, math.inf), "is_logarithmic": True}
TRAINING_METRICS = (
    Metric(
        "solved",
        "share of runs that solve the task: an accuracy of at least 90% over their last 10 batches",
        "",
        "runs that solve the task",
        of=lambda ends: (ends.accuracy >= SOLVED_ACCURACY).astype(float),
        **_SHARE,
    ),
    Metric(
        "diverged",
        "share of runs that diverge: the loss over their last 10 batches exceeds that of their first batch by a "
        "quarter, or a weight exceeds 1e25",
        "",
        "runs that diverge",
        of=lambda ends: (ends.has_ended | (ends.loss > DIVERGED * ends.first_loss)).astype(float),
        **_SHARE,
    ),
    Metric(
        "steps_to_solve",
        "steps until the accuracy over 10 batches first reaches 90%, median over runs; empty unless more than half of "
        "them solve",
        "",
        "steps to an accuracy of 90%",
        of=lambda ends: np.where(ends.accuracy >= SOLVED_ACCURACY, ends.reached, math.inf),
        may_be_empty=True,
        **_MEDIAN,
    ),
    Metric(
        "final_loss",
        "cross-entropy over the last 10 batches, median over runs",
        "mean of -sum_c y_c ln p_c",
        "loss after training (nats)",
        unit="nats",
        of=lambda ends: ends.loss,
        **_MEDIAN,
    ),
    Metric(
        "final_accuracy",
        "accuracy over the last 10 batches, mean over runs",
        "",
        "accuracy after training",
        of=lambda ends: ends.accuracy,
        **_MEAN,
    ),
    _at_end("max_weight", "start", "mean"),
    _at_end("max_weight", "end", "mean"),
    _at_end("asked_weight", "start", "mean"),
    _at_end("asked_weight", "end", "mean"),
    _at_end("entropy", "start", "mean"),
    _at_end("entropy", "end", "mean"),
    _at_end("largest_score", "start", "quantile"),
    _at_end("largest_score", "end", "quantile"),
    _at_end("variance_ratio", "start", "mean"),
    _at_end("variance_ratio", "end", "quantile"),
    _at_end("unrelated_variance_ratio", "start", "mean"),
    _at_end("unrelated_variance_ratio", "end", "quantile"),
)
