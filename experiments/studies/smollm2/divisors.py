"""A language model under other divisors of the scores than its own, and at other lengths.

All weights stay, and all heads of a run have the same divisor. A number is the mean over sequences,
and NAME_se its standard error from the differences between them. Gradients are those of the summed
loss of a sequence; as they differ by powers of ten between sequences, their mean is geometric.
Below the model's own divisor they are computed in double precision: without a scale, single
precision is off by half in a sequence.
"""

import itertools
import math

import numpy as np
import pandas as pd
from scipy.special import xlogy

from experiments.studies.smollm2.model import DIVISOR, Pretrained, Tokens
from sdpa._arrays import FloatArray
from sdpa.metrics import row_variance
from sdpa.network import Steps

LENGTH = 256
TEXTS = ("prose", "code", "reference", "licence", "shuffled")
# Divisors d_k^p with p from 0 to 1.
RUNS = {
    "trained": (1, 2, 4, 8, 16, 32, 64),
    "initial": (1, 8),
}
AROUND = (6, 7, 8, 9, 10)  # the smallest loss
_CANDIDATES = np.geomspace(AROUND[0], AROUND[-1], 2001)
LONG_TEXT = "reference"
LONG_SEQUENCES = 4
LENGTHS = (16, 64, 256, 1024, 2048)
LAST_ROWS = 8
FITTED = 256  # length at which every rule of length has the divisor of the model
NO_RULE = "1 (no rule)"
OTHER_RULES = {"(ln n)^1/2": 0.5, "ln n": 1.0}  # powers of ln n
GRADIENTS = ("query_gradient", "query_gradient_median", "stream_gradient")
# How the values of several heads become one. The first layer's stream is the embedding.
OVER_HEADS = {
    "loss": "first",
    "change": "first",
    "query_gradient": "mean",  # of squares
    "query_gradient_median": "median",
    "stream_gradient": "first",
    "spread": "mean",
    "entropy_share": "mean",
    "first_key_weight": "mean",
}


def by_divisor(model: Pretrained) -> list[pd.DataFrame]:
    """Prose under each divisor: a table of runs, one of layers and one of heads."""
    tables = []
    sequences = model.tokens("prose", LENGTH + 1)
    for weights, divisors in RUNS.items():
        own = model if weights == "trained" else model.at_start()
        for divisor in divisors:
            network = own.in_double() if divisor < DIVISOR else own
            for group, tokens in enumerate(sequences):
                heads = heads_of_sequence(network, tokens, divisor)
                tables.append(heads.assign(weights=weights, divisor=divisor, group=group))
    heads = pd.concat(tables, ignore_index=True).sort_values("layer", kind="stable")
    heads["change"] = change_of_loss(heads, "weights")
    by = ["weights", "divisor", "layer", "head"]
    return [means_over_sequences(heads, by[:n]) for n in (2, 3, 4)]


def heads_of_sequence(
    model: Pretrained,
    tokens: Tokens,
    divisor: float,
) -> pd.DataFrame:
    """A row for each layer and head."""
    losses, steps, gradients = model.gradients(tokens, divisor)
    tables = []
    for layer, (step, gradient) in enumerate(zip(steps, gradients, strict=True)):
        to_q = np.linalg.norm(gradient.q, axis=-1)
        to_x_squared = (gradient.x**2).sum(axis=1)
        table = row_means(step)
        table["layer"] = layer
        table["head"] = table.index
        table["query_gradient"] = np.sqrt((to_q**2).mean(axis=1))
        table["query_gradient_median"] = np.median(to_q, axis=1)
        table["stream_gradient"] = np.sqrt(to_x_squared.mean())
        tables.append(table)
    return pd.concat(tables).assign(loss=float(losses.mean()))


def row_means(
    steps: Steps,
    first: int = 2,
    last: int | None = None,
) -> pd.DataFrame:
    """Means over the rows that see `first` to `last` keys; a row of the table for each head."""
    rows = slice(first - 1, last)
    w = steps.weights[:, rows]
    n_visible = np.arange(first, first + w.shape[1])
    entropies = -xlogy(w, w).sum(axis=-1)
    variances = row_variance(steps.scaled[:, rows])
    shares = entropies / np.log(n_visible)
    means = {
        "spread": np.sqrt(variances.mean(axis=1)),
        "entropy_share": shares.mean(axis=1),
        "first_key_weight": w[..., 0].mean(axis=1),
    }
    return pd.DataFrame(means)


