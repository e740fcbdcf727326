"""Row maps against plain loops: thresholds by bisection, Jacobians by differences, rotations by
complex numbers.
"""

import cmath
import itertools
import math

import numpy as np
import pytest

from sdpa import attention_weights, row_diagnostics, scaled_dot_product_attention
from sdpa.row_maps import NORMALIZERS, RowMap, rotated
from tests.plain_attention import entropy

D_K, N_KEYS, N_QUERIES = 4, 7, 3
MAPS = [RowMap(cap, None, name) for name in NORMALIZERS for cap in (0.0, 1.5)]
MAPS += [RowMap(cap, sink) for cap in (0.0, 1.5) for sink in (-1.0, 0.0, 2.5)]


def with_sum_1(positive):
    """The weights positive(c) of the threshold c at which they sum to 1, by bisection."""
    low, high = -100.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.fsum(positive(middle)) > 1 else (low, middle)
    return positive(high)


def plain_weights(scores, row_map, bias=0.0):
    """The weights of one row of scaled scores, by the definitions."""
    z = [row_map.softcap * math.tanh(s / row_map.softcap) if row_map.softcap else s for s in scores]
    z = [s + float(b) for s, b in zip(z, np.broadcast_to(bias, len(z)), strict=True)]
    if row_map.normalizer == "sigmoid":
        return [1 / (1 + math.exp(-s + math.log(len(z)))) for s in z]
    if row_map.normalizer == "sparsemax":
        return with_sum_1(lambda c: [max(s - c, 0.0) for s in z])
    if row_map.normalizer == "entmax":
        return with_sum_1(lambda c: [max(s / 2 - c, 0.0) ** 2 for s in z])
    total = math.fsum(map(math.exp, z)) + (0.0 if row_map.sink is None else math.exp(row_map.sink))
    return [math.exp(s) / total for s in z]


def plain_jacobian(scores, row_map, bias=0.0, step=1e-5):
    """dw_i / ds_j by central differences of the definitions."""
    columns = []
    for j in range(len(scores)):
        up, down = (
            plain_weights([s + sign * step * (i == j) for i, s in enumerate(scores)], row_map, bias)
            for sign in (1, -1)
        )
        columns.append([(a - b) / (2 * step) for a, b in zip(up, down, strict=True)])
    return np.array(columns).T


@pytest.mark.parametrize("row_map", MAPS, ids=str)
@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_every_map_is_that_of_plain_loops(row_map, spread):
    rng = np.random.default_rng(3)
    scores, keys = (
        spread * rng.standard_normal((2, N_QUERIES, N_KEYS)),
        rng.standard_normal((2, N_KEYS, D_K)),
    )
    found = row_map.rows(scores, keys)
    for draw, query in np.ndindex(2, N_QUERIES):
        row = draw, query
        weights = plain_weights(scores[row].tolist(), row_map)
        np.testing.assert_allclose(found.weights[row], weights, rtol=1e-12, atol=1e-14)
        assert found.visible_mass[row] == pytest.approx(math.fsum(weights), rel=1e-12)
        assert found.entropy[row] == pytest.approx(
            entropy([w / math.fsum(weights) for w in weights]), rel=1e-10
        )
        jacobian = plain_jacobian(scores[row].tolist(), row_map)
        assert found.jacobian_norm[row] == pytest.approx(np.linalg.norm(jacobian), rel=1e-6)
        assert found.gradient_norm[row] == pytest.approx(
            np.linalg.norm(jacobian @ keys[draw]), rel=1e-6
        )


@pytest.mark.parametrize("row_map", MAPS, ids=str)
def test_a_masked_key_has_no_part_in_its_row(row_map):
    """All rows of one key, too; the n of the sigmoid alone counts masked keys."""
    rng = np.random.default_rng(4)
    scores, keys = 2 * rng.standard_normal((N_QUERIES, N_KEYS)), rng.standard_normal((N_KEYS, D_K))
    for n in (1, 3):
        shown = scores.copy()
        shown[:, n:] = -np.inf
        found = row_map.rows(shown, keys)
        assert not found.weights[:, n:].any()
        if row_map.normalizer != "sigmoid":
            for one, other in zip(found, row_map.rows(scores[:, :n], keys[:n]), strict=True):
                np.testing.assert_allclose(
                    one[:, :n] if one.ndim == 2 else one, other, rtol=1e-12, atol=1e-14
                )


