"""The worked examples: texts and inputs in examples.yaml, each with a function that computes its steps.

Published statements use the inputs and draws, too. The order of draws from NumPy's legacy
generator is part of an example.
"""

from functools import cache
from math import log, sqrt
from pathlib import Path

import numpy as np
import yaml

from experiments.studies.examples.steps import (
    Example,
    Names,
    Step,
    Steps,
    attention,
    blend,
    chosen,
    from_scores,
    numbered,
    spread,
    step,
)
from sdpa import Trace, compare_scaling, entropy, softmax, trace
from sdpa._arrays import FloatArray

_GIVEN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
EXAMPLES: dict[str, Example] = {}  # by name, which is that of the function


def example(steps: Steps) -> Steps:
    """Declares an `Example`, whose steps a function computes, with the texts of examples.yaml."""
    given = _GIVEN[steps.__name__]
    texts = given["title"], given["source"], given["draws"]
    EXAMPLES[steps.__name__] = Example(*texts, steps)
    return steps


# A, B and C.

LETTERS = ("A", "B", "C")
XY = ("x", "y")


ABC = trace(*(_GIVEN["abc"][name] for name in "qkv"))


@example
def abc() -> list[Step]:
    """Every step by hand: a score is q.k = |q| |k| cos(angle), and a sum of two products."""
    steps = attention(ABC, LETTERS, LETTERS, widths=XY, outputs=XY)
    arrows = np.vstack([ABC.q, ABC.k])
    names = [f"{kind} {token}" for kind in ("query", "key") for token in LETTERS]
    x, y = arrows.T
    angles = np.degrees(np.arctan2(y, x))
    lengths = np.linalg.norm(arrows, axis=1)
    cosines = ABC.scores / np.outer(lengths[:3], lengths[3:])
    terms = (ABC.q[:, None] * ABC.k).reshape(-1, 2)
    pairs = [f"{query} with {key}" for query in LETTERS for key in LETTERS]
    # As in a computation by hand, without the shift by the largest of the row.
    values = np.exp(ABC.scaled_scores)
    exponentials = np.column_stack([values, values.sum(axis=1)])
    return [
        *chosen(steps, "q k v"),
        step(
            "geometry",
            "Arrows: degrees from x.",
            np.column_stack([angles, lengths]),
            names,
            ("angle", "length"),
        ),
        step(
            "cosines",
            "Cosines of the angles: a score is this times both lengths.",
            cosines,
            LETTERS,
            LETTERS,
        ),
        step(
            "terms",
            "Products and score.",
            np.column_stack([terms, terms.sum(axis=1)]),
            pairs,
            (*XY, "score"),
        ),
        *chosen(steps, "scores divisor scaled_scores"),
        step(
            "exponentials",
            "Softmax: exp(scaled score), and the sum.",
            exponentials,
            LETTERS,
            (*LETTERS, "sum"),
        ),
        steps["weights"],
        blend(ABC, "A", 0, LETTERS, XY),
        *chosen(steps, "output undivided_weights divisor_effect"),
    ]


# The cat sat down.

WORDS = ("The", "cat", "sat", "down")
CAT_SCORES = np.array(_GIVEN["cat_sat_down"]["scores"])


@example
def cat_sat_down() -> list[Step]:
    """A table of scaled scores, their weights, and how to read them as a heat map."""
    traced = from_scores(CAT_SCORES, divisor=sqrt(8))
    steps = attention(traced, WORDS, WORDS)
    weights = traced.weights
    own = np.diag(weights)
    own_row = [[*own, own.mean(), 1 / 4]]
    largest = weights.argmax(axis=1)
    columns = [weights.mean(axis=0), np.bincount(largest, minlength=4) / 4]
    uniform = np.column_stack([entropy(weights) / log(4), np.ptp(weights, axis=1)])
    order = np.argsort(-uniform[:, 0])
    words = [WORDS[i] for i in order]
    measures = ("entropy / ln n", "largest - smallest")
    return [
        *chosen(steps, "scaled_scores exponentials weights"),
        step(
            "diagonal",
            "Each word's weight for itself.",
            own_row,
            ("own weight",),
            (*WORDS, "mean", "even share"),
        ),
        step(
            "columns",
            "The hub has the largest.",
            columns,
            ("mean weight", "share of rows it leads"),
            WORDS,
        ),
        step("rows", "The most uniform row comes first.", uniform[order], words, measures),
        *chosen(steps, "divisor undivided_weights divisor_effect"),
    ]


