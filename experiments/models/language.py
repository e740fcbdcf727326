"""A language model under other divisors of the scores than its own, and at other lengths.

All weights stay, and all heads of a run have the same divisor. A number is the mean over sequences,
and NAME_se its standard error from the differences between them. Gradients are those of the summed
loss of a sequence; as they differ by powers of ten between sequences, their mean is geometric, and
the error that of the logarithm, times the mean. Below the model's own divisor they are computed in
double precision: without a scale, single precision is off by half in a sequence.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import xlogy

from experiments.models import smollm2
from experiments.models.model import Floats, Tokens, Weights
from sdpa.metrics import row_variance
from sdpa.network import BlockGradients, Steps
from sdpa.theory.longer_rows import RULES, LengthRule

LENGTH = 256
DIVISORS = (1, 2, 4, 8, 16, 32, 64)  # d_k^p with p from 0 to 1
AT_START = (1, 8)
AROUND = (6, 7, 8, 9, 10)  # the smallest loss
_GRID = np.geomspace(AROUND[0], AROUND[-1], 2001)
TEXTS = ("prose", "code", "reference", "licence", "shuffled")
RUN = ["weights", "divisor"]  # the columns of a run
GRADIENTS = ["query_gradient", "query_gradient_median", "stream_gradient"]
LONG_TEXT, LONG_SEQUENCES = "reference", 4
LENGTHS = (16, 64, 256, 1024, 2048)
_LAST_ROWS = 8
FITTED = 256  # length at which every rule of length has the divisor of the model
LENGTH_RULES = RULES[:3]  # none, (ln n)^1/2 and ln n


def by_divisor(model: smollm2.Pretrained) -> list[pd.DataFrame]:
    """Prose under each divisor: a table of runs, one of layers and one of heads."""
    tables = []
    runs: list[tuple[Weights, float]] = [("trained", c) for c in DIVISORS]
    runs += [("initial", c) for c in AT_START]
    for weights, divisor in runs:
        network = model if weights == "trained" else model.at_start()
        if divisor < smollm2.DIVISOR:
            network = network.in_double()
        for group, tokens in enumerate(model.tokens("prose", LENGTH + 1)):
            found = _of_sequence(network, tokens, divisor)
            tables.append(found.assign(weights=weights, divisor=divisor, group=group))
    found = _with_change(pd.concat(tables).sort_values("layer", kind="stable"), "weights")
    return [_summary(found), _summary(found, "layer"), _summary(found, "layer", "head")]


def _of_sequence(model: smollm2.Pretrained, tokens: Tokens, divisor: float) -> pd.DataFrame:
    """The loss, and a row for each layer and head."""
    tables: list[pd.DataFrame] = []

    def of_layer(layer: int, steps: Steps, found: BlockGradients) -> None:
        n = len(found.x)  # the loss is a mean over tokens
        lengths = n * np.linalg.norm(found.q, axis=-1)
        of_head = _of_rows(steps)
        of_head["query_gradient"] = np.sqrt((lengths**2).mean(axis=1))
        of_head["query_gradient_median"] = np.median(lengths, axis=1)
        of_head["stream_gradient"] = n * np.sqrt((found.x**2).sum(axis=1).mean())
        tables.append(pd.DataFrame(of_head).assign(layer=layer, head=range(len(lengths))))

    loss = smollm2.loss_and_gradients(model, tokens, divisor, of_layer)
    return pd.concat(tables).assign(loss=loss)


def _of_rows(steps: Steps, first: int = 2, last: int | None = None) -> dict[str, Floats]:
    """Means over the rows that see `first` to `last` keys, by head."""
    rows = slice(first - 1, last)
    w, scaled = steps.weights[:, rows], steps.scaled[:, rows]
    n_visible = np.arange(first, first + w.shape[1])
    entropies = -xlogy(w, w).sum(axis=-1)
    return {
        "spread": np.sqrt(row_variance(scaled).mean(axis=1)),
        "entropy_share": (entropies / np.log(n_visible)).mean(axis=1),
        "first_key_weight": w[..., 0].mean(axis=1),
    }


def _summary(found: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Means over sequences with standard errors, by run and what else is given.

    Of several heads, `query_gradient` is the r.m.s., `query_gradient_median` the median, and others
    are means; of several layers, `stream_gradient` is that of the first.
    """
    squares = found.assign(query_gradient=found["query_gradient"] ** 2)
    of_sequences = squares.groupby([*RUN, *by, "group"], sort=False).agg(
        loss=("loss", "first"),
        change=("change", "first"),
        query_gradient=("query_gradient", "mean"),
        query_gradient_median=("query_gradient_median", "median"),
        stream_gradient=("stream_gradient", "first"),
        spread=("spread", "mean"),
        entropy_share=("entropy_share", "mean"),
        first_key_weight=("first_key_weight", "mean"),
    )
    of_sequences["query_gradient"] **= 0.5
    of_sequences[GRADIENTS] = np.log(of_sequences[GRADIENTS])
    groups = of_sequences.groupby([*RUN, *by], sort=False)
    means, errors = groups.mean(), groups.sem()
    means[GRADIENTS] = np.exp(means[GRADIENTS])
    errors[GRADIENTS] *= means[GRADIENTS]
    return _beside(means, errors)


