"""`diagnose` against plain loops over rows with explicit softmax and Jacobian, and against
Gaussian rows.
"""

import math
import tracemalloc
from statistics import fmean, median, pstdev, pvariance, variance
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

from sdpa import causal_mask, diagnose, diagnose_scores, theory
from sdpa.diagnosis import QUANTITIES, divisor_for
from sdpa.diagnosis.quantities import OF_VECTORS
from sdpa.masks import named_mask
from tests.numerics import in_bfloat16, normals
from tests.plain_attention import dot, entropy, softmax_of_row

D_K = 5


class PlainRow(NamedTuple):
    """A row that sees two keys, by loops: the squared norm of its Jacobian, |q|^2 times the mean of
    |k|^2, and the weight of the first key.
    """

    scores: list[float]
    weights: list[float]
    jacobian_square: float
    length: float
    of_first: float


def only(values, seen):
    return [value for value, is_seen in zip(values, seen, strict=True) if is_seen]


def plain_row(query, keys, divisor, softcap, sink):
    scores = [dot(query, key) / divisor for key in keys]
    logits = [softcap * math.tanh(s / softcap) for s in scores] if softcap else list(scores)
    if sink is not None:
        logits.append(sink)
    weights = softmax_of_row(logits)[: len(keys)]
    slopes = [1 - math.tanh(s / softcap) ** 2 if softcap else 1 for s in scores]
    w = np.array(weights)
    jacobian = (np.diag(w) - np.outer(w, w)) * slopes
    length = dot(query, query) * fmean(dot(key, key) for key in keys)
    return PlainRow(scores, weights, (jacobian**2).sum(), length, weights[0])


def plain_rows(q, k, divisor, visible, softcap=0, sink=None):
    found = []
    for query, sees in zip(q, visible, strict=True):
        if sum(sees) >= 2:
            row = plain_row(query, only(k, sees), divisor, softcap, sink)
            found.append(row if sees[0] else row._replace(of_first=0.0))
    return found


def plain_most_attended(rows, visible):
    """The key that gets the most weight from rows, this weight, and the number of rows in which it
    has the largest weight.
    """
    of_keys, largest = [0.0] * len(visible[0]), []
    for row, sees in zip(rows, visible, strict=True):
        seen = [j for j, is_seen in enumerate(sees) if is_seen]
        for j, w in zip(seen, row.weights, strict=True):
            of_keys[j] += w
        largest.append(seen[row.weights.index(max(row.weights))])
    key = of_keys.index(max(of_keys))
    return key, of_keys[key], largest.count(key)


def majority(places):
    """The place that more than half of them are; NaN without one."""
    found = [place for place in places if 2 * places.count(place) > len(places)]
    return float(found[0]) if found else math.nan


def plain_softmax(rows, end):
    """The quantities of `rows` that a softmax has."""
    norms = [math.sqrt(row.jacobian_square) for row in rows]
    found = {
        "row_variance": fmean(pvariance(row.scores) for row in rows),
        "max_weight": fmean(max(row.weights) for row in rows),
        "saturated_rows": fmean(max(row.weights) > 0.99 for row in rows),
        "jacobian_norm": math.sqrt(fmean(norm**2 for norm in norms)),
        "jacobian_norm_p10": float(np.quantile(norms, 0.1)),
        "jacobian_norm_median": median(norms),
        "jacobian_norm_p90": float(np.quantile(norms, 0.9)),
    }
    shares = [[w / math.fsum(row.weights) for w in row.weights] for row in rows]
    entropies = [entropy(share) for share in shares]
    uniform = [math.log(len(share)) for share in shares]
    found["entropy"] = fmean(entropies)
    found["entropy_share"] = fmean(h / most for h, most in zip(entropies, uniform, strict=True))
    found["effective_keys"] = fmean(math.exp(h) for h in entropies)
    return {name + end: value for name, value in found.items()}