# Tokens and projections, from NumPy's legacy generator, as in the article.


def _drawn(
    rng: np.random.RandomState, d_k: int, token_std: float, weight_std: float
) -> tuple[FloatArray, FloatArray]:
    """Four tokens X of width 8, then the projections W_q, W_k and W_v, (3, 8, d_k), with these
    standard deviations.
    """
    tokens = rng.standard_normal((4, 8)) * token_std
    return tokens, rng.standard_normal((3, 8, d_k)) * weight_std


def _projections(
    tokens: FloatArray,
    weights: FloatArray,
    words: Names,
) -> list[Step]:
    """Tokens and projections as steps."""
    return [
        step("x", "Tokens X: one row per token.", tokens, words),
        *(
            step(f"w_{name}", f"{name.upper()} = X times this.", values)
            for name, values in zip("qkv", weights, strict=True)
        ),
    ]


_rng_42 = np.random.RandomState(42)
_rng_123 = np.random.RandomState(123)
_FOUR, _FOUR_WEIGHTS = _drawn(_rng_123, 4, 0.5, 0.3)
_TOKENS, _WEIGHTS = _drawn(_rng_42, 6, 1.0, 0.1)
FOUR = trace(*(_FOUR @ _FOUR_WEIGHTS))
SESSION = trace(*(_TOKENS @ _WEIGHTS))
# q, k and v of three sequences; the next numbers.
BATCH = [_rng_123.standard_normal((3, 4, 6)) for _ in range(3)]


@example
def four_words() -> list[Step]:
    """Projections, queries, keys, values, scores, weights and output."""
    names = "q k v scores divisor scaled_scores exponentials weights output divisor_effect"
    return [
        *_projections(_FOUR, _FOUR_WEIGHTS, WORDS),
        *chosen(attention(FOUR, WORDS, WORDS), names),
    ]


@example
def session() -> list[Step]:
    """Four tokens from projections to output, then a batch of three sequences."""
    tokens = numbered(4, "t")
    steps = attention(SESSION, tokens, tokens)
    columns = ("sequences", "rows", "columns")
    return [
        *_projections(_TOKENS, _WEIGHTS, tokens),
        *chosen(steps, "q k v scores divisor scaled_scores weights output divisor_effect"),
        _shapes(
            "shapes",
            "The shapes for 100 tokens of width 64.",
            trace(*np.zeros((3, 100, 64))),
            columns[1:],
        ),
        _shapes("batch_shapes", "A batch: only the last two axes count.", trace(*BATCH), columns),
    ]


def _shapes(
    name: str,
    says: str,
    traced: Trace,
    columns: Names,
) -> Step:
    """The shapes of the arrays from q to the output."""
    shapes = {name: np.shape(array) for name, array in vars(traced).items() if np.ndim(array)}
    return step(name, says, [*shapes.values()], [*shapes], columns)


# The variance of scores, and the comparison of scalings.

SWEPT = np.array([8, 32, 64, 128, 256, 512])
COMPARED = (4, 16, 64, 256, 512)
_SAMPLE = 10_000


@cache
def variances() -> FloatArray:
    """The variance of 10,000 scores at each width of `SWEPT`, (6,); draws follow the session."""
    drawn = (_rng_42.standard_normal((2, _SAMPLE, d_k)) for d_k in SWEPT)
    return np.array([np.var((q * k).sum(axis=1)) for q, k in drawn])