def _with_change(found: pd.DataFrame, run: str) -> pd.DataFrame:
    """With the change of the loss of each sequence from that under the model's own divisor."""
    own = found[found["divisor"] == smollm2.DIVISOR].groupby([run, "group"])["loss"].first()
    found = found.join(own.rename("own_loss"), on=[run, "group"])
    return found.assign(change=found["loss"] - found["own_loss"])


def _beside(means: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
    """A table with each NAME followed by NAME_se."""
    both = means.join(errors.add_suffix("_se"))
    order = [f"{name}{suffix}" for name in means for suffix in ("", "_se")]
    return both[order].reset_index()


def by_text(model: smollm2.Pretrained) -> list[pd.DataFrame]:
    """The loss of each text under some divisors, and the divisor of its smallest loss."""
    rows = []
    for text in TEXTS:
        sequences = model.tokens(text, LENGTH + 1)
        for divisor in AROUND:
            for group, tokens in enumerate(sequences):
                loss = float(smollm2.losses(model, tokens, divisor).mean())
                rows.append((text, divisor, group, loss))
    found = pd.DataFrame(rows, columns=["text", "divisor", "group", "loss"])
    found = _with_change(found, "text")
    groups = found.groupby(["text", "divisor"], sort=False)[["loss", "change"]]
    smallest = [(text, *_smallest(rows)) for text, rows in found.groupby("text", sort=False)]
    columns = ["text", "divisor", "divisor_se"]
    return [_beside(groups.mean(), groups.sem()), pd.DataFrame(smallest, columns=columns)]


def _smallest(found: pd.DataFrame) -> tuple[float, float]:
    """The divisor of the smallest mean loss, and its standard error of the jackknife over sequences.

    It is that of a cubic in ln c, fitted to the losses around it; NaN at an end of their range.
    """
    wide = found.pivot_table(index="group", columns="divisor", values="loss")

    def place(losses: pd.DataFrame) -> float:
        cubic = np.polyfit(np.log(AROUND), losses.mean(), 3)
        least = np.polyval(cubic, np.log(_GRID)).argmin()
        return float(_GRID[least]) if 0 < least < len(_GRID) - 1 else np.nan

    without = [place(wide.drop(group)) for group in wide.index]
    return place(wide), float(np.sqrt((len(wide) - 1) * np.var(without)))


def by_length(model: smollm2.Pretrained) -> list[pd.DataFrame]:
    """Rows and losses of the first n tokens, and losses by position under rules of length."""
    lengths, positions = [], []
    sequences = model.tokens(LONG_TEXT, LENGTHS[-1] + 1, LONG_SEQUENCES)
    for group, tokens in enumerate(sequences):
        plain, of_lengths = _of_lengths(model, tokens)
        lengths.append(of_lengths.assign(group=group))
        for rule in LENGTH_RULES:
            of_rule = plain
            if rule is not LENGTH_RULES[0]:
                of_rule = smollm2.losses(model, tokens, _divisors(rule, len(plain)))
            for first, last in zip((0, *LENGTHS), LENGTHS, strict=False):
                loss, change = (float(x[first:last].mean()) for x in (of_rule, of_rule - plain))
                positions.append((rule.name, first, last, group, loss, change))
    names = ["rule", "first", "last"]
    found = pd.DataFrame(positions, columns=[*names, "group", "loss", "change"])
    return [_means(pd.concat(lengths), ["n_keys"]), _means(found, names)]


def _means(found: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    groups = found.set_index("group").groupby([*keys], sort=False)
    return _beside(groups.mean(), groups.sem())


def _divisors(rule: LengthRule, n: int) -> Floats:
    """The divisor of each query, (n, 1): that of the model up to the fitted length, and less where
    the rule wants sharper rows.
    """
    sigma = [rule.sigma(1.0, max(n_visible, FITTED)) for n_visible in range(1, n + 1)]
    return smollm2.DIVISOR * sigma[0] / np.array(sigma)[:, None]


def _of_lengths(model: smollm2.Pretrained, tokens: Tokens) -> tuple[Floats, pd.DataFrame]:
    """The losses, and for each length n the mean loss of the first n tokens, and means over all
    heads of the last rows among them.

    As no token sees a later one, the first tokens of a long sequence are those of a short one.
    """
    tables: list[pd.DataFrame] = []

    def of_layer(_: int, steps: Steps) -> None:
        for n in LENGTHS:
            of_head = _of_rows(steps, n + 1 - _LAST_ROWS, n)
            tables.append(pd.DataFrame(of_head).assign(n_keys=n))

    losses = smollm2.losses(model, tokens, of_layer=of_layer)
    found = pd.concat(tables).groupby("n_keys").mean()
    found.insert(0, "loss", [float(losses[:n].mean()) for n in found.index])
    return losses, found.reset_index()
