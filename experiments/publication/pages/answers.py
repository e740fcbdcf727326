"""The answers on the first screen and the questions of the quiz, with their numbers from the tables
of the sweeps behind them.

The right choice of a question is the one whose number is nearest to the answer, so that the tables
decide.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import pandas as pd

from experiments.figures.captions import finding_numbers
from experiments.kinds.figures import FIGURES
from experiments.kinds.support import BOTH, MEDIAN_GRADIENT, ends, rows_of, significant, widest
from experiments.publication.pages.parts import digits
from experiments.tables.crossings import EQUAL
from experiments.tables.results import Results
from sdpa.scaling import SCALED, UNSCALED

_MORE, _SAME, _LESS = 2.0, 1.0, 0.5  # the numbers of choices that compare


def answers(found: Mapping[str, Results]) -> dict[str, dict[str, float]]:
    """The numbers of each answer by name; only of those that the tables support.

    Exact are means of the sweep `dimension` at its largest d_k, and the d_k of `crossing` at
    which the medians of |dL/dq| are equal. The growth through a network is measured.
    """
    behind = {name: _supporting(figure, found) for name, (figure, _) in ANSWERS.items()}
    return {name: ANSWERS[name][1](results) for name, results in behind.items() if results}


def _supporting(figure: str, found: Mapping[str, Results]) -> Results | None:
    """The results that the finding of a figure is about; None unless they support it.

    So is the answer of an experiment whose folder is gone.
    """
    finding = FIGURES[figure].finding if figure in FIGURES else None
    results = found.get(finding.sweep) if finding else None
    return results if results and finding_numbers(figure, results) is not None else None


def _exact(metric: str, results: Results) -> dict[str, float]:
    """The exact means of a metric under both rules at the largest d_k of a sweep."""
    return _both(widest(results.measured), f"{metric}_exact", "d_k", "n_keys")


def _both(rows: pd.DataFrame, column: str, *sizes: str) -> dict[str, float]:
    """Sizes of the rows, and a column under both rules."""
    values = rows.set_index("scaling")[column]
    numbers = {name: rows[name].iloc[0] for name in sizes}
    return numbers | {"unscaled": values[UNSCALED], "scaled": values[SCALED]}


def _gradients(results: Results) -> dict[str, float]:
    medians = {"norm": "query_gradient", "statistic": "median", "level": EQUAL}
    equal = rows_of(results, "crossings", **medians).sort_values("n_keys")
    numbers = {}
    for name, place in (("shortest", 0), ("longest", -1)):
        row = equal.iloc[place]
        numbers[name] = row["n_keys"]
        numbers[f"crossing_{name}"] = significant(row["crossing_exact"], 2)
    return numbers


def _network(results: Results) -> dict[str, float]:
    deepest = rows_of(results, layers=results.measured["layers"].max())
    return _both(deepest, "stream_gradient_growth", "layers", "n_heads", "d_k", "n_keys")


def _training(results: Results) -> dict[str, float]:
    """Losses of a decoder at the best rates, from q and k of variance 1 and from small weights."""
    losses = finding_numbers("losses", results) or {}
    sizes = {name: results.measured[name].iloc[0] for name in ("d_k", "steps")}
    return {
        **sizes,
        "unscaled": losses["plain"],
        "scaled": losses["root"],
        "apart_if_small": round(losses["small"], 2),
    }


# Each with the figure whose finding it is.
ANSWERS: dict[str, tuple[str, Callable[[Results], dict[str, float]]]] = {
    "variance": ("variance", partial(_exact, "score_variance")),
    "saturation": ("saturation", partial(_exact, "max_weight")),
    "gradients": ("map", _gradients),
    "network": ("growth", _network),
    "training": ("losses", _training),
}


class Question(NamedTuple):
    """A question, its choices, the place of the right one, and the reason with its numbers."""

    text: str
    choices: list[str]
    right: int
    reason: str


def questions(
    found: Mapping[str, Results], answers: Mapping[str, Mapping[str, float]]
) -> Iterator[Question]:
    """The questions whose answers the tables support, with the numbers of the first screen."""
    if of := answers.get("variance"):
        d_k = of["d_k"]
        yield _question(
            f"Entries of q and k are independent with mean 0 and variance 1, and d_k = {d_k}. What "
            "is the variance of a score q·k?",
            _choices(1, d_k**0.5, d_k, d_k**2),
            of["unscaled"],
            f"A score is a sum of {d_k} products, each of variance 1.",
        )
    if of := answers.get("saturation"):
        equal = 1 / of["n_keys"]
        yield _question(
            f"Without the division, how large is the largest of {of['n_keys']} weights on average "
            f"at d_k = {of['d_k']}?",
            _choices(equal, of["scaled"], 0.5, of["unscaled"]),
            of["unscaled"],
            f"With the division it is {digits(of['scaled'])}; if all weights were equal, "
            f"{digits(equal)}.",
        )
    if dimension := _supporting("saturation", found):
        yield from _at_all_widths(dimension)
    if of := answers.get("gradients"):
        few = of["crossing_shortest"]
        many = of["crossing_longest"]
        yield _question(
            "From some d_k on, the gradient to the median query, |dL/dq|, is larger with the "
            "division. With more keys, this d_k",
            {"falls": _LESS, "stays the same": _SAME, "rises": _MORE},
            many / few,
            f"It is {digits(few)} with {digits(of['shortest'])} keys and {digits(many)} with "
            f"{digits(of['longest'])}.",
        )
    yield from _of_networks(answers)
    n = 4000
    yield _question(
        "A text becomes twice as long. The number of scores of one head becomes",
        {f"{factor} times as large": factor for factor in (2, 4, 8)},
        (2 * n) ** 2 / n**2,
        f"{n:,} tokens have {n**2 / 1e6:.0f} million scores, {2 * n:,} have {4 * n**2 / 1e6:.0f}.",
    )


def _of_networks(answers: Mapping[str, Mapping[str, float]]) -> Iterator[Question]:
    """Questions about many layers, and about training."""
    if of := answers.get("network"):
        growth = of["unscaled"]
        scaled = of["scaled"]
        yield _question(
            f"The stream's gradient goes back through {of['layers']} random pre-norm layers of attention of "
            f"{of['n_keys']} independent tokens at d_k = {of['d_k']} without the division and without a mask; q and k "
            "have variance 1, and nothing scales the matrices onto the stream. Its root mean square",
            {
                "vanishes": 1 / growth,
                "hardly changes": _SAME,
                f"grows {digits(scaled)} times": scaled,
                "grows a million times": 1e6,
            },
            growth,
            f"It grows {digits(growth)} times; with the division, {digits(scaled)} times. From "
            "smaller starts, and with a causal mask or similar tokens, it grows less.",
        )
    if of := answers.get("training"):
        plain, root = of["unscaled"], of["scaled"]
        yield _question(
            f"You train a small decoder with d_k = {of['d_k']}, whose q and k start with variance 1, for {of['steps']} "
            "steps of Adam without the division, at its best learning rate. Beside one with the division, it",
            {"diverges": _MORE, "ends at a higher loss": 1.05, "ends at the same loss": _SAME},
            plain / root,
            f"It ends at {plain:.2f} nats per character, with the division at {root:.2f}.",
        )


def _at_all_widths(dimension: Results) -> Iterator[Question]:
    """Questions about one row under both rules."""
    root = rows_of(dimension, scaling=SCALED)
    first, last = ends(root, "d_k", "max_weight_exact").values()
    n_keys = root["n_keys"].min()
    yield _question(
        f"You divide by sqrt(d_k), and d_k grows from {root['d_k'].min()} to {root['d_k'].max()}. "
        f"The largest of {n_keys} weights, on average,",
        {"grows": _MORE, "hardly changes": _SAME, "falls": _LESS},
        last / first,
        f"It goes from {first:.3f} to {last:.3f}.",
    )
    middle = sorted(root["d_k"])[len(root) // 2]
    plain, scaled = (
        rows_of(dimension, d_k=middle).set_index("scaling").loc[[*BOTH], MEDIAN_GRADIENT]
    )
    yield _question(
        f"At d_k = {middle} with {n_keys} keys, the median gradient that reaches a query, |dL/dq|, is "
        "larger",
        {"with the division": _LESS, "in neither case": _SAME, "without it": _MORE},
        plain / scaled,
        f"Without the division it is {plain:.3g}, with it {scaled:.3g}: dividing scores divides this "
        "gradient. In wider heads, or with fewer keys, saturation takes more.",
    )


def _choices(*numbers: float) -> dict[str, float]:
    return {digits(number): number for number in numbers}


def _question(text: str, choices: Mapping[str, float], answer: float, reason: str) -> Question:
    """A question of positive numbers."""
    distances = [abs(math.log(answer / number)) for number in choices.values()]
    return Question(text, [*choices], distances.index(min(distances)), reason)
