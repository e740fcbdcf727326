"""The experiment of number formats against plain loops that redo every row from the same draws."""

import dataclasses
import math

import ml_dtypes
import numpy as np
import pandas as pd
import pytest
from scipy import special

from experiments.analysis.derived import evaluate, row_cells
from experiments.kinds import eight_bits, rounding
from experiments.kinds.rounding import Cell
from experiments.measuring.experiment import MEASURED
from sdpa import LAWS
from sdpa.arithmetic import FORMATS
from tests.plain_rows import RULES

CELL = Cell(
    d_k=5, n_keys=7, n_queries=4, query_std=6.0, arithmetic=FORMATS["float64"], scaling=RULES
)
TRIALS = 6
VALUES = {field.name: getattr(CELL, field.name) for field in dataclasses.fields(CELL)}
PROBABILITIES = ["tiny_weights", "nearly_one_rows", "large_rows"]
SHARES = [
    *PROBABILITIES,
    "zero_weights",
    "subnormal_weights",
    "one_rows",
    "overflowing_rows",
    "zero_gradients",
    "zero_gradient_rows",
    "wrong_gradient_rows",
    "lost_rows",
]
ERRORS = [
    "row_variance",
    "max_weight",
    "own_weight",
    "entropy",
    "effective_keys",
    "output_std",
    "jacobian_trace",
    "jacobian_norm",
]
CASES = {
    "wide scores": {},
    "scores far apart": {"query_std": 60.0},
    "scores beyond float16": {"query_std": 2e3, "key_std": 10.0},
    "queries beyond float16": {"query_std": 1e5},
    "gradients beyond float16": {"query_std": 4e-5, "key_std": 3e4},
    "tiny scores": {"query_std": 1e-6},
    "tiny gradients": {"key_std": 1e-3, "key_mean": 2e-3},
    "causal mask, scores beyond float16": {"mask": "causal", "query_std": 2e3, "key_std": 10.0},
    "two keys, one query, one entry": {"n_keys": 2, "n_queries": 1, "d_k": 1, "query_std": 20.0},
    "lognormal": {"inputs": LAWS["lognormal"]},
    "normalized": {"normalize": "rms"},
    "long rows": {"n_keys": 60, "query_std": 2.0},
}


def cell_of(name="float16", **change):
    kind = eight_bits if name.startswith("float8") else rounding
    return kind.Cell(**VALUES | {"arithmetic": FORMATS[name], **change})


def of_cell(cell):
    return (eight_bits if isinstance(cell, eight_bits.Cell) else rounding).EXPERIMENT


def rows_of(cell, trials=TRIALS):
    of = of_cell(cell)
    return of.tabulate(cell, of.measure(cell, trials, np.random.default_rng(3)))[MEASURED]


def replay(cell):
    """Query, its visible keys, the gradient to its weights and its own key, of every row: keys, then
    queries and gradients.
    """
    rng, size = np.random.default_rng(3), cell.batch_trials
    for first in range(0, TRIALS, size):
        trials = min(size, TRIALS - first)
        keys = cell.law.keys(rng, (trials, cell.n_keys, cell.d_k))
        for row in range(0, cell.n_queries, cell.batch_queries):
            count = min(cell.batch_queries, cell.n_queries - row)
            queries = cell.law.queries(rng, (trials, count, cell.d_k), None)
            gradient = rng.standard_normal((trials, count, cell.n_keys))
            for trial, i in np.ndindex(trials, count):
                own = cell.n_keys - cell.n_queries + row + i
                seen = own + 1 if cell.mask == "causal" else cell.n_keys
                yield queries[trial, i], keys[trial, :seen], gradient[trial, i, :seen], own


def type_of(name):
    """The NumPy type of a format."""
    return getattr(ml_dtypes, name) if name.startswith(("bf", "float8")) else np.dtype(name).type


