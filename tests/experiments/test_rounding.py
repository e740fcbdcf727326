"""The experiment of number formats against plain loops that redo every row from the same draws."""

import dataclasses
import math

import ml_dtypes
import numpy as np
import pandas as pd
import pytest

from experiments.analysis.derived import add_exact
from experiments.kinds import eight_bits, rounding
from experiments.kinds.rounding import Cell
from experiments.measuring.columns import axis_values
from experiments.measuring.experiment import MEASURED
from sdpa import LAWS, Scaling
from sdpa.arithmetic import FORMATS, Arithmetic
from tests.plain_formats import by_loops, type_of

RULES = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2")))
CELL = Cell(
    d_k=5, n_keys=7, n_queries=4, query_std=6.0, arithmetic=FORMATS["float64"], scaling=RULES
)
TRIALS = 6
SHARES = (
    *(
        "tiny_weights",
        "nearly_one_rows",
        "large_rows",
        "zero_weights",
        "subnormal_weights",
        "one_rows",
    ),
    *(
        "overflowing_rows",
        "zero_gradients",
        "zero_gradient_rows",
        "wrong_gradient_rows",
        "lost_rows",
    ),
)
ERRORS = (
    *("row_variance", "max_weight", "own_weight", "entropy", "effective_keys", "output_std"),
    *("jacobian_trace", "jacobian_norm"),
)
CASES = {
    "wide scores": {},
    "scores of spread 1": {"query_std": 1.0},
    "scores far apart": {"query_std": 60.0},
    "scores beyond float16": {"query_std": 2e3, "key_std": 10.0},
    "queries beyond float16": {"query_std": 1e5},
    "gradients beyond float16": {"query_std": 4e-5, "key_std": 3e4},
    "tiny scores": {"query_std": 1e-6},
    "tiny gradients": {"key_std": 1e-3},
    "causal mask": {"mask": "causal", "n_queries": 7},
    "causal mask, scores beyond float16": {"mask": "causal", "query_std": 2e3, "key_std": 10.0},
    "two keys, one query, one entry": {"n_keys": 2, "n_queries": 1, "d_k": 1, "query_std": 20.0},
    "lognormal": {"inputs": LAWS["lognormal"]},
    "mean of the keys": {"key_mean": 2.0},
    "normalized": {"normalize": "rms"},
    "long rows": {"n_keys": 60, "query_std": 2.0},
}


def rows_of(cell: Cell, seed: int = 3, trials: int = TRIALS):
    of = (eight_bits if isinstance(cell, eight_bits.Cell) else rounding).EXPERIMENT
    return of.tabulate(cell, of.measure(cell, trials, np.random.default_rng(seed)))[MEASURED]


def replay(cell: Cell, seed: int = 3):
    """Query, its visible keys and the gradient to its weights, of every row: keys, then queries and
    gradients.
    """
    rng, size = np.random.default_rng(seed), cell.block_trials
    for first in range(0, TRIALS, size):
        trials = min(size, TRIALS - first)
        keys = cell.law.keys(rng, (trials, cell.n_keys, cell.d_k))
        for row in range(0, cell.n_queries, cell.block_queries):
            count = min(cell.block_queries, cell.n_queries - row)
            queries = cell.law.queries(rng, (trials, count, cell.d_k), None)
            gradient = rng.standard_normal((trials, count, cell.n_keys))
            for trial in range(trials):
                for i in range(count):
                    seen = (
                        cell.n_keys - cell.n_queries + row + i + 1
                        if cell.mask == "causal"
                        else cell.n_keys
                    )
                    own = cell.n_keys - cell.n_queries + row + i
                    yield queries[trial, i], keys[trial, :seen], gradient[trial, i, :seen], own


def of_row(s, w, own):
    """The metrics of `ERRORS`."""
    jacobian = np.diag(w) - np.outer(w, w)
    entropy = -sum(x * math.log(x) for x in w if x > 0)
    return {
        "row_variance": np.var(s),
        "max_weight": max(w),
        "own_weight": w[own],
        "entropy": entropy,
        "effective_keys": math.exp(entropy),
        "output_std": math.sqrt(sum(x * x for x in w)),
        "jacobian_trace": np.trace(jacobian),
        "jacobian_norm": math.sqrt((jacobian**2).sum()),
    }