@example
def variance_sweep() -> list[Step]:
    """Samples beside the exact variance d_k of scores, whose excess kurtosis is 6/d_k."""
    exact = SWEPT.astype(float)
    sample = variances()
    errors = exact * np.sqrt((2 + 6 / exact) / _SAMPLE)
    columns = ("sample", "exact", "sample / exact", "standard error", "errors away")
    away = (sample - exact) / errors
    values = np.column_stack([sample, exact, sample / exact, errors, away])
    says = "Variance of 10,000 scores at each d_k, with the standard error d_k sqrt((2 + 6 / d_k) / n)."
    return [step("variances", says, values, [str(d_k) for d_k in SWEPT], columns)]


def article_draws(kind: str = "") -> FloatArray:
    """Deviations of scores unscaled and scaled, then mean largest weights, at each of `COMPARED`,
    (4, 5); drawn, or `exact_`.

    A draw is of five queries and keys, with seed 42.
    """
    numbers = []
    for d_k in COMPARED:
        comparison = compare_scaling(d_k, rng=np.random.RandomState(42))
        both = (comparison.unscaled, comparison.scaled)
        names = (f"{kind}score_std", f"{kind}max_weight")
        numbers.append([getattr(rule, name) for name in names for rule in both])
    return np.transpose(numbers)


@example
def comparison() -> list[Step]:
    """One draw, which mixes trend and chance; exact expectations; and quantiles of many draws."""
    rng = np.random.default_rng(0)
    numbers = []
    for d_k in COMPARED:
        q, k = rng.standard_normal((2, 2000, 5, d_k))
        unscaled = q @ k.mT
        scores = np.array([unscaled, unscaled / sqrt(d_k)])
        largest = softmax(scores).max(axis=-1)
        numbers.append([*scores.std(axis=(-1, -2)), *largest.mean(axis=-1)])
    low, high = np.quantile(numbers, (0.05, 0.95), axis=2).mT
    rows = ("deviation unscaled", "deviation d_k^1/2", "largest unscaled", "largest d_k^1/2")
    widths = [str(d_k) for d_k in COMPARED]
    tables = {
        "drawn": ("The article's draw of 25 scores at each d_k, seed 42.", article_draws()),
        "exact": (
            "Exact, over all draws; the deviation is that of a score.",
            article_draws("exact_"),
        ),
        "low": ("The 5% quantile of 2,000 draws.", low),
        "high": ("The 95% quantile of 2,000 draws.", high),
    }
    return [step(name, says, values.T, widths, rows) for name, (says, values) in tables.items()]


# Dog bites man.

DOG_WORDS = ("dog", "bites", "man")
_DOG = _GIVEN["dog_bites_man"]
DOG_SCORES = np.array(_DOG["scores"])
DOG, BITES, MAN = DOG_SCORES
DOG_PRINTED = np.array(_DOG["weights"])
DOG_VALUES = np.array(_DOG["values"])


@example
def dog_bites_man() -> list[Step]:
    """From scores to outputs, and scores that give the printed weights, which these do not."""
    traced = from_scores(DOG_SCORES, DOG_VALUES, 2.0)
    steps = attention(traced, DOG_WORDS, DOG_WORDS)
    weights = traced.weights
    rows = ("printed weights of dog", "softmax of half the scores", "softmax of the scores")
    halved = [DOG_PRINTED[0], softmax(DOG_SCORES / 2)[0], weights[0]]
    halves = "To two decimals, the printed row of dog halves the scores; others do not."
    outputs = ("printed", "of the printed weights", "of the softmax")
    blended = [_DOG["output_of_dog"], DOG_PRINTED[0] @ DOG_VALUES, weights[0] @ DOG_VALUES]
    return [
        *chosen(steps, "scaled_scores exponentials weights v"),
        *(blend(traced, word, i, DOG_WORDS, numbered(4)) for i, word in enumerate(DOG_WORDS)),
        steps["output"],
        step("printed", "Weights as printed.", DOG_PRINTED, DOG_WORDS, DOG_WORDS),
        step("halved", halves, halved, rows, DOG_WORDS),
        step(
            "printed_output",
            "The output of dog blends the printed weights.",
            blended,
            outputs,
        ),
        *chosen(steps, "undivided_weights divisor_effect"),
    ]