def by_loops(q, k, g, divisor, name, prescale=1.0):
    """Scores, weights, dL/dS and dL/dq of one query, with every operation on single numbers
    rounded.
    """
    wide = np.float64 if name == "float64" else np.float32
    kind = type_of(name)

    def to_format(x):
        return wide(kind(wide(x)))

    of_product = wide if name.startswith("float8") else to_format  # scores and dL/dq

    def dot(one, other):
        total = wide(0)
        for x, y in zip(one, other, strict=True):
            total = wide(total + wide(x * y))
        return total

    divisor, prescale = wide(divisor), wide(prescale)
    q = [to_format(x) for x in q]
    g = [to_format(x) for x in g]
    k = [[to_format(x) for x in row] for row in k]
    scores = [of_product(of_product(dot(q, row)) / divisor) for row in k]
    e = [wide(np.exp(wide(s - max(scores)))) for s in scores]
    total = dot(e, [wide(1)] * len(e))
    if name.startswith("float8"):
        w = [to_format(x * prescale) / wide(total * prescale) for x in e]
    else:
        w = [to_format(wide(x / total)) for x in e]
    mean = dot(w, g)
    to_scores = []
    for x, y in zip(w, g, strict=True):
        gradient = to_format(wide(x * wide(y - mean)))
        to_scores.append(to_format(gradient / divisor))
    to_query = [of_product(dot(to_scores, column)) for column in zip(*k, strict=True)]
    return np.array(scores), np.array(w), np.array(to_scores), np.array(to_query)


def of_row(s, w, own):
    """The metrics of `ERRORS`."""
    jacobian = np.diag(w) - np.outer(w, w)
    entropy = special.entr(w).sum()
    return {
        "row_variance": np.var(s),
        "max_weight": max(w),
        "own_weight": w[own],
        "entropy": entropy,
        "effective_keys": math.exp(entropy),
        "output_std": np.linalg.norm(w),
        "jacobian_trace": np.trace(jacobian),
        "jacobian_norm": np.linalg.norm(jacobian),
    }


def plain_row(q, k, g, own, divisor, name, prescale):
    """The shares and errors of one row."""
    limits, n, kind = ml_dtypes.finfo(name), len(k), type_of(name)
    wide = np.float64 if name == "float64" else np.float32
    largest, least = float(limits.max), float(limits.smallest_subnormal)
    s = k @ q / divisor
    e = np.exp(s - max(s))
    w = e / math.fsum(e)
    remainder = math.fsum(np.delete(w, w.argmax()))
    centred = np.array([math.fsum(w * (each - g)) for each in g])
    to_query = (w * centred / divisor) @ k
    with np.errstate(all="ignore"):
        rounded_s, *rest = by_loops(q, k, g, divisor, name, prescale)
        is_lost = not all(np.isfinite(x).all() for x in rest)
        if is_lost:
            rest = np.zeros(n), np.zeros(n), np.zeros(len(q))
        rounded_w, to_scores, rounded_to_query = rest
        overflows = [not np.isfinite(kind(np.exp(wide(x)))) for x in rounded_s]
    is_short = name.startswith("float8")
    before = s - max(s)
    most = largest  # of scores
    factor, least_normal = 1.0, float(limits.smallest_normal) / prescale
    if is_short:
        most = float(np.finfo(np.float32).max)
        factor = prescale * math.fsum(e)
        least_normal *= 0.999999 * max(rounded_w)
    else:
        before -= math.log(math.fsum(e))
    kept_s = np.zeros(n) if is_lost else np.clip(rounded_s.astype(float), -most, most)
    kept_w = rounded_w.astype(float)
    kept = [float(kind(wide(x * factor))) / factor for x in w]
    distance = np.linalg.norm(rounded_to_query - to_query)
    one, other = of_row(kept_s, kept_w, own), of_row(s, w, own)
    return {
        "tiny_weights": (before < math.log(least) - math.log(2 * prescale)).mean(),
        "nearly_one_rows": remainder < 2.0 ** -(25 if is_short else limits.nmant + 2),
        "large_rows": max(s) > math.log(largest),
        "zero_weights": (kept_w == 0).mean(),
        "subnormal_weights": ((kept_w > 0) & (kept_w < least_normal)).mean(),
        "rounding_loss": 1 - math.fsum(kept),
        "lost_mass": 1 - math.fsum(kept_w),
        "one_rows": max(kept_w) == 1,
        "overflowing_rows": any(overflows),
        "zero_gradients": np.mean([x == 0 for x in to_scores]),
        "zero_gradient_rows": not np.any(rounded_to_query),
        "lost_rows": is_lost,
        "wrong_gradient_rows": distance > np.linalg.norm(to_query) / 2,
        "query_gradient": distance,
        **{metric: one[metric] - other[metric] for metric in ERRORS},
    }


# All cases in a format of each experiment, which differ from others in their numbers of bits.
FULL = ("float16", "float8_e4m3fn")
FEW = ("wide scores", "tiny gradients", "causal mask, scores beyond float16")
PRESCALES = {"float8_e4m3fn": (1.0, 128.0), "float8_e5m2": (128.0,)}