def plain_row(q, k, g, own, divisor, name, prescale):
    """The shares and errors of one row."""
    limits, n, kind = ml_dtypes.finfo(name), len(k), type_of(name)
    wide = np.float64 if name == "float64" else np.float32
    largest, least = float(limits.max), float(limits.smallest_subnormal)
    s = [float(q @ x) / divisor for x in k]
    e = [math.exp(x - max(s)) for x in s]
    w = [x / math.fsum(e) for x in e]
    log_w = [x - max(s) - math.log(math.fsum(e)) for x in s]
    top = w.index(max(w))
    remainder = math.fsum(x for j, x in enumerate(w) if j != top)
    centred = [math.fsum(x * (y - other) for x, other in zip(w, g, strict=True)) for y in g]
    to_query = sum(x * y / divisor * key for x, y, key in zip(w, centred, k, strict=True))
    with np.errstate(all="ignore"):
        rounded_s, rounded_w, to_scores, rounded_to_query = by_loops(
            q, k, g, divisor, name, prescale
        )
        is_lost = not all(np.isfinite(x).all() for x in (rounded_w, to_scores, rounded_to_query))
        if is_lost:
            rounded_w, to_scores, rounded_to_query = (
                np.zeros(len(x)) for x in (rounded_w, to_scores, to_query)
            )
        overflows = [not np.isfinite(kind(np.exp(wide(x)))) for x in rounded_s]
    is_short = name.startswith("float8")
    before = [x - max(s) for x in s] if is_short else log_w
    factor = prescale * math.fsum(e) if is_short else 1.0
    least_normal = (
        float(limits.smallest_normal) / prescale * (0.999999 * max(rounded_w) if is_short else 1.0)
    )
    found = {
        "tiny_weights": sum(x < math.log(least) - math.log(2 * prescale) for x in before) / n,
        "nearly_one_rows": remainder < 2.0 ** -(25 if is_short else limits.nmant + 2),
        "large_rows": max(s) > math.log(largest),
        "zero_weights": sum(x == 0 for x in rounded_w) / n,
        "subnormal_weights": sum(0 < x < least_normal for x in rounded_w) / n,
        "rounding_loss": 1 - math.fsum(float(kind(wide(x * factor))) / factor for x in w),
        "lost_mass": 1 - math.fsum(float(x) for x in rounded_w),
        "one_rows": max(rounded_w) == 1,
        "overflowing_rows": any(overflows),
        "zero_gradients": sum(x == 0 for x in to_scores) / n,
        "zero_gradient_rows": all(x == 0 for x in rounded_to_query),
        "lost_rows": is_lost,
        "wrong_gradient_rows": np.linalg.norm(rounded_to_query - to_query)
        > np.linalg.norm(to_query) / 2,
        "query_gradient": np.linalg.norm(rounded_to_query - to_query),
    }
    most = float(np.finfo(np.float32).max) if is_short else largest  # of scores
    kept_s = np.zeros(n) if is_lost else np.clip(rounded_s.astype(float), -most, most)
    one = of_row(kept_s, rounded_w.astype(float), own)
    other = of_row(np.array(s), np.array(w), own)
    return found | {metric: one[metric] - other[metric] for metric in ERRORS}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_every_column_is_that_of_plain_loops(case, name):
    """Shares are those of the same numbers of weights, gradients and rows.

    Errors of float64 and float32 are those of the order of sums; those of fewer digits are mostly
    not.
    """
    values = {each.name: getattr(CELL, each.name) for each in dataclasses.fields(CELL)}
    values |= {"arithmetic": Arithmetic.parse(name), **CASES[case]}
    if name.startswith("float8"):
        assert_like_loops(eight_bits.Cell(**values))
        assert_like_loops(eight_bits.Cell(**values, prescale=128.0))
    else:
        assert_like_loops(rounding.Cell(**values))


