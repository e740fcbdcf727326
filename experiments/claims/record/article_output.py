"""Statements of the article on whole computations: article-66 to article-83."""

import numpy as np

from experiments.claims.entry import (
    Cases,
    about,
    count,
    digits,
    in_a_word,
    in_example,
    shape,
)
from experiments.claims.laws import qkv, same
from experiments.claims.measured import Given
from experiments.claims.record.shared import are_exactly_1
from experiments.claims.words import shown
from experiments.examples.examples import BATCH, FOUR, SESSION, SESSION_TOKENS
from sdpa import entropy, scaled_dot_product_attention, trace_shapes

_SESSION_OUTPUT = np.asarray(SESSION.output)
shape(
    "article-66",
    "Shapes of input, output and weights.",
    "4 8 4 6 4 4",
    [SESSION_TOKENS.shape, _SESSION_OUTPUT.shape, SESSION.weights.shape],
)
digits(
    "article-67",
    "The sixteen weights.",
    "0.258 0.230 0.252 0.260 0.236 0.294 0.242 0.228 0.229 0.261 0.247 0.263 0.241 0.270 0.264"
    " 0.224",
    SESSION.weights,
)
_SUMS = SESSION.weights.sum(axis=1)
digits(
    "article-68",
    "Row sums of the weights.",
    "1.0000000 1.0000000 1.0000000 1.0000000",
    _SUMS,
)


@in_a_word("article-69")
def rows_sum_to_1(_: Given) -> Cases:
    """Each row of weights sums to exactly 1.0."""
    return are_exactly_1(_SUMS)


shape(
    "article-70",
    "The output is as long as the sequence and as wide as the values.",
    "4 6",
    _SESSION_OUTPUT.shape,
)

_SCALED = FOUR.scaled_scores
_LOW = _SCALED.min()
_HIGH = _SCALED.max()
_MEAN = _SCALED.mean()
_DEVIATION = _SCALED.std()


@in_example("article-71")
def scaled_scores_lie_within_1(_: Given) -> Cases:
    """The scaled scores of the four words lie between -1 and 1."""
    return {"no scaled score is further from 0 than 1": abs(_SCALED).max() <= 1}, (
        f"They range from {_LOW:.3f} to {_HIGH:.3f}"
    )


about(
    "article-72",
    "The scaled scores of the four words range roughly from -1 to 1.",
    "-1 1",
    [_LOW, _HIGH],
    "These are the smallest and the largest of the article's own scaled scores",
)


@in_example("article-73")
def scaled_scores_are_centred(_: Given) -> Cases:
    """The scaled scores of the four words are centred around zero with moderate magnitude."""
    return {
        "the mean is within half a standard deviation of 0": abs(_MEAN) < _DEVIATION / 2,
        "the standard deviation is below 1": _DEVIATION < 1,
    }, f"The mean is {_MEAN:.3f} and the standard deviation {_DEVIATION:.3f}"


@in_example("article-74")
def cat_attends_to_sat(given: Given) -> Cases:
    """Of the four words, cat attends strongly to sat."""
    the, cat, sat, down = FOUR.weights[1]
    return {"cat gives sat at least twice the uniform weight": 4 * sat >= given.strongly}, (
        f"The row of cat gives {the:.3f} to The, {cat:.3f} to cat, {sat:.3f} to sat, {down:.3f} to"
        f" down; sat gets {4 * sat:.2f} times the uniform weight of 0.25"
    )


@in_example("article-75")
def some_words_have_a_dominant_weight(given: Given) -> Cases:
    """Some of the four words have one dominant weight."""
    largest = FOUR.weights.max(axis=-1)
    return {"some row has a weight above one half": largest.max() > given.dominant}, (
        f"The largest weights are {shown(largest, 3)}"
    )


@in_example("article-76")
def some_words_attend_broadly(given: Given) -> Cases:
    """Others of the four words attend broadly."""
    shares = entropy(FOUR.weights) / np.log(4)
    broad = shares.max() > given.broad
    return {"some row has over nine tenths of the entropy ln 4": broad}, (
        f"The entropy divided by ln 4 is {shown(shares, 3)}"
    )


digits(
    "article-77",
    "Each row of the four words' weights sums to 1.",
    "1.0000000 1.0000000 1.0000000 1.0000000",
    FOUR.weights.sum(axis=1),
)

_SHAPES = trace_shapes(*qkv(100, 64, 64))
shape(
    "article-79",
    "Seven shapes on the way through attention, for n = 100 and d_k = d_v = 64.",
    "100 64 100 64 100 64 64 100 100 100 100 100 100 64",
    [found for step, found in _SHAPES.items() if step != "scaled scores"],
)
count(
    "article-80 article-81 article-145 article-146",
    "100, 10,000, 4,000 and 8,000 tokens have ten thousand, 100 million, 16 million and 64 million"
    " scores.",
    "10000 100000000 16000000 64000000",
    [n * n for n in (100, 10_000, 4_000, 8_000)],
)
_OUTPUT = scaled_dot_product_attention(*BATCH)
shape(
    "article-82",
    "Shapes of the batch, in and out.",
    "3 4 6 3 4 6",
    [BATCH[0].shape, _OUTPUT.shape],
)


@in_example("article-83")
def a_batch_is_its_sequences(_: Given) -> Cases:
    """Attention of a batch equals that of its sequences one by one."""
    one_by_one = [scaled_dot_product_attention(*one) for one in zip(*BATCH, strict=True)]
    return {"the two are equal": same(_OUTPUT, one_by_one, 1e-14)}, ""