def test_saturated_rows_keep_their_digits():
    """Rows of gaps up to hundreds: the plain map has the norms of the kernel, a weak sink those
    without it.
    """
    rng = np.random.default_rng(5)
    scores, keys = 200 * rng.standard_normal((50, 64)), rng.standard_normal((64, D_K))
    expected = row_diagnostics(scores, 1.0, keys)
    assert expected.jacobian_norm.min() < 1e-40
    for row_map in (RowMap(), RowMap(sink=-1e4)):
        found = row_map.rows(scores, keys)
        np.testing.assert_allclose(found.jacobian_norm, expected.jacobian_norm, rtol=1e-12)
        np.testing.assert_allclose(found.gradient_norm, expected.query_gradient_norm, rtol=1e-9)
    far = RowMap(normalizer="sigmoid").rows([[-2000.0, -2001.0]])
    assert (far.visible_mass.item(), far.entropy.item()) == (
        0,
        pytest.approx(0.582203108),
    )  # that of 1 / (1 + e)


def test_attention_takes_a_map_between_divisor_and_weights():
    rng = np.random.default_rng(6)
    q, k, v = (rng.standard_normal((n, D_K)) for n in (N_QUERIES, N_KEYS, N_KEYS))
    for row_map, alibi in itertools.product(MAPS, (0.0, 0.5)):
        chosen = {**vars(row_map), "alibi": alibi}
        weights = attention_weights(q, k, scaling=0.7, **chosen)
        for i in range(N_QUERIES):
            scores = [math.fsum(q[i] * key) / 0.7 for key in k]
            bias = [-alibi * (N_KEYS - N_QUERIES + i - j) for j in range(N_KEYS)]
            np.testing.assert_allclose(
                weights[i], plain_weights(scores, row_map, bias), rtol=1e-12, atol=1e-14
            )
        assert (
            attention_weights(q.astype(np.float32), k.astype(np.float32), **chosen).dtype
            == np.float32
        )
        output = scaled_dot_product_attention(q, k, v, scaling=0.7, **chosen)
        np.testing.assert_allclose(output, weights @ v, rtol=1e-12)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"softcap": -1.0}, "softcap: expected a finite number above 0, or 0 for none, got -1.0"),
        ({"softcap": None}, "softcap: expected a finite number above 0, or 0 for none, got None"),
        ({"sink": math.inf}, "sink: expected a finite number, or None for none, got inf"),
        ({"sink": "0"}, "sink: expected a finite number, or None for none, got '0'"),
        ({"alibi": math.nan}, "alibi: expected a slope within ±1e6, or 0 for none, got nan"),
        ({"alibi": None}, "alibi: expected a slope within ±1e6, or 0 for none, got None"),
        ({"alibi": 1e308}, "alibi: expected a slope within ±1e6, or 0 for none, got 1e[+]308"),
        (
            {"alibi": np.array([0.5, 1.0])},
            "alibi: expected a slope within ±1e6, or 0 for none, got array",
        ),
        (
            {"mask": "window-0"},
            "mask: expected window-N with a whole number N from 1 to 999999999, got 'window-0'",
        ),
        ({"normalizer": "sparsemin"}, "normalizer: expected one of .*; did you mean sparsemax"),
        (
            {"normalizer": "sigmoid", "sink": 0.0},
            "sink: expected none beside the normalizer sigmoid, got 0.0",
        ),
    ],
)
def test_impossible_maps_are_refused(chosen, message):
    with pytest.raises(ValueError, match=message):
        attention_weights([[1.0]], [[1.0]], **chosen)


def test_rotation_turns_pairs_of_entries_and_keeps_what_depends_on_distances():
    rng = np.random.default_rng(7)
    q, k = rng.standard_normal((2, N_KEYS, D_K))
    positions = np.arange(3, 3 + N_KEYS)
    turned = rotated(q, positions)
    for row, position in enumerate(positions):
        for m in range(D_K // 2):
            number = complex(q[row, m], q[row, m + D_K // 2]) * cmath.exp(
                1j * position * 10_000 ** (-2 * m / D_K)
            )
            assert (turned[row, m], turned[row, m + D_K // 2]) == pytest.approx(
                (number.real, number.imag), rel=1e-12
            )
    scores = turned @ rotated(k, positions).T
    later = rotated(q, positions + 11) @ rotated(k, positions + 11).T
    np.testing.assert_allclose(scores, later, rtol=1e-9)
    with pytest.raises(
        ValueError, match="expected an even d_k for rotated pairs of entries, got 3"
    ):
        rotated(q[:, :3], positions)