def plain_diagnosis(sequences, divisor, **mapped):
    """All quantities of one head, from (q, k, visible) of each sequence as nested lists."""
    rows, rest, q, k, most_attended = [], [], [], [], []
    for queries, keys, visible in sequences:
        counts = [sum(sees) >= 2 for sees in visible]
        queries, visible = only(queries, counts), only(visible, counts)
        of_sequence = plain_rows(queries, keys, divisor, visible, **mapped)
        rows += of_sequence
        most_attended.append(plain_most_attended(of_sequence, visible))
        without_first = [sees[1:] for sees in visible]
        rest += plain_rows(queries, keys[1:], divisor, without_first, **mapped)
        q += [x for query in queries for x in query]
        used = only(keys, [any(column) for column in zip(*visible, strict=True)])
        k += [x for key in used for x in key]
    d_k = len(sequences[0][0][0])
    scores = [s for row in rows for s in row.scores]
    spread = fmean(variance(row.scores) for row in rows)
    length = fmean(row.length for row in rows)
    of_entries = pvariance(q) * pvariance(k)
    unit_divisor = divisor * math.sqrt(fmean(pvariance(row.scores) for row in rows))
    found = {
        "q_mean": fmean(q),
        "q_std": pstdev(q),
        "k_mean": fmean(k),
        "k_std": pstdev(k),
        "score_variance": pvariance(scores),
        "variance_ratio": spread / (d_k * of_entries / divisor**2),
        "length_effect": length / (d_k**2 * of_entries),
        "alignment_effect": spread / (length / d_k / divisor**2),
        "largest_score": max(scores),
        "largest_absolute_score": max(map(abs, scores)),
        "first_key_weight": fmean(row.of_first for row in rows),
        "most_attended_key": majority([key for key, *_ in most_attended]),
        "most_attended_share": sum(weight for _, weight, _ in most_attended) / len(rows),
        "most_attended_rows": sum(largest for *_, largest in most_attended) / len(rows),
        "unit_divisor": unit_divisor,
        "unit_exponent": math.log(unit_divisor) / math.log(d_k),
    }
    if "sink" in mapped:
        found["visible_mass"] = fmean(math.fsum(row.weights) for row in rows)
    return found | plain_softmax(rows, "") | plain_softmax(rest, "_without_first")


def inputs(shape_q, shape_k, scale=1.0):
    rng = np.random.default_rng(0)
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


def shown(mask, n_queries, n_keys):
    """The keys that each query sees, as nested lists of truth values."""
    if mask is None:
        return [[True] * n_keys] * n_queries
    if isinstance(mask, str):
        most = int(mask.partition("-")[2] or n_keys)
        own = range(n_keys - n_queries, n_keys)
        if mask.startswith("local"):
            return [[abs(j - i) <= most for j in range(n_keys)] for i in own]
        return [[i - most < j <= i for j in range(n_keys)] for i in own]
    return mask.tolist()


def case(shape_q, shape_k, mask=None, scaling="d_k^1/2", scale=1.0, **mapped):
    return shape_q, shape_k, mask, scaling, scale, mapped


WINDOW = (2, 1, 13, D_K), (2, 1, 13, D_K), "window-5"
CASES = {
    "grouped, with sinks": case((2, 4, 7, D_K), (2, 2, 7, D_K), sink=(-2.0, 3.0, 0.0, -9.0)),
    "window, soft cap and sink": case(*WINDOW, scale=4.0, softcap=5.0, sink=1.5),
    "layers": case((2, 2, 2, 7, D_K), (2, 2, 2, 11, D_K)),
    "one head with cached keys": case((3, D_K), (11, D_K), "causal", 2.5),
    "padding": case((2, 2, 7, D_K), (2, 2, 11, D_K), padding(7, 11)),
    "saturated": case(*WINDOW, scaling="unscaled", scale=40.0),
    "nearly uniform": case((2, 7, D_K), (2, 13, D_K), "local-6", "d_k^1", 1e-9),
}