@pytest.mark.parametrize(
    ("case", "name"),
    [(case, name) for name in FORMATS for case in CASES if name in FULL or case in FEW],
)
def test_every_column_is_that_of_plain_loops(case, name):
    """Shares are those of the same numbers of weights, gradients and rows.

    Errors of float64 and float32 are those of the order of sums; those of fewer digits are mostly
    not.
    """
    for prescale in PRESCALES.get(name, ()):
        assert_like_loops(cell_of(name, **CASES[case], prescale=prescale))
    if name not in PRESCALES:
        assert_like_loops(cell_of(name, **CASES[case]))


def assert_like_loops(cell):
    name = cell.arithmetic.name
    drawn = list(replay(cell))
    assert len(drawn) == TRIALS * cell.n_queries
    for row, divisor in zip(rows_of(cell), cell.divisors(), strict=True):
        rows = [plain_row(*one, divisor, name, cell.prescale) for one in drawn]
        found = pd.DataFrame(rows).astype(float)
        mean = found.mean()
        shares = {share: row[share] for share in SHARES}
        assert shares == pytest.approx(dict(mean[SHARES]), rel=1e-12)
        for metric in ("rounding_loss", "lost_mass") if name.startswith("float8") else ():
            assert row[metric] == pytest.approx(mean[metric], rel=1e-6, abs=1e-7), metric
        for metric in (*ERRORS, "query_gradient"):
            root, error = math.sqrt(np.mean(found[metric] ** 2)), row[f"{metric}_error"]
            if cell.arithmetic.digits > 11:
                scale = max(1.0, cell.key_std) * max(1.0, cell.query_std * cell.key_std)
                noise = 400 * 2.0**-cell.arithmetic.digits * scale
                assert error <= max(noise, 1.1 * root), metric
                continue
            assert error == pytest.approx(root, rel=0.02, abs=1e-15), metric
            if metric in ERRORS:
                bias = pytest.approx(mean[metric], rel=0.02, abs=0.02 * root + 1e-15)
                assert row[f"{metric}_bias"] == bias, metric


def test_each_experiment_refuses_the_formats_of_the_other():
    """Tables of `rounding` lack the prescale and the lost mass that 8 bits need."""
    short = dataclasses.replace(CELL, arithmetic=FORMATS["float8_e5m2"])
    assert "got float8_e5m2; the experiment eight_bits takes it" in short.problem()
    half = dataclasses.replace(cell_of("float8_e5m2"), arithmetic=FORMATS["float16"])
    assert "got float16; the experiment rounding takes it" in half.problem()


def test_the_cases_have_every_event():
    """No share is compared only where it is 0 or 1."""
    found = set()
    for change in CASES.values():
        for row in rows_of(cell_of(**change)):
            found |= {share for share in SHARES if 0 < row[share] < 1}
    assert found == set(SHARES)


MOVED = {"query_mean": 0.6, "query_std": 1.5, "key_std": 0.8}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("float16", {"mask": "causal"}),
        ("bfloat16", {"n_keys": 2, "n_queries": 1, "d_k": 1, "query_std": 40.0}),
        ("float32", MOVED | {"d_k": 512, "n_keys": 8}),
        ("float8_e4m3fn", {"d_k": 64, "n_keys": 30, "query_std": 0.5, "prescale": 8.0}),
        ("float8_e5m2", {"n_keys": 2, "n_queries": 1, "query_std": 20.0}),
    ],
    ids=str,
)
def test_exact_probabilities_are_those_of_many_trials(name, change):
    """Within 5 standard errors of 1,000 trials, or four events of so many rows."""
    cell = cell_of(name, **change)
    table = pd.DataFrame(rows_of(cell, 1000))
    for share in PROBABILITIES:
        reach = 5 * table[f"{share}_se"] + 4 / (1000 * cell.n_queries)
        assert ((table[share] - exact(share, cell)).abs() <= reach).all(), share


@pytest.mark.parametrize(
    "change",
    [
        {"correlation": 0.5},
        {"normalize": "rms"},
        {"inputs": LAWS["uniform"]},
    ],
)
def test_exact_probabilities_are_empty_where_theory_knows_none(change):
    for name in PROBABILITIES:
        assert np.isnan(exact(name, cell_of(**change))).all()


def exact(name, cell):
    """The exact probability under each rule."""
    (metric,) = (each for each in of_cell(cell).metrics if each.name == name)
    return evaluate(metric.exact.value, row_cells([cell]))
