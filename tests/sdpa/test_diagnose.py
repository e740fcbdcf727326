"""`diagnose` against plain loops over rows with explicit softmax and Jacobian, and against the law
of Gaussian rows.
"""

import math
import statistics
import tracemalloc

import numpy as np
import pytest
from ml_dtypes import bfloat16
from scipy import special

from sdpa import causal_mask, diagnose, diagnose_scores, theory
from sdpa.diagnosis import QUANTITIES, divisor_for
from sdpa.diagnosis.quantities import OF_VECTORS
from tests.plain_attention import entropy, softmax

D_K = 5


def plain_rows(q, k, divisor, visible, softcap=0, sink=None):
    """Scores, weights, lengths and the squared norm of the Jacobian of each row that sees two keys,
    by loops.
    """
    found = []
    for query, sees in zip(q, visible, strict=True):
        keys = [key for key, seen in zip(k, sees, strict=True) if seen]
        if len(keys) < 2:
            continue
        scores = [
            math.fsum(a * b for a, b in zip(query, key, strict=True)) / divisor for key in keys
        ]
        capped = [softcap * math.tanh(s / softcap) for s in scores] if softcap else scores
        weights = softmax([capped if sink is None else [*capped, sink]])[0][: len(keys)]
        slopes = [1 - math.tanh(s / softcap) ** 2 if softcap else 1 for s in scores]
        of_key = list(enumerate(zip(weights, slopes, strict=True)))
        jacobian = [
            [t * (w * (i == j) - w * u) for j, (u, t) in of_key] for i, w in enumerate(weights)
        ]
        squares = [math.fsum(a * a for a in key) for key in keys]
        square = math.fsum(x * x for row in jacobian for x in row)
        length = math.fsum(a * a for a in query) * statistics.fmean(squares)
        found.append((scores, weights, square, length, weights[0] if sees[0] else 0.0))
    return found


def plain_softmax(rows, end):
    """The quantities of `rows` that a softmax has."""
    norms = [math.sqrt(square) for _, _, square, _, _ in rows]
    shares = [[w / math.fsum(weights) for w in weights] for _, weights, *_ in rows]
    of_rows = {
        "row_variance": [statistics.pvariance(scores) for scores, *_ in rows],
        "max_weight": [max(weights) for _, weights, *_ in rows],
        "entropy": [entropy(weights) for weights in shares],
        "entropy_share": [entropy(weights) / math.log(len(weights)) for weights in shares],
        "effective_keys": [math.exp(entropy(weights)) for weights in shares],
        "saturated_rows": [max(weights) > 0.99 for _, weights, *_ in rows],
    }
    found = {name: statistics.fmean(values) for name, values in of_rows.items()} | {
        "jacobian_norm": math.sqrt(statistics.fmean(norm**2 for norm in norms)),
        "jacobian_norm_p10": float(np.quantile(norms, 0.1)),
        "jacobian_norm_median": statistics.median(norms),
        "jacobian_norm_p90": float(np.quantile(norms, 0.9)),
    }
    return {name + end: value for name, value in found.items()}


def plain_diagnosis(sequences, divisor, **mapped):
    """All quantities of one head, from (q, k, visible) of each sequence as nested lists."""
    rows, rest, q, k = [], [], [], []
    for queries, keys, visible in sequences:
        counted = [
            (query, sees) for query, sees in zip(queries, visible, strict=True) if sum(sees) >= 2
        ]
        rows += plain_rows(queries, keys, divisor, visible, **mapped)
        rest += plain_rows(
            [one for one, _ in counted],
            keys[1:],
            divisor,
            [sees[1:] for _, sees in counted],
            **mapped,
        )
        q += [x for query, _ in counted for x in query]
        seen = [any(column) for column in zip(*(sees for _, sees in counted), strict=True)]
        k += [x for key, is_seen in zip(keys, seen, strict=True) if is_seen for x in key]
    d_k = len(sequences[0][0][0])
    scores = [s for row in rows for s in row[0]]
    spread = statistics.fmean(statistics.variance(row[0]) for row in rows)
    lengths = statistics.fmean(row[3] for row in rows)
    of_entries = statistics.pvariance(q) * statistics.pvariance(k)
    unit_divisor = divisor * math.sqrt(
        statistics.fmean(statistics.pvariance(row[0]) for row in rows)
    )
    return {
        "q_mean": statistics.fmean(q),
        "q_std": statistics.pstdev(q),
        "k_mean": statistics.fmean(k),
        "k_std": statistics.pstdev(k),
        "score_variance": statistics.pvariance(scores),
        "variance_ratio": spread / (d_k * of_entries / divisor**2),
        "length_effect": lengths / (d_k**2 * of_entries),
        "alignment_effect": spread / (lengths / d_k / divisor**2),
        "largest_score": max(scores),
        "largest_absolute_score": max(map(abs, scores)),
        "first_key_weight": statistics.fmean(row[4] for row in rows),
        "unit_divisor": unit_divisor,
        "unit_exponent": math.log(unit_divisor) / math.log(d_k),
        **plain_softmax(rows, ""),
        **plain_softmax(rest, "_without_first"),
        **(
            {"visible_mass": statistics.fmean(math.fsum(row[1]) for row in rows)}
            if "sink" in mapped
            else {}
        ),
    }


