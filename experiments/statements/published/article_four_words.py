"""The article's heatmap of four words."""

import math

from scipy import stats

from experiments.examples.four_words import WORDS, projected_words
from experiments.statements.answer import Answer, cases, numbers, shown
from experiments.statements.cutoffs import BROAD, DOMINANT, STRONGLY
from experiments.statements.declare import statement


@statement("article-71", says="The scaled scores of the four words lie between -1 and 1.", severity="wrong number")
def bounds_of_four_words() -> Answer:
    scores = projected_words().trace().scaled_scores
    note = f"They range from {scores.min():.3f} to {scores.max():.3f}"
    return cases({"no scaled score is further from 0 than 1": abs(scores).max() <= 1}, note)


@statement(
    "article-72",
    says="The scaled scores of the four words range roughly from -1 to 1.",
    claimed="-1 1",
    rule="about",
    severity="wrong number",
)
def range_of_four_words() -> Answer:
    scores = projected_words().trace().scaled_scores
    return numbers(
        scores.min(), scores.max(), note="These are the smallest and the largest of the article's own scaled scores"
    )


@statement(
    "article-73",
    says="The scaled scores of the four words are centred around zero with moderate magnitude.",
    severity="wrong number",
)
def centre_of_four_words() -> Answer:
    scores = projected_words().trace().scaled_scores
    note = f"The mean is {scores.mean():.3f} and the standard deviation {scores.std():.3f}"
    return cases(
        {
            "the mean is within half a standard deviation of 0": abs(scores.mean()) < scores.std() / 2,
            "the standard deviation is below 1": scores.std() < 1,
        },
        note,
    )


@statement("article-74", says="Of the four words, cat attends strongly to sat.", severity="wrong number")
def cat_to_sat() -> Answer:
    """The weight that cat gives sat, over that of a uniform row."""
    row = projected_words().trace().weights[WORDS.index("cat")]
    uniform = 1 / len(WORDS)
    times = row[WORDS.index("sat")] / uniform
    given = ", ".join(f"{weight:.3f} to {word}" for word, weight in zip(WORDS, row, strict=True))
    note = f"The row of cat gives {given}; sat gets {times:.2f} times the uniform weight of {uniform:g}"
    return cases({"cat gives sat at least twice the uniform weight": times >= STRONGLY.value}, note)


@statement("article-75", says="Some of the four words have one dominant weight.", severity="wrong number")
def sharp_rows_of_four_words() -> Answer:
    largest = projected_words().trace().weights.max(axis=-1)
    return cases(
        {"some row has a weight above one half": largest.max() > DOMINANT.value},
        f"The largest weights are {shown(largest, 3)}",
    )


@statement("article-76", says="Others of the four words attend broadly.", severity="wrong number")
def broad_rows_of_four_words() -> Answer:
    share = stats.entropy(projected_words().trace().weights, axis=-1) / math.log(4)
    note = f"The entropy divided by ln 4 is {shown(share, 3)}"
    return cases({"some row has over nine tenths of the entropy ln 4": share.max() > BROAD.value}, note)


@statement(
    "article-77",
    says="Each row of the four words' weights sums to 1.",
    claimed="1.0000000 1.0000000 1.0000000 1.0000000",
    rule="digits",
    severity="wrong number",
)
def sums_of_four_words() -> Answer:
    return numbers(projected_words().trace().weights.sum(axis=1))
