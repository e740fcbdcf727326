"""What is arithmetic in the record of published statements, by the first id of an entry: the numbers
of a claim, or whether each of its cases holds.
"""

from math import exp, inf, log, log2, pi, sqrt

import numpy as np
from scipy import integrate, optimize, special

from experiments.studies.examples.examples import (
    ABC,
    BATCH,
    BITES,
    CAT_SCORES,
    DOG,
    DOG_PRINTED,
    DOG_VALUES,
    FOUR,
    HUNDREDS,
    LARGE_SCORES,
    MAN,
    NOTEBOOK,
    ONES,
    SESSION,
    SMALL,
    SWEPT,
    TENS,
    article_draws,
    variances,
)
from sdpa import (
    PairLaw,
    ScaledDotProductAttention,
    attention_weights,
    entropy,
    jacobian_norm,
    scaled_dot_product_attention,
    softmax,
    softmax_jacobian,
    theory,
)
from sdpa.initialisation import SCHEMES
from tests.numerics import derivative, normals
from tests.plain_attention import attention

expected = theory.attention_expectations
variance = theory.score_variance


def same(one, other, tolerance=1e-13):
    return np.allclose(one, other, rtol=0, atol=tolerance)


def growth(power):
    """The slope of ln variance against ln d_k with the divisor d_k^power."""
    return log2(variance(8, 8**power) / variance(4, 4**power))


def beyond(bound, d_k):
    """P(|q.k| > bound)."""
    return 2 * float(theory.score_survival(bound, d_k))


def largest(d_k, n_keys, divisor=1):
    return expected(d_k, n_keys, divisor).max_weight


def one_by_one(q, k):
    return [[sum(query * key) for key in k] for query in q]


_QUERY, *_KEYS = normals(9, 64, seed=42)
STRIP = np.array(_KEYS) @ _QUERY  # the scores of one query and eight keys
_RNG = np.random.RandomState(42)  # of the article's module, then of its tokens
MODULE = ScaledDotProductAttention(32, 16, 16, rng=_RNG)
X = _RNG.standard_normal((8, 32))
OUTPUT, WEIGHTS = MODULE.attend(X)
CAT = softmax(CAT_SCORES)
CHOSEN, OF_CAT = CAT.argmax(-1), CAT.mean(axis=0)
DRAWN = article_draws()
BARE, OF_NOTEBOOK = attention_weights(*NOTEBOOK, scaling="unscaled"), attention_weights(*NOTEBOOK)
ORDER = [3, 1, 7, 0, 2, 6, 5, 4]
LARGE, GENTLE = softmax(LARGE_SCORES), softmax(SMALL)
SATURATED = [w for w in softmax(30 * normals(20_000, 16)) if w.max() > 0.99]
ROWS, QKV = normals(40, 6), normals(3, 6, 5)
OF_ROWS = softmax(ROWS)
LENGTHS = np.linalg.norm(ABC.k, axis=1)
UNIT = PairLaw(normalize="l2")

