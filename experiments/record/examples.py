"""The matrices that the record's figures show, as one table: figure, panel, row, column, value."""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.record import lesson, notebook, questions, session
from sdpa import attention_weights, softmax, theory

COLUMNS = ("figure", "panel", "row", "column", "value")
_DRAWS = 2000
_BAND = (0.05, 0.95)

Entry = tuple[str, str, str, str, float]


def examples() -> pd.DataFrame:
    """Every number that a figure of the record shows."""
    parts = (_notebook(), _dog(), _cat(), _sweep(), _scales(), _four(), _arrows(), _abc(), _comparison())
    return pd.DataFrame([entry for part in parts for entry in part], columns=list(COLUMNS))


def _matrix(
    figure: str, panel: str, rows: tuple[str, ...], columns: tuple[str, ...], values: npt.ArrayLike
) -> Iterator[Entry]:
    for (i, j), value in np.ndenumerate(np.asarray(values, dtype=float)):
        yield figure, panel, rows[i], columns[j], float(value)


def _notebook() -> Iterator[Entry]:
    for scaling in ("unscaled", "d_k^1/2"):
        weights = attention_weights(*notebook.draw(), scaling=scaling)
        yield from _matrix("notebook", scaling, ("q1", "q2", "q3"), ("k1", "k2", "k3"), weights)


def _dog() -> Iterator[Entry]:
    words = questions.WORDS
    for panel, values in (
        ("scores", questions.SCORES),
        ("weights", softmax(questions.SCORES)),
        ("as printed", questions.CLAIMED),
    ):
        yield from _matrix("dog", panel, words, words, values)


def _cat() -> Iterator[Entry]:
    for panel, values in (("scores", lesson.SCORES), ("weights", lesson.WEIGHTS)):
        yield from _matrix("cat", panel, lesson.WORDS, lesson.WORDS, values)


def _sweep() -> Iterator[Entry]:
    for d_k, variance in zip(session.SWEPT, session.session().variances, strict=True):
        yield "sweep", "one sample of 10,000", "variance", str(d_k), float(variance)
        yield "sweep", "exact", "variance", str(d_k), theory.score_variance(d_k, 1.0)


def _scales() -> Iterator[Entry]:
    positions = ("1", "2", "3", "4")
    for panel, scores in (("small", session.SMALL), ("large", session.LARGE)):
        yield from _matrix("scales", panel, ("weight",), positions, [softmax(scores)])


def _four() -> Iterator[Entry]:
    drawn = session.session()
    for panel, values in (("scaled scores", drawn.example_scores), ("weights", drawn.example_weights)):
        yield from _matrix("four", panel, session.WORDS, session.WORDS, values)


def _arrows() -> Iterator[Entry]:
    for panel, values in (("query", session.QUERIES), ("key", session.KEYS)):
        yield from _matrix("arrows", panel, ("A", "B", "C"), ("x", "y"), values)


def _abc() -> Iterator[Entry]:
    _, _, weights, outputs = session.tiny()
    yield from _matrix("abc", "weights", ("A", "B", "C"), ("A", "B", "C"), weights)
    yield from _matrix("abc", "outputs", ("A", "B", "C"), ("dimension 1", "dimension 2"), outputs)


def _comparison() -> Iterator[Entry]:
    """Five points of seed 42; the exact means for five keys; and where nine tenths of single draws lie."""
    rng = np.random.default_rng(0)
    for d_k in session.COMPARED:
        unscaled_deviation, scaled_deviation, unscaled_largest, scaled_largest = session.comparison(d_k)
        q, k = rng.standard_normal((2, _DRAWS, 5, d_k))
        scores = q @ k.swapaxes(-1, -2)
        for scaling, divisor, deviation, largest in (
            ("unscaled", 1.0, unscaled_deviation, unscaled_largest),
            ("d_k^1/2", math.sqrt(d_k), scaled_deviation, scaled_largest),
        ):
            scaled = scores / divisor
            drawn = {"deviation": scaled.std(axis=(-1, -2)), "largest": softmax(scaled).max(-1).mean(-1)}
            exact = {
                "deviation": math.sqrt(theory.score_variance(d_k, divisor)),
                "largest": theory.attention_expectations(d_k, 5, divisor).max_weight,
            }
            for metric, point in (("deviation", deviation), ("largest", largest)):
                row = f"{metric} {scaling}"
                yield "comparison", "seed 42", row, str(d_k), point
                yield "comparison", "exact", row, str(d_k), exact[metric]
                for end, share in zip(("low", "high"), _BAND, strict=True):
                    yield "comparison", end, row, str(d_k), float(np.quantile(drawn[metric], share))