def assert_like_loops(cell):
    name = cell.arithmetic.name
    for row, divisor in zip(rows_of(cell), cell.divisors(), strict=True):
        found = pd.DataFrame(
            [plain_row(*drawn, divisor, name, cell.prescale) for drawn in replay(cell)]
        ).astype(float)
        assert len(found) == TRIALS * cell.n_queries
        assert {share: row[share] for share in SHARES} == pytest.approx(
            dict(found[[*SHARES]].mean()), rel=1e-12
        )
        for metric in ("rounding_loss", "lost_mass") if name.startswith("float8") else ():
            assert row[metric] == pytest.approx(found[metric].mean(), rel=1e-6, abs=1e-7), metric
        for metric in (*ERRORS, "query_gradient"):
            root = math.sqrt(np.mean(found[metric] ** 2))
            if cell.arithmetic.digits > 11:
                scale = max(1.0, cell.key_std) * max(1.0, cell.query_std * cell.key_std)
                noise = 400 * 2.0**-cell.arithmetic.digits * scale
                assert row[f"{metric}_error"] <= max(noise, 1.1 * root), metric
            else:
                assert row[f"{metric}_error"] == pytest.approx(root, rel=0.02, abs=1e-15), metric
                if metric in ERRORS:
                    expected = found[metric].mean()
                    assert row[f"{metric}_bias"] == pytest.approx(
                        expected, rel=0.02, abs=0.02 * root + 1e-15
                    ), metric


def test_each_experiment_refuses_the_formats_of_the_other():
    """Tables of `rounding` lack the prescale and the lost mass that 8 bits need."""
    short, half = FORMATS["float8_e5m2"], FORMATS["float16"]
    assert (
        "got float8_e5m2; the experiment eight_bits takes it"
        in dataclasses.replace(CELL, arithmetic=short).problem()
    )
    values = {each.name: getattr(CELL, each.name) for each in dataclasses.fields(CELL)} | {
        "arithmetic": half
    }
    assert "got float16; the experiment rounding takes it" in eight_bits.Cell(**values).problem()


def test_the_cases_have_every_event():
    """No share is compared only where it is 0 or 1."""
    shares = {
        (share, row[share])
        for change in CASES.values()
        for name in FORMATS
        for row in rows_of(dataclasses.replace(CELL, arithmetic=Arithmetic.parse(name), **change))
        for share in SHARES
    }
    assert {share for share, value in shares if 0 < value < 1} == set(SHARES)


@pytest.mark.parametrize(
    ("change", "is_known"),
    [
        ({}, True),
        ({"query_mean": 1.0}, True),
        ({"mask": "causal"}, True),
        ({"n_keys": 2, "n_queries": 1, "d_k": 1}, True),
        ({"query_std": 1e-6}, True),
        ({"query_std": 1e6}, True),
        ({"key_mean": 1.0}, False),
        ({"correlation": 0.5}, False),
        ({"spectrum": 1.0}, False),
        ({"normalize": "rms"}, False),
        *(({"inputs": law}, False) for name, law in LAWS.items() if name != "gaussian"),
    ],
)
def test_exact_probabilities_are_right_or_empty(change, is_known):
    """Within 5 standard errors of 400 trials, or four events of so many rows."""
    cell = dataclasses.replace(CELL, arithmetic=FORMATS["float16"], **change)
    rows = rows_of(cell, trials=400)
    table = add_exact(
        rounding.EXPERIMENT, pd.DataFrame([{**axis_values(cell), **row} for row in rows]), [cell]
    )
    for name in ("tiny_weights", "nearly_one_rows", "large_rows"):
        assert table[f"{name}_exact"].notna().all() == is_known
        assert table[f"{name}_exact"].isna().all() != is_known
        if is_known:
            reach = 5 * table[f"{name}_se"] + 4 / (400 * cell.n_queries)
            assert ((table[name] - table[f"{name}_exact"]).abs() <= reach).all(), name


@pytest.mark.parametrize(
    ("prescale", "above", "of_row", "of_others"),
    [(256, 13, 0.006, 0.21), (1, 8, 0.35, 0.42), (1, 10, 0.37, 0.97)],
)
def test_a_sink_takes_what_a_prescale_keeps(prescale, above, of_row, of_others):
    """The numbers of docs/cases.md, for weights e^(s - max s) in 8 bits, as fused kernels round
    them.
    """
    others = np.random.default_rng(0).standard_normal((40, 8192))
    weights = np.exp(np.column_stack([others, np.full(40, above)]) - above)
    kept = (weights * prescale).astype(ml_dtypes.float8_e4m3fn).astype(float) / prescale
    lost = weights - kept
    assert (lost.sum(axis=1) / weights.sum(axis=1)).mean() == pytest.approx(of_row, abs=0.01)
    assert (lost[:, :-1].sum(axis=1) / weights[:, :-1].sum(axis=1)).mean() == pytest.approx(
        of_others, abs=0.01
    )