ARITHMETIC = {
    "qa-03": softmax(ONES),
    "qa-04": softmax(TENS),
    "qa-05": softmax(HUNDREDS),
    "qa-07": 3 * [sqrt(variance(512, 1))],
    "qa-09": sqrt(512),
    "qa-10": np.divide(HUNDREDS, sqrt(512)),
    "qa-11": softmax([8.8, 4.4, 4.4]),
    "qa-13": same(QKV[0] @ QKV[1].T, one_by_one(*QKV[:2])),
    "qa-14": [0, integrate.quad(lambda z: 2 * z * z * special.k0(z) / pi, 0, inf)[0]],
    "qa-18": growth(1 / 3),
    "qa-19": growth(2 / 3),
    "qa-22b": [
        (abs(np.multiply(768, s.variances(768, 64)) - 1) < 0.05).all() for s in SCHEMES.values()
    ],
    "qa-23": [(OF_ROWS >= 0).all(), same(OF_ROWS.sum(-1), 1)],
    "qa-24": softmax(DOG),
    "qa-25": softmax(BITES),
    "qa-26": softmax(MAN),
    "qa-27": DOG_PRINTED.sum(axis=-1),
    "qa-30": same(scaled_dot_product_attention(*QKV), attention(*QKV.tolist())["output"]),
    "qa-31": DOG_PRINTED[0] @ DOG_VALUES,
    "qa-32": softmax(DOG) @ DOG_VALUES,
    "notebook-12": growth(0),
    "notebook-20": [
        (OF_NOTEBOOK.max(-1) < BARE.max(-1)).all(),
        (entropy(OF_NOTEBOOK) > entropy(BARE)).all(),
    ],
    "textbook-10": sqrt(variance(64, 1)),
    "textbook-28": [w > 0.9 for w in (softmax(STRIP).max(), largest(64, 8), largest(512, 8))],
    "textbook-29": [w < 0.5 for w in (softmax(STRIP / 8).max(), largest(64, 8, 8))],
    "lesson-04": [
        np.dot((3, 4), (3, 4)) > 0,
        np.dot((3, 4), (-4, 3)) == 0,
        np.dot((3, 4), (-3, -4)) < 0,
    ],
    "lesson-08": CAT_SCORES,
    "lesson-13": [variance(d, 1) for d in (8, 64, 512)],
    "lesson-16": np.multiply(sqrt(variance(8, 1)), (-2, 2)),
    "lesson-17": np.outer(np.sqrt((64, 512)), (-2, 2)),
    "lesson-26": exp(sqrt(2 / 8) * optimize.brentq(lambda x: beyond(x, 8) - 0.5, 0, 9)) > 2,
    "lesson-30": [
        (np.argsort(ROWS) == np.argsort(OF_ROWS)).all(),
        all((np.diag(softmax_jacobian(row)) > 0).all() for row in OF_ROWS),
    ],
    "lesson-31": same(
        [derivative(softmax, ROWS[0], axis) for axis in np.eye(6)],
        softmax_jacobian(OF_ROWS[0]),
        1e-9,
    ),
    "lesson-33": [
        np.bincount(CHOSEN).argmax() == each for each in (OF_CAT.argmin(), OF_CAT.argmax())
    ],
    "lesson-37": (OF_CAT.argmax() == CHOSEN).sum() > 2,
    "article-10": same(SESSION.scores, one_by_one(SESSION.q, SESSION.k)),
    "article-12": SESSION.scores,
    "article-18": variances(),
    "article-25": variances()[-1],
    "article-26": 1 - beyond(50, 512) > 0.95,
    "article-27": [
        all(variance(d, 1) == d for d in SWEPT),
        12 * special.ndtr(-max(abs(variances() / SWEPT - 1) / np.sqrt((2 + 6 / SWEPT) / 10_000)))
        > 0.01,
    ],
    "article-29": beyond(30, 512) > 0.1,
    "article-31": softmax([10, 1, 1, 1])[0],
    "article-32": softmax([10, 1, 1, 1])[1],
    "article-33": [
        jacobian_norm(LARGE) < 0.1 * jacobian_norm(GENTLE),
        jacobian_norm(np.array(SATURATED)).max() < 0.1 * jacobian_norm(GENTLE),
    ],
    "article-34": entropy(LARGE) < 0.1 * entropy(GENTLE),
    "article-35": np.isfinite(softmax([1e4, 0, -1e4])).all(),
    "article-36": GENTLE,
    "article-37": GENTLE.max(),
    "article-38": entropy(GENTLE),
    "article-40": LARGE.round(6),
    "article-41": LARGE.max(),
    "article-42": entropy(LARGE),
    "article-45": [LARGE[0] > 0.9, LARGE[1:].max() < 0.1, entropy(LARGE) < 0.1],
    "article-47": GENTLE.min() > 0.1,
    "article-52": same(9 * np.var(normals(1000) / 3), np.var(normals(1000))),
    "article-67": SESSION.weights,
    "article-68": SESSION.weights.sum(axis=1),
    "article-69": same(SESSION.weights.sum(axis=1), 1, 1e-15),
    "article-71": abs(FOUR.scaled_scores).max() <= 1,
    "article-72": [FOUR.scaled_scores.min(), FOUR.scaled_scores.max()],
    "article-73": [
        abs(FOUR.scaled_scores.mean()) < FOUR.scaled_scores.std() / 2,
        FOUR.scaled_scores.std() < 1,
    ],
    "article-74": 4 * FOUR.weights[1, 2] >= 2,
    "article-75": FOUR.weights.max() > 0.5,
    "article-76": entropy(FOUR.weights).max() / log(4) > 0.9,
    "article-80": [n * n for n in (100, 10_000, 4_000, 8_000)],
    "article-83": same(
        scaled_dot_product_attention(*BATCH),
        [scaled_dot_product_attention(*x) for x in zip(*BATCH, strict=True)],
    ),
    "article-88": [
        (np.diff(np.arctan2(*ABC.k.T[::-1])) > 0).all(),
        len(set(LENGTHS.round(6))) == 3,
    ],
    "article-89": [
        same(ABC.v[:2] @ ABC.v[:2].T, np.eye(2), 0),
        same(ABC.v[2], ABC.v[:2].mean(axis=0), 0),
    ],
    "article-90": [
        (ABC.scores[0] / LENGTHS).argmax() == 0,
        (ABC.scores[2] / LENGTHS).argmax() == 2,
        np.ptp(ABC.scores[1]) < 1e-12,
    ],
    "article-94": ABC.scores[0],
    "article-95": ABC.scores,
    "article-96": [ABC.scores[0].argmax() == 0, ABC.scores[0].argmin() == 2],
    "article-98": softmax(ABC.scores[0]).max() - ABC.weights[0].max() < 0.1,
    "article-100": ABC.scaled_scores,
    "article-101": ABC.scores.var() / ABC.scaled_scores.var(),
    "article-102": 0.8 / sqrt(2),
    "article-103": [
        same(np.argsort(ABC.scores[::2]), np.argsort(ABC.scaled_scores[::2])),
        (np.ptp(ABC.scaled_scores[::2], axis=1) < np.ptp(ABC.scores[::2], axis=1)).all(),
    ],
    "article-104": np.exp(ABC.scaled_scores[0]),
    "article-106": ABC.weights[0],
    "article-107": ABC.weights,
    "article-109": [
        ABC.weights[0].argmax() == 0,
        ABC.weights[0].max() < 0.5,
        ABC.weights[0].min() > 0.1,
    ],
    "article-110": ABC.output[0],
    "article-111": ABC.output,
    "article-116": [
        same(ABC.weights.sum(axis=1), 1),
        ((ABC.output >= 0) & (ABC.output <= 1)).all(),
    ],
    **{f"article-{117 + i}": column for i, column in enumerate(DRAWN.T)},
    "article-124": largest(512, 5) > 0.9,
    "article-126": max(DRAWN[3].max(), largest(512, 5, sqrt(512))) < 0.5,
    "article-130": DRAWN[3].mean(),
    "article-139": same(WEIGHTS.sum(axis=1), 1, 1e-15),
    "article-147": [
        same(MODULE(X[::-1]), OUTPUT[::-1]),
        same(MODULE(X[::-1]).mean(axis=0), OUTPUT.mean(axis=0)),
    ],
    "article-148": same(MODULE(X[ORDER]), OUTPUT[ORDER]),
    "usc-1": sqrt(1 - expected(64, 256, 8.0).jacobian_trace),
    "hello-840a": [sqrt(variance(d, 1)) for d in (16, 64, 256, 1024)],
    "hello-840b": largest(16, 8),
    "infw-1": [
        variance(256, 16) == 1 and theory.score_kurtosis(256) < 0.1,
        variance(256, 256) < 0.1,
    ],
    "ssmax-1": [
        1 / (1 + (n - 1) * n ** (-5 * 0.43)) > 0.9 for n in (2, 5, *10 ** np.arange(1.0, 7))
    ],
    "ngpt-1": [variance(64, 1, UNIT), variance(64, 1, UNIT) ** -0.5],
    "mup-1": optimize.brentq(lambda d: 8 / d - d**-0.5, 1, 4096),
    "se-1": variance(2, 1) * (1 - 1 / 4),
}