def inputs(shape_q, shape_k, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal(shape_q), 0.3 + rng.standard_normal(shape_k)


def padding(n_queries, n_keys):
    """A mask whose last two queries and last three keys are padding, and whose query 1 sees a
    single key.
    """
    mask = np.ones((n_queries, n_keys), bool)
    mask[-2:] = mask[:, -3:] = False
    mask[1, 1:] = False
    mask[2, 0] = False
    return mask


WINDOW = ((2, 3, 13, D_K), (2, 3, 13, D_K), "window-5", "d_k^1/2")
CASES = {
    "window": (*WINDOW, 1.0),
    "window and soft cap": (*WINDOW, 4.0, {"softcap": 2.5}),
    "window, soft cap and sink": (*WINDOW, 4.0, {"softcap": 5.0, "sink": 1.5}),
    "saturated and sink": ((2, 7, D_K), (2, 11, D_K), None, "unscaled", 40.0, {"sink": 0.0}),
    "layers": ((2, 2, 3, 7, D_K), (2, 2, 3, 11, D_K), None, "unscaled", 1.0),
    "one head": ((7, D_K), (11, D_K), None, 2.5, 1.0),
    "cached keys": ((2, 3, D_K), (2, 11, D_K), "causal", "d_k^1/2", 1.0),
    "padding": ((2, 3, 7, D_K), (2, 3, 11, D_K), padding(7, 11), "d_k^1/2", 1.0),
    "grouped": ((2, 6, 7, D_K), (2, 3, 7, D_K), "causal", "d_k^1/2", 1.0),
    "saturated": ((2, 7, D_K), (2, 11, D_K), None, "unscaled", 40.0),
    "uniform": ((2, 7, D_K), (2, 11, D_K), None, "d_k^1", 1e-9),
}


def shown(mask, n_queries, n_keys):
    """The keys that each query sees, as nested lists of truth values."""
    if mask is None:
        return [[True] * n_keys] * n_queries
    if isinstance(mask, str):
        most = int(mask.partition("-")[2] or n_keys)
        own = range(n_keys - n_queries, n_keys)
        return [[i - most < j <= i for j in range(n_keys)] for i in own]
    return np.broadcast_to(mask, (n_queries, n_keys)).tolist()


@pytest.mark.parametrize("case", CASES)
def test_every_quantity_is_that_of_plain_loops(case):
    shape_q, shape_k, mask, scaling, scale, *more = CASES[case]
    q, k = inputs(shape_q, shape_k, scale)
    mapped = more[0] if more else {}
    found = diagnose(q, k, scaling, mask, **mapped)
    sequences = found.sequences
    by_sequence = [array.reshape(sequences, -1, *array.shape[-2:]).tolist() for array in (q, k)]
    group = len(by_sequence[0][0]) // len(by_sequence[1][0])
    visible = shown(mask, *q.shape[-2:-1], k.shape[-2])
    names = {quantity.name for quantity in QUANTITIES}
    assert set(found.estimates) - names == ({"visible_mass"} if "sink" in mapped else set())
    assert all(np.isnan(each.gaussian).all() for each in found.estimates.values()) == bool(mapped)
    for head in range(len(by_sequence[0][0])):
        given = [
            (of_q[head], of_k[head // group], visible)
            for of_q, of_k in zip(*by_sequence, strict=True)
        ]
        expected = plain_diagnosis(given, found.divisor, **mapped)
        got = {name: estimate.value.ravel()[head] for name, estimate in found.estimates.items()}
        assert got == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_tiles_change_nothing(monkeypatch):
    q, k = inputs((2, 13, D_K), (2, 13, D_K))
    whole = [
        diagnose(q, k, mask=mask).columns() for mask in (None, "causal", np.tri(13, dtype=bool))
    ]
    monkeypatch.setattr("sdpa.diagnosis.heads._TILE", 40)  # three rows
    tiled = [
        diagnose(q, k, mask=mask).columns() for mask in (None, "causal", np.tri(13, dtype=bool))
    ]
    for one, other in zip(whole, tiled, strict=True):
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-13, atol=1e-15)
    for name in whole[1]:
        np.testing.assert_allclose(whole[1][name], whole[2][name], rtol=1e-13, atol=1e-15)


def test_errors_are_those_of_the_jackknife_over_sequences():
    """From diagnoses without each of the sequences; of a mean, s / sqrt(sequences) of the
    sequences' own means.
    """
    q, k = inputs((6, 2, 7, D_K), (6, 2, 11, D_K))
    q[2] += 1.0
    found = diagnose(q, k)
    without = [diagnose(np.delete(q, b, axis=0), np.delete(k, b, axis=0)) for b in range(6)]
    for quantity in QUANTITIES:
        if quantity.of:
            values = np.array([one[quantity.name].value for one in without])
            np.testing.assert_allclose(
                found[quantity.name].error, np.sqrt(5 * values.var(axis=0)), rtol=1e-7
            )
    alone = np.array([diagnose(q[b], k[b])["max_weight"].value for b in range(6)])
    np.testing.assert_allclose(
        found["max_weight"].error, alone.std(axis=0, ddof=1) / math.sqrt(6), rtol=1e-9
    )


LAWS = [(7, 33, None), (24, 19, "causal")]


@pytest.mark.parametrize(("d_k", "n", "mask"), LAWS)
def test_gaussian_inputs_have_the_values_of_the_exact_law_within_errors(d_k, n, mask):
    """Six metrics of two cases within 5 standard errors: 1 of 100,000 seeds fails.

    The values of Gaussian rows estimate one number, the variance of the head; their errors are no
    larger.
    """
    rng = np.random.default_rng(11)
    q, k = rng.standard_normal((2, 300, 1, n, d_k))
    found = diagnose(q, k, mask=mask)
    law = theory.attention_expectations(d_k, n, "d_k^1/2", shortest=None if mask is None else 2)
    for name in ("max_weight", "entropy", "jacobian_norm", "saturated_rows", "row_variance"):
        value, error, gaussian = (float(of[0]) for of in found[name])
        assert (
            abs(value - getattr(law, name)) < 5 * error < 0.1 * getattr(law, name) or value == 0
        ), name
        assert math.isnan(gaussian) == (name == "row_variance")
        if name != "row_variance":
            assert abs(gaussian - getattr(law, name)) < 5 * error or value == 0, name
    for name in ("variance_ratio", "length_effect", "alignment_effect"):
        assert abs(found[name].value[0] - 1) < 5 * found[name].error[0] < 0.1
    uniform = statistics.fmean(1 / m for m in range(2, n + 1)) if mask else 1 / n
    assert found["first_key_weight"].gaussian[0] == pytest.approx(uniform)
    assert (
        abs(found["first_key_weight"].value[0] - uniform) < 5 * found["first_key_weight"].error[0]
    )


def test_vectors_in_one_direction_have_an_alignment_effect():
    """q_i = a_i u and k_j = b_j u: the variance within a row is |q|^2 Var b, d_k times that of
    random directions.
    """
    rng = np.random.default_rng(2)
    u = np.zeros(64)
    u[::2] = 1 / math.sqrt(32)
    q, k = (rng.choice([-3.0, 3.0], (200, 1)) * u for _ in range(2))
    found = diagnose(q, k)
    mean = np.sign(k @ u).mean()
    assert found["alignment_effect"].value == pytest.approx(64 * (1 - mean**2) * 200 / 199)
    assert found["length_effect"].value == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_a_head_has_the_wanted_value_under_its_own_divisor(strength):
    """A Gaussian head of standard deviation 2, and one whose first key attracts all queries, which
    no law describes.
    """
    q, k = inputs((4, 24, 16), (4, 24, 16), scale=2.0)
    q, k = q + 1, k + strength * (np.arange(24) == 0)[:, None]
    visible = np.tri(24, dtype=bool)[1:]  # a row of a single key does not count
    scores = np.where(visible, (q @ k.swapaxes(-1, -2))[:, 1:], -np.inf)

    def values(divisor):
        weights = special.softmax(scores / divisor, axis=-1)
        entropies = special.entr(weights).sum(axis=-1)
        return {
            "entropy_share": (entropies / np.log(visible.sum(axis=-1))).mean(),
            "effective_keys": np.exp(entropies).mean(),
            "max_weight": weights.max(axis=-1).mean(),
            "row_variance": np.mean(
                [row[seen].var() for x in scores for row, seen in zip(x, visible, strict=True)]
            )
            / divisor**2,
        }

    for target, value in {
        "entropy_share": 0.9,
        "effective_keys": 5,
        "max_weight": 0.4,
        "row_variance": 0.5,
    }.items():
        assert values(divisor_for(target, value, q, k, "causal"))[target] == pytest.approx(
            value, rel=1e-7
        )


@pytest.mark.parametrize("pad", [0, 3])
def test_the_first_key_is_the_first_one_that_a_sequence_sees(pad):
    """Padding in front changes nothing; rows that do not see that key have no weight for it."""
    q, k = inputs((4, 2, 9, D_K), (4, 2, 9, D_K))
    k[:, :, 0] *= 4
    window = np.tri(9, dtype=bool) & ~np.tri(9, k=-4, dtype=bool)
    plain = diagnose(q, k, mask=window)
    padded = [
        np.pad(array, ((0, 0), (0, 0), (pad, 0), (0, 0)), constant_values=np.nan)
        for array in (q, k)
    ]
    found = diagnose(*padded, mask=np.pad(window, ((pad, 0), (pad, 0))))
    for name, estimate in found.estimates.items():
        np.testing.assert_allclose(estimate.value, plain[name].value, rtol=1e-12)
    # Rows 1, 2 and 3 see 2, 3 and 4 keys with key 0 among them; rows 4 to 8 see 4 others.
    assert found["first_key_weight"].gaussian == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 8)


@pytest.mark.parametrize("constant", [0.3, 1e8])
def test_rounding_noise_is_no_variance(constant):
    q, k = inputs((3, 7, D_K), (3, 11, D_K))
    for arrays in ((q, np.full_like(k, constant)), (np.full_like(q, constant), k)):
        assert np.isnan(diagnose(*arrays)["variance_ratio"].value).all()
    same = diagnose(q, np.repeat(k[:, :1], 11, axis=1))
    assert (same["row_variance"].value == 0).all()
    assert np.isnan(same["unit_divisor"].value).all()


A, B = np.zeros((3, 4)), np.zeros((5, 4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((A, np.zeros((5, 6))), r"same d_k \(last axis\), got 4 in q \(3, 4\) and 6 in k \(5, 6\)"),
        ((A, np.zeros((1, 4))), r"k: expected 2 keys or more, got \(1, 4\)"),
        (
            (np.zeros((4, 3, 4)), np.zeros((3, 5, 4))),
            r"or a multiple \(grouped queries\), got 4 in q .* and 3 in k",
        ),
        (
            (np.zeros((2, 4, 3, 4)), np.zeros((1, 4, 5, 4))),
            "same length of the axis 'batch' in q and k",
        ),
        (
            (np.zeros((1, 1, 1, 1, 3, 4)), np.zeros((1, 1, 1, 1, 5, 4))),
            "axes: expected the names of 4 leading axes",
        ),
        (
            (A[None], B[None], 1.0, None, ["rows"]),
            "axes: expected names that no quantity has, got 'rows'",
        ),
        (
            (B, A, "d_k^1/2", "causal"),
            r"at most as many queries as keys for 'causal', got \(5, 3\)",
        ),
        (
            (A, B, "d_k^1/2", np.zeros((3, 5), bool)),
            "mask: expected a query that sees two keys or more, got none$",
        ),
        (
            (np.where([0, 0, 1, 0], math.nan, A)[None], B[None]),
            (
                r"q: expected finite numbers up to 1e\+70 .*, got 3 that are not, the first nan at "
                r"\(0, 2\) in head 0$"
            ),
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        diagnose(*arguments[:4], axes=arguments[4] if len(arguments) > 4 else None)


def test_the_reciprocal_root_is_no_divisor():
    """It multiplies the scores in other libraries; a rule of this value is meant."""
    q, k = inputs((3, 16), (5, 16))
    with pytest.raises(
        ValueError, match=r"^scaling: got 0.25, or 1/sqrt\(d_k\), .* pass d_k\^1/2$"
    ):
        diagnose(q, k, 0.25)
    assert diagnose(q[:, :1], k[:, :1], 1.0).divisor == 1


def test_memory_is_that_of_one_head_and_its_tiles(monkeypatch):
    """A table of the scores of a head would take 18 MB."""
    monkeypatch.setattr("sdpa.diagnosis.heads._TILE", 2**17)
    q, k = np.random.default_rng(0).standard_normal((2, 1500, 8), dtype=np.float32)
    diagnose(q[:9], k[:9], mask="causal")  # loads tables of the theory
    tracemalloc.start()
    diagnose(q, k, mask="causal")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 15e6


@pytest.mark.parametrize("mask", [None, "causal", "padding", "-inf"])
def test_scores_have_the_diagnosis_of_q_and_k_and_gaussian_rows_of_one_spread(mask):
    rng = np.random.default_rng(3)
    q, k = 2 * rng.standard_normal((2, 9, 3, 8, D_K))  # 9 sequences, 3 heads
    scores, visible = q @ k.swapaxes(-1, -2) / 3, np.ones((8, 8), bool)
    if mask == "causal":
        visible = np.tri(8, dtype=bool)
        found = diagnose_scores(np.where(visible, scores, np.nan), mask)
    elif mask == "padding":
        visible[:, :2] = visible[6, 1:] = False
        found = diagnose_scores(scores, visible)
    else:
        visible[0, 3:] = mask is None
        found = diagnose_scores(np.where(visible, scores, -np.inf))
    expected = diagnose(q, k, 3.0, visible)
    assert set(expected.estimates) - set(found.estimates) == OF_VECTORS
    assert (found.d_k, found.n_keys, found.rows.tolist()) == (None, 8, expected.rows.tolist())
    for name, (value, error, _) in found.estimates.items():
        unit = 3.0 if name == "unit_divisor" else 1.0  # of these scores, beyond 3
        np.testing.assert_allclose(value * unit, expected[name].value, rtol=1e-12)
        np.testing.assert_allclose(error * unit, expected[name].error, rtol=1e-9)
    counts = [n for n in visible.sum(axis=-1) if n >= 2]
    unbiased = [
        [
            [row[sees].var(ddof=1) for row, sees in zip(s, visible, strict=True) if sees.sum() > 1]
            for s in head
        ]
        for head in scores.swapaxes(0, 1)
    ]
    for head, variances in enumerate(unbiased):
        rows = [theory.GaussianRow(math.sqrt(np.mean(variances)), int(n)) for n in counts]
        gaussian = np.mean([row.max_weight() for row in rows])
        assert found["max_weight"].gaussian[head] == pytest.approx(gaussian, rel=2e-5)


def test_visible_scores_are_finite_numbers_of_two_keys():
    for scores, message in (
        ([[[0.0, np.inf]]], r"scores: expected finite numbers .* in head 0"),
        ([[0.0, np.nan]], "scores: expected finite numbers"),
        ([[0.0], [1.0]], "scores: expected 2 keys or more"),
        (
            [0.0, 1.0],
            r"scores: expected \(..., n_queries, n_keys\) without an empty axis, got \(2,\)",
        ),
        ([[0.0, -np.inf]], "mask: expected a query that sees two keys"),
    ):
        with pytest.raises(ValueError, match=message):
            diagnose_scores(scores)


@pytest.mark.parametrize("dtype", ["float64", "float16", bfloat16])
def test_weights_are_no_scores_and_their_logarithms_are(dtype):
    scores = np.random.default_rng(0).standard_normal((3, 7, 11))
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    logarithms, weights = np.log(weights), weights.astype(dtype)
    weights[2, 5:] = 0  # padding
    padded = np.concatenate([np.zeros_like(weights[:1]), weights])
    for given in (weights, padded):
        with pytest.raises(
            ValueError, match=r"as weights do; np\.log\(weights\) has the same softmax"
        ):
            diagnose_scores(given)
    assert diagnose_scores(weights / 2)["entropy"].value.all()  # as small scores may be
    found, of_logarithms = diagnose_scores(scores), diagnose_scores(logarithms)
    for name in ("entropy", "max_weight", "row_variance"):
        np.testing.assert_allclose(of_logarithms[name].value, found[name].value, rtol=1e-9)


@pytest.mark.parametrize("hidden", [-1e4, -65504, float(np.finfo(np.float32).min)])
def test_a_finite_mask_hides_scores_as_minus_infinity_does(hidden):
    scores = np.random.default_rng(0).standard_normal((2, 5, 11))
    causal = causal_mask(5, 11)
    added = diagnose_scores(scores + np.where(causal, 0, hidden))
    exact = diagnose_scores(np.where(causal, scores, -np.inf))
    for name in ("entropy", "row_variance", "max_weight"):
        np.testing.assert_array_equal(added[name].value, exact[name].value)


def test_a_divisor_for_each_row_is_refused_beside_a_mask():
    """One divisor for all rows would be silently wrong."""
    q, k = np.random.default_rng(0).standard_normal((2, 1, 6, 8))
    with pytest.raises(ValueError, match="expected no n_visible beside a mask"):
        diagnose(q, k, "d_k^1/2/ln(n_visible)", mask="causal")