@pytest.mark.parametrize("name", CASES)
def test_every_quantity_is_that_of_plain_loops(name, monkeypatch):
    """In tiles of two or four rows."""
    monkeypatch.setattr("sdpa.diagnosis.heads._TILE", 2**5)
    shape_q, shape_k, mask, scaling, scale, mapped = CASES[name]
    q, k = inputs(shape_q, shape_k, scale)
    found = diagnose(q, k, scaling, mask, **mapped)
    names = {quantity.name for quantity in QUANTITIES}
    assert set(found.estimates) - names == ({"visible_mass"} if "sink" in mapped else set())
    unknown = all(np.isnan(each.gaussian).all() for each in found.estimates.values())
    assert unknown == bool(mapped)
    if q.ndim == 5:  # layers stand before the batch
        q, k = q.swapaxes(0, 1), k.swapaxes(0, 1)
    of_q = q.reshape(found.sequences, -1, *q.shape[-2:])
    of_k = k.reshape(found.sequences, -1, *k.shape[-2:])
    group = of_q.shape[1] // of_k.shape[1]
    visible = shown(mask, q.shape[-2], k.shape[-2])
    for head in range(of_q.shape[1]):
        queries = of_q[:, head].tolist()
        keys = of_k[:, head // group].tolist()
        sequences = [(*each, visible) for each in zip(queries, keys, strict=True)]
        of_head = {key: np.broadcast_to(x, of_q.shape[1])[head] for key, x in mapped.items()}
        expected = plain_diagnosis(sequences, found.divisor, **of_head)
        got = {name: estimate.value.ravel()[head] for name, estimate in found.estimates.items()}
        assert got == pytest.approx(expected, rel=1e-10, abs=1e-10, nan_ok=True)


def test_its_text_has_a_line_for_each_quantity():
    """Not the arrays of all heads."""
    found = diagnose(A, B)
    shown = repr(found).splitlines()
    assert [line.split()[0] for line in shown[1:]] == list(found.estimates)


def test_long_heads_come_in_tiles(monkeypatch):
    """A table of the scores of the head would take 3.9 MB."""
    monkeypatch.setattr("sdpa.diagnosis.heads._TILE", 2**14)
    q, k = np.random.default_rng(0).standard_normal((2, 700, 8), dtype=np.float32)
    diagnose(q[:9], k, exact=False)  # what is loaded at first does not count
    tracemalloc.start()
    found = diagnose(q, k, exact=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3e6
    weights = special.softmax(q.astype(float) @ k.T.astype(float) / math.sqrt(8), axis=-1)
    assert found["max_weight"].value == pytest.approx(weights.max(axis=-1).mean(), rel=1e-12)


def test_errors_are_those_of_the_jackknife_over_sequences():
    """From diagnoses without each of the sequences."""
    q, k = inputs((6, 2, 7, D_K), (6, 2, 11, D_K))
    q[2] += 1.0
    found = diagnose(q, k, exact=False)
    without = [
        diagnose(np.delete(q, b, axis=0), np.delete(k, b, axis=0), exact=False) for b in range(6)
    ]
    for name in [quantity.name for quantity in QUANTITIES if quantity.of]:
        values = [one[name].value for one in without]
        error = math.sqrt(5) * np.std(values, axis=0)
        assert_allclose(found[name].error, error, rtol=1e-7)


def test_errors_of_quantiles_are_their_deviations_over_samples():
    """Within a third, of 60 samples of 12 sequences, as heads."""
    q, k = normals(2, 12, 60, 9, D_K, seed=1)
    value, error, _ = diagnose(q, k, exact=False)["jacobian_norm_p10"]
    assert error.mean() == pytest.approx(value.std(), rel=1 / 3)


@pytest.mark.parametrize(
    ("target", "value"),
    [("entropy_share", 0.9), ("entropy", 1.6), ("max_weight", 0.4), ("row_variance", 0.5)],
)
def test_a_head_has_the_wanted_value_under_its_own_divisor(target, value):
    """The first key attracts all queries, which no law describes."""
    q, k = inputs((4, 24, 16), (4, 24, 16), scale=2.0)
    q += 1
    k[:, 0] += 3
    sequences = q[:, None], k[:, None]
    divisor = divisor_for(target, value, q, k, "causal")
    found = diagnose(*sequences, divisor, "causal", exact=False)
    assert found[target].value == pytest.approx(value, rel=1e-7)


def test_the_first_key_is_the_first_one_that_a_sequence_sees():
    """Padding in front changes nothing; rows that do not see that key have no weight for it."""
    q, k = inputs((4, 2, 9, D_K), (4, 2, 9, D_K))
    k[:, :, 0] *= 4
    plain = diagnose(q, k, mask="window-4")
    # Rows 1, 2 and 3 see 2, 3 and 4 keys with key 0 among them; rows 4 to 8 see 4 others.
    assert plain["first_key_weight"].gaussian == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 8)
    front = ((0, 0), (0, 0), (3, 0), (0, 0))
    padded = (np.pad(array, front, constant_values=np.nan) for array in (q, k))
    mask = np.pad(named_mask("window-4", 9, 9), ((3, 0), (3, 0)))
    found = diagnose(*padded, mask=mask)
    for name, estimate in found.estimates.items():
        assert_allclose(estimate.value, plain[name].value, rtol=1e-12)
        assert_allclose(estimate.gaussian, plain[name].gaussian, rtol=1e-12)


@pytest.mark.parametrize("constant", [0.3, 1e8])
def test_rounding_noise_is_no_variance(constant):
    q, k = inputs((3, 7, D_K), (3, 11, D_K))
    for arrays in ((q, np.full_like(k, constant)), (np.full_like(q, constant), k)):
        assert np.isnan(diagnose(*arrays, exact=False)["variance_ratio"].value).all()
    same = diagnose(q, np.repeat(k[:, :1], 11, axis=1), exact=False)
    assert (same["row_variance"].value == 0).all()
    assert np.isnan(same["unit_divisor"].value).all()


A, B = np.zeros((3, 4)), np.zeros((5, 4))
HIDDEN = np.zeros((3, 5), bool)
NOT_FINITE = np.where([0, 0, 1, 0], math.nan, A)


@pytest.mark.parametrize(
    ("q", "k", "options", "message"),
    [
        (
            np.zeros((4, 3, 4)),
            np.zeros((3, 5, 4)),
            {},
            r"or a multiple \(grouped queries\), got 4 in q .* and 3 in k",
        ),
        (
            np.zeros((2, 4, 3, 4)),
            np.zeros((1, 4, 5, 4)),
            {},
            "same length of the axis 'batch' in q and k",
        ),
        (A[None], B[None], {"axes": ["rows"]}, "expected names that no quantity has, got 'rows'"),
        (A, B, {"scaling": "ln(n_visible)", "mask": HIDDEN}, "expected no n_visible beside a mask"),
        (A, B, {"mask": True}, "mask: expected a name such as 'causal', or an array, got True"),
        (A, B, {"sink": np.zeros(2)}, "sink: expected .* one for each of 1 heads of q, got 2"),
        (A, B, {"mask": HIDDEN}, "expected a query that sees two keys or more, got none$"),
        (
            NOT_FINITE[None],
            B[None],
            {},
            r"q: expected finite numbers .*, got 3 .*, the first nan at \(0, 2\) in head 0$",
        ),
    ],
)
def test_wrong_arguments_are_refused(q, k, options, message):
    with pytest.raises(ValueError, match=message):
        diagnose(q, k, **options)


SOME = np.ones((8, 8), bool)
SOME[:, :2] = SOME[6, 1:] = False
CAUSAL = np.tri(8, dtype=bool)


@pytest.mark.parametrize(
    ("visible", "hidden", "mask"),
    [(CAUSAL, np.nan, "causal"), (SOME, 0, SOME), (SOME, -np.inf, None)],
)
def test_scores_have_the_diagnosis_of_q_and_k_and_gaussian_rows_of_one_spread(
    visible, hidden, mask
):
    q, k = 2 * normals(2, 9, 3, 8, D_K, seed=3)  # 9 sequences, 3 heads
    scores = q @ k.swapaxes(-1, -2) / 3
    found = diagnose_scores(np.where(visible, scores, hidden), mask)
    expected = diagnose(q, k, 3.0, visible)
    assert set(expected.estimates) - set(found.estimates) == OF_VECTORS
    assert (found.d_k, found.n_keys) == (None, 8)
    assert found.rows.tolist() == expected.rows.tolist()
    for name, (value, error, _) in found.estimates.items():
        unit = 3.0 if name == "unit_divisor" else 1.0  # of these scores, beyond 3
        assert_allclose(value * unit, expected[name].value, rtol=1e-12)
        assert_allclose(error * unit, expected[name].error, rtol=1e-9)
    counts = visible.sum(axis=-1)
    counted = counts > 1
    of_rows = scores[..., counted, :].var(axis=-1, ddof=1, where=visible[counted])
    for head, square in enumerate(of_rows.mean(axis=(0, 2))):
        rows = [theory.GaussianRow(math.sqrt(square), int(n)) for n in counts[counted]]
        exact = {
            "max_weight": fmean(row.max_weight() for row in rows),
            "entropy": fmean(row.entropy() for row in rows),
            "jacobian_norm": math.sqrt(fmean(row.jacobian_square() for row in rows)),
            "saturated_rows": fmean(row.remainder_below(math.log(0.01)) for row in rows),
        }
        gaussian = {name: found[name].gaussian[head] for name in exact}
        assert gaussian == pytest.approx(exact, rel=5e-5)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[[0.0, np.inf]]], r"scores: expected finite numbers .* in head 0"),
        ([[0.0], [1.0]], "scores: expected 2 keys or more"),
        ([0.0, 1.0], r"expected \(..., n_queries, n_keys\) without an empty axis, got \(2,\)"),
    ],
)
def test_visible_scores_are_finite_numbers_of_two_keys(scores, message):
    with pytest.raises(ValueError, match=message):
        diagnose_scores(scores)


def test_weights_are_no_scores():
    scores = normals(3, 7, 11)
    weights = in_bfloat16(special.softmax(scores, axis=-1))
    weights[2, 5:] = 0  # padding
    message = r"as weights do; np\.log\(weights\) has the same softmax"
    for given in (weights, np.concatenate([np.zeros_like(weights[:1]), weights])):
        with pytest.raises(ValueError, match=message):
            diagnose_scores(given)
    assert diagnose_scores(weights / 2)["entropy"].value.all()  # as small scores may be


@pytest.mark.parametrize("hidden", [-1e4, float(np.finfo(np.float32).min)])
def test_a_finite_mask_hides_scores_as_minus_infinity_does(hidden):
    scores = normals(2, 5, 11)
    causal = causal_mask(5, 11)
    causal[1] = False  # a query of padding sees no key
    added = diagnose_scores(scores + np.where(causal, 0, hidden))
    exact = diagnose_scores(np.where(causal, scores, -np.inf))
    for name in ("entropy", "row_variance", "max_weight"):
        assert_array_equal(added[name].value, exact[name].value)