def means_over_sequences(heads: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over sequences, of the heads that `by` does not tell apart together."""
    squares = heads.assign(query_gradient=heads["query_gradient"] ** 2)
    by_sequence = squares.groupby([*by, "group"], sort=False).agg(OVER_HEADS)
    by_sequence["query_gradient"] **= 0.5
    return with_errors(by_sequence.reset_index(), by, *GRADIENTS)


def with_errors(
    table: pd.DataFrame,
    by: list[str],
    *geometric: str,
) -> pd.DataFrame:
    """The mean of each column over groups, followed by its standard error between them, NAME_se.

    Args:
        table: a row for each group, which its column `group` names, of all that `by` tells apart.
        by: columns that stay.
        geometric: columns whose mean is geometric; the error is that of the logarithm, times the
            mean.
    """
    values = table.set_index([*by, "group"])
    logarithmic = list(geometric)
    values[logarithmic] = np.log(values[logarithmic])
    groups = values.groupby(by, sort=False)
    means, errors = groups.mean(), groups.sem()
    means[logarithmic] = np.exp(means[logarithmic])
    errors[logarithmic] *= means[logarithmic]
    both = means.join(errors.add_suffix("_se"))
    order = []
    for name in means:
        order += [name, f"{name}_se"]
    return both[order].reset_index()


def change_of_loss(runs: pd.DataFrame, run: str) -> "pd.Series[float]":
    """The loss of a sequence less that under the model's own divisor, in each of the runs."""
    own = runs["loss"].where(runs["divisor"] == DIVISOR)
    groups = own.groupby([runs[run], runs["group"]])
    return runs["loss"] - groups.transform("first")


def by_text(model: Pretrained) -> list[pd.DataFrame]:
    """The loss of each text under some divisors, and the divisor of its smallest loss."""
    rows = []
    for text, divisor in itertools.product(TEXTS, AROUND):
        for group, tokens in enumerate(model.tokens(text, LENGTH + 1)):
            losses = model.losses(tokens, divisor)
            rows.append((text, divisor, group, float(losses.mean())))
    table = pd.DataFrame(rows, columns=["text", "divisor", "group", "loss"])
    table["change"] = change_of_loss(table, "text")
    texts = table.groupby("text", sort=False)
    smallest = [(text, *smallest_loss(own)) for text, own in texts]
    return [
        with_errors(table, ["text", "divisor"]),
        pd.DataFrame(smallest, columns=["text", "divisor", "divisor_se"]),
    ]


def smallest_loss(table: pd.DataFrame) -> tuple[float, float]:
    """The divisor of the smallest mean loss, and its standard error of the jackknife over sequences.

    It is that of a cubic in ln c, fitted to the losses around it; NaN at an end of their range.
    """
    by_group = table.pivot_table(index="group", columns="divisor", values="loss")

    def place(losses: pd.DataFrame) -> float:
        cubic = np.polyfit(np.log(AROUND), losses.mean(), 3)
        least = np.polyval(cubic, np.log(_CANDIDATES)).argmin()
        is_within = 0 < least < len(_CANDIDATES) - 1
        return float(_CANDIDATES[least]) if is_within else np.nan

    without_one = [place(by_group.drop(group)) for group in by_group.index]
    variance = (len(by_group) - 1) * np.var(without_one)
    return place(by_group), float(np.sqrt(variance))


def by_length(model: Pretrained) -> list[pd.DataFrame]:
    """Rows and losses of the first n tokens, and losses by position under rules of length."""
    lengths = []
    positions = []
    sequences = model.tokens(LONG_TEXT, LENGTHS[-1] + 1, LONG_SEQUENCES)
    for group, tokens in enumerate(sequences):
        own, means = _length_means(model, tokens)
        lengths.append(means.assign(group=group))
        losses = {NO_RULE: own}
        for name, power in OTHER_RULES.items():
            losses[name] = model.losses(tokens, _divisors(power, len(own)))
        for name, rule_losses in losses.items():
            for first, last in itertools.pairwise((0, *LENGTHS)):
                within = slice(first, last)
                loss = float(rule_losses[within].mean())
                change = float((rule_losses - own)[within].mean())
                positions.append((name, first, last, group, loss, change))
    columns = ["rule", "first", "last", "group", "loss", "change"]
    by_position = pd.DataFrame(positions, columns=columns)
    by_length = with_errors(pd.concat(lengths), ["n_keys"])
    return [by_length, with_errors(by_position, columns[:3])]


def _length_means(model: Pretrained, tokens: Tokens) -> tuple[FloatArray, pd.DataFrame]:
    """The losses, and for each length n the mean loss of the first n tokens, and means over all
    heads of the last rows among them.

    As no token sees a later one, the first tokens of a long sequence are those of a short one.
    """
    tables: list[pd.DataFrame] = []

    def see_layer(steps: Steps) -> None:
        for n in LENGTHS:
            table = row_means(steps, n + 1 - LAST_ROWS, n)
            tables.append(table.assign(n_keys=n))

    losses = model.losses(tokens, see_layer=see_layer)
    means = pd.concat(tables).groupby("n_keys").mean()
    means.insert(0, "loss", [float(losses[:n].mean()) for n in LENGTHS])
    return losses, means.reset_index()


def _divisors(power: float, n: int) -> FloatArray:
    """The divisor of each query, (n, 1): that of the model up to the fitted length, and beyond it
    less, by a power of ln n.
    """
    lengths = [max(FITTED, n_visible) for n_visible in range(1, n + 1)]
    sigma = np.array([[math.log(length) ** power] for length in lengths])
    return np.asarray(DIVISOR * sigma[0] / sigma)