def _pair(
    names: str,
    words: Names,
    order: list[int],
    before: Trace,
    after: Trace,
) -> list[Step]:
    """The outputs of words in two orders, and the largest difference of each word's two outputs."""
    first, second, difference_name = names.split()
    earlier = np.asarray(before.output)
    later = np.asarray(after.output)
    difference = abs(later[np.argsort(order)] - earlier).max(axis=1).round(12)
    says = "The largest difference of each word's two outputs: all words keep theirs."
    return [
        step(first, "Each word's output.", earlier, words),
        step(second, "The same words in another order.", later, [words[i] for i in order]),
        step(
            difference_name,
            says,
            [*difference[:, None], [difference.max()]],
            (*words, "all"),
            ("largest difference",),
        ),
    ]


@example
def permutation() -> list[Step]:
    """Outputs shuffle along with tokens, so attention without a mask ignores the order of words.

    With P a permutation of the rows, softmax(P S P^T) P V = P softmax(S) V: the weights of a row
    move with their keys. The sums of a row then have another order, so differences are shown to 12
    decimals, which hides rounding.
    """
    order = [2, 0, 3, 1]
    swap = [2, 1, 0]
    shuffled = trace(*(_FOUR[order] @ _FOUR_WEIGHTS))
    dog = from_scores(DOG_SCORES, DOG_VALUES)
    man = from_scores(DOG_SCORES[np.ix_(swap, swap)], DOG_VALUES[swap])
    return [
        *_pair("outputs shuffled difference", WORDS, order, FOUR, shuffled),
        *_pair("dog_bites_man man_bites_dog swap_difference", DOG_WORDS, swap, dog, man),
    ]


# Rows of scores.

ONES = (2.0, 1.0, 1.0)
TENS = (20.0, 10.0, 10.0)
HUNDREDS = (200.0, 100.0, 100.0)
SMALL = np.array([1.0, 0.8, 0.5, 0.2])
LARGE_SCORES = 20 * SMALL
NOTEBOOK = tuple(np.random.RandomState(42).standard_normal((2, 3, 4)))  # Q and K


@example
def triples() -> list[Step]:
    """The softmax of three scores, ten and a hundred times as large, beside the printed one.

    The last row is the third one over sqrt(512); the source rounds it to 8.8, 4.4 and 4.4.
    """
    rows = ("2, 1, 1", "20, 10, 10", "200, 100, 100", "third / √512")
    keys = ("first", "second", "third")
    printed = np.array(_GIVEN["triples"]["weights"])
    scores = np.array([ONES, TENS, HUNDREDS, np.divide(HUNDREDS, sqrt(512))])
    traced = from_scores(scores)
    return [
        step(
            "divisor",
            "The square root of d_k.",
            [[512, sqrt(512)]],
            ("d_k^1/2",),
            ("d_k", "divisor"),
        ),
        step(
            "scores",
            "Four rows of scores; the last is the third over the divisor.",
            scores,
            rows,
            keys,
        ),
        *chosen(attention(traced, rows, keys), "exponentials weights"),
        step("printed", "Weights as printed.", printed, rows, keys),
        step("difference", "Weights minus the printed ones.", traced.weights - printed, rows, keys),
        spread(traced.weights, rows),
    ]


@example
def two_scales() -> list[Step]:
    """Four scores, the same times 20, as if q and k were 400 times as wide, and one far ahead."""
    scores = np.array([SMALL, LARGE_SCORES, (10, 1, 1, 1)])
    rows = ("small", "large", "one ahead")
    traced = from_scores(scores)
    return [
        step(
            "scores",
            "The large scores are 20 times the small ones; the last row has one far ahead.",
            scores,
            rows,
        ),
        *chosen(attention(traced, rows, numbered(4)), "exponentials weights"),
        spread(traced.weights, rows),
    ]


@example
def notebook() -> list[Step]:
    """Three tokens, with and without scaling."""
    steps = attention(trace(*NOTEBOOK), numbered(3, "q"), numbered(3, "k"))
    return list(steps.values())
