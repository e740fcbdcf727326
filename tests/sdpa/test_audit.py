"""`sdpa.audit` names planted bugs of public threads, and raises nothing on right variants, of one
plain function.
"""

import math
import re
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import sdpa
from sdpa import audit
from sdpa.arithmetic import Arithmetic

SIZES = (16, 300)


def attention(
    q,
    k,
    v,
    *,
    divide=math.sqrt,
    seen=None,
    logits=None,
    tile=False,
    extra=None,
    weights=None,
    shift=True,
):
    """Plain attention on (batch, heads, n, d): a divisor, visible keys, a map of scores, and ways
    to go wrong.
    """
    group = q.shape[1] // k.shape[1]
    k, v = (np.tile(x, (1, group, 1, 1)) if tile else np.repeat(x, group, axis=1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) / divide(q.shape[-1])
    position = np.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None] - np.arange(k.shape[2])
    s = s if logits is None else logits(s, position)
    s = s if seen is None else np.where(seen(position), s, -np.inf)
    e = np.exp(s - s.max(axis=-1, keepdims=True) if shift else s)
    if weights is not None:
        return weights(e) @ v
    top = s.max(axis=-1, keepdims=True) if shift else 0.0
    total = e.sum(axis=-1, keepdims=True) + (0 if extra is None else np.exp(extra - top))
    return (e / total).astype(v.dtype) @ v


def in_blocks(q, k, v, size=64):
    """The recurrence of fused kernels: a running maximum and sum over blocks of keys."""
    top, total, out = -np.inf, 0.0, 0.0
    for start in range(0, k.shape[2], size):
        s = q @ k[:, :, start : start + size].swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        new = np.maximum(top, s.max(axis=-1, keepdims=True))
        e, keep, top = np.exp(s - new), np.exp(top - new), new
        total, out = (
            total * keep + e.sum(axis=-1, keepdims=True),
            out * keep + e @ v[:, :, start : start + size],
        )
    return out / total


def scaled(q, k, v, on_q=0.0, on_k=0.0):
    """Powers of the divisor on q and on k before the product."""
    root = math.sqrt(q.shape[-1])
    return attention(q / root**on_q, k / root**on_k, v, divide=lambda _: root ** (1 - on_q - on_k))


def one_width(q, k, v):
    assert q.shape[-1] == 64
    return attention(q, k, v)


def in_singles(q, k, v):
    """As kernels for bfloat16: single precision inside, and outputs rounded."""
    return attention(*(x.astype(np.float32) for x in (q, k, v))).astype(q.dtype)


def window(size, position):
    return (position >= 0) & (position < size)


causal = partial(window, math.inf)


def capped(s, _, cap=30.0):
    return cap * np.tanh(s / cap)


def alibi(s, position):
    return s - 0.25 * position


variant = partial(partial, attention)


def backward(q, k, v, upstream, factor=1.0):
    found = sdpa.attention_gradients(q, k, v, upstream)
    return factor * found.q, found.k, found.v


def large_wrong(q, k, v, upstream):
    return backward(
        q, k, v, upstream, factor=1.0 if np.abs(q @ k.swapaxes(-1, -2)).max() < 80 else 0.9
    )


RIGHT = {
    "plain": (attention, {}),
    "causal": (variant(seen=causal), {"mask": "causal"}),
    "window": (variant(seen=partial(window, 5)), {"mask": "window-5"}),
    "soft cap": (variant(logits=capped), {"softcap": 30.0}),
    "sink": (variant(extra=0.5), {"sink": 0.5}),
    "fall": (
        variant(logits=lambda s, p: s - p / 2, seen=causal),
        {"alibi": 0.5, "mask": "causal", "dtype": "float32"},
    ),
    "ALiBi": (variant(logits=alibi, seen=causal), {"alibi": 0.25, "mask": "causal"}),
    "grouped": (attention, {"groups": 2}),
    "muP": (variant(divide=float), {"scaling": "d_k^1"}),
    "a number": (variant(divide=lambda _: 12.0), {"scaling": 12.0}),
    "blocks": (in_blocks, {}),
    "on both": (partial(scaled, on_q=0.5, on_k=0.5), {}),
    "one width": (one_width, {}),
    "float32": (attention, {"dtype": np.float32}),
    "float16": (in_singles, {"dtype": np.float16}),
    "bfloat16": (in_singles, {"dtype": ml_dtypes.bfloat16}),
    "the library": (sdpa.scaled_dot_product_attention, {}),
    "backward": (attention, {"backward": backward}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_variants_raise_nothing(name):
    function, expected = RIGHT[name]
    found = audit(function, n_keys=SIZES, **expected)
    assert {item.verdict for item in found.items} == {"as expected"}, str(found)


def eight_bits(e):
    """Unnormalised weights in 8 bits, divided by the sum before rounding."""
    return Arithmetic.parse("float8_e4m3fn").round(e).astype(e.dtype) / e.sum(
        axis=-1, keepdims=True
    )


def by_a_number(s, position):
    return s + np.where(position >= 0, 0.0, -10_000.0)


def first_corner(q, k, v):
    rows = np.tri(q.shape[2], k.shape[2], dtype=bool)
    return attention(q, k, v, logits=lambda s, _: np.where(rows, s, -np.inf))


def in_halves(q, k, v):
    """Weights added up one by one in bfloat16, in which sums of small numbers stand still."""
    weights = attention(
        q, k, np.broadcast_to(np.eye(k.shape[2]), (*k.shape[:3], k.shape[2]))
    ).astype(v.dtype)
    total = np.zeros((*q.shape[:3], v.shape[3]), v.dtype)
    for key in range(k.shape[2]):
        total += weights[..., key, None] * v[:, :, None, key]
    return total


def cap_first(q, k, v):
    return attention(
        q, k, v, divide=lambda _: 1.0, logits=lambda s, p: capped(s, p) / math.sqrt(q.shape[-1])
    )


def dropped_tail(q, k, v):
    """Keys beyond the last whole block of 128 are skipped in long rows."""
    n = k.shape[2] if k.shape[2] < 128 else k.shape[2] // 128 * 128
    return attention(q, k[:, :, :n], v[:, :, :n])


def by_size(axis):
    return lambda q, k, v: attention(q / q.shape[axis] ** 0.5, k, v)


PLANTED = {
    "torchtitan#2170: m squared is never used": (
        attention,
        {"scaling": "d_k^1/2/1.873854"},
        "divisor",
        "d_k^1/2",
    ),
    "mlc-llm#3426: no scale": (variant(divide=lambda _: 1.0), {}, "divisor", "unscaled"),
    "vllm#48658: the latent width, 576": (variant(divide=lambda _: 24.0), {}, "divisor", "24"),
    "Megatron-LM#1501: the root of 40": (
        variant(divide=lambda _: 40**0.5),
        {},
        "divisor",
        "6.3245553",
    ),
    "mobius#548: m squared": (
        variant(divide=lambda d: d**0.5 * 1.873854),
        {},
        "divisor",
        "1.873854 times d_k^1/2",
    ),
    "mlx#2835: causal from the first key": (
        first_corner,
        {"mask": "causal"},
        "mask",
        "causal from the first key",
    ),
    "transformers#39408: a window of 6": (
        variant(seen=partial(window, 6)),
        {"mask": "window-5"},
        "mask",
        "window-6",
    ),
    "transformers#12109: -10000": (
        variant(logits=by_a_number),
        {"mask": "causal"},
        "hidden keys",
        "they leak",
    ),
    "onnx#7274: heads tiled": (
        variant(tile=True),
        {"groups": 2},
        "heads",
        "[[0, 1, 0, 1], [2, 3, 2, 3]]",
    ),
    "flash-attention#2694: weights in 8 bits": (variant(weights=eight_bits), {}, "lost mass", "0."),
    "FlyDSL#1020, flashinfer#5020: sums stand still": (
        in_halves,
        {"dtype": ml_dtypes.bfloat16},
        "lost mass",
        "0.",
    ),
    "no maximum subtracted": (variant(shift=False), {}, "large scores", "it is not"),
    "one maximum for all rows": (
        variant(shift=False, logits=lambda s, _: s - s.max()),
        {},
        "large scores",
        "it is",
    ),
    "a clip at 30": (
        variant(logits=lambda s, _: np.clip(s, -30, 30)),
        {},
        "large scores",
        "other outputs",
    ),
    "a clip at 15": (
        variant(logits=lambda s, _: np.clip(s, -15, 15)),
        {},
        "soft cap",
        "another function",
    ),
    "a score that grows": (
        variant(logits=lambda s, _: s + s**3 / 1e4),
        {},
        "soft cap",
        "another function",
    ),
    "ln n beyond 16 keys": (
        variant(logits=lambda s, _: s * (1 + (s.shape[3] > 16) / 9)),
        {},
        "divisor",
        "of no",
    ),
    "8 at half as wide again": (
        variant(divide=lambda d: 8.0 if d == 96 else d**0.5),
        {},
        "divisor",
        "of no known",
    ),
    "heads of keys exchanged": (
        lambda q, k, v: attention(q, k[:, ::-1], v),
        {},
        "outputs",
        "wrong",
    ),
    "noise": (
        lambda *qkv: attention(*qkv) + 1e-15 * np.random.default_rng().normal(),
        {},
        "outputs",
        "different in",
    ),
    "a cap before the divisor": (cap_first, {"softcap": 30.0}, "soft cap", "3.75"),
    "no cap": (attention, {"softcap": 50.0}, "soft cap", "none"),
    "a sink of 0 that is not wanted": (variant(extra=0.0), {}, "sink", "0"),
    "a slope of half": (variant(logits=alibi), {"alibi": 0.5}, "bias", "slope 0.25"),
    "no slope in 16 bits": (
        variant(seen=causal),
        {"alibi": 2**-8, "mask": "causal", "dtype": "float16"},
        "bias",
        "no",
    ),
    "outputs of 0": (lambda q, *_: 0 * q, {}, "mask", "another"),
    "no scale in 16 bits": (
        variant(divide=lambda _: 1),
        {"dtype": "float16"},
        "divisor",
        "weights of one key alone",
    ),
    "scaled twice": (variant(divide=float), {}, "divisor", "d_k^1"),
    "a temperature by position": (
        variant(logits=lambda s, p: s * (1 + p[:, :1] / 999)),
        {},
        "divisor",
        "different in",
    ),
    "values two rows off": (
        lambda q, k, v: attention(q, k, np.roll(v, 2, axis=2)),
        {},
        "divisor",
        "no divisor of q·k",
    ),
    "batch entries mixed": (
        lambda q, k, v: attention(q, k, v[::-1]),
        {},
        "heads",
        "[[2, 3], [0, 1]]",
    ),
    "the tail of long rows": (dropped_tail, {"n_keys": (16, 512)}, "mask", "another"),
    "wrong from 257": (
        lambda q, k, v: attention(q, k, v) * (1 + (k.shape[2] > 256) / 999),
        {},
        "lost mass",
        "-0.001",
    ),
    "arguments changed": (
        lambda q, k, v: attention(np.multiply(q, 0.5, out=q), k, v),
        {},
        "divisor",
        "no usable",
    ),
    "one query": (
        lambda q, k, v: attention(q * (1 + (q.shape[2] == 1)), k, v),
        {},
        "outputs",
        "wrong",
    ),
    "dL/dq of large scores": (attention, {"backward": large_wrong}, "gradients", "wrong"),
    "dL/dq of batches": (
        attention,
        {"backward": lambda q, *r: backward(q, *r, factor=len(q))},
        "gradients",
        "wrong",
    ),
    "vit-pytorch#65: width of all heads": (
        by_size(1),
        {},
        "divisor",
        "2 times as large with 2 batch entries and 4",
    ),
    "the number of batch entries": (
        by_size(0),
        {},
        "divisor",
        "1.414 times as large with 2 batch entries and 4",
    ),
    "half of dL/dq": (attention, {"backward": partial(backward, factor=0.5)}, "gradients", "wrong"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found_and_named(name):
    function, expected, item, found = PLANTED[name]
    report = audit(function, **{"n_keys": SIZES} | expected)
    assert report.findings[0].item == item, str(report)
    assert report.findings[0].found.startswith(found), str(report)
    assert re.match(f"audit of .*: findings: {item}", str(report))
    assert "16 bits" not in name or len(report.findings) == 1


def test_lost_mass_grows_with_the_spread_beside_the_exact_share_of_zeros():
    report = audit(variant(weights=eight_bits), n_keys=(16, 1024))
    lost = {(row.n_keys, row.spread): row.lost for row in report.lost_mass}
    assert lost[1024, 1.0] < 0.01 < lost[1024, 2.0]
    singles = audit(attention, n_keys=(512,), dtype=np.float32).lost_mass
    assert [row.tiny_share > 0.01 for row in singles if row.spread in (1.0, 20.0)] == [False, True]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _: None, "calling it, or reading its output, raised TypeError"),
        (
            lambda q, *_: [q, q[0]],
            "expected the output alone, got 2 values; wrap the function, as lambda q, k, v:",
        ),
        (
            lambda q, *_: (q, q),
            "expected the output alone, got 2 values; wrap the function, as lambda q, k, v:",
        ),
        (lambda q, *_: q[0], "expected an output of shape (1, 1, 16, 64), got (1, 16, 64)"),
        (lambda q, *_: np.nan * q, "expected finite outputs for equal scores, got nan"),
    ],
)
def test_a_function_without_an_output_has_one_finding_with_its_message(function, message):
    report = audit(function, n_keys=SIZES)
    assert [item.item for item in report.items] == ["mask"]
    assert message in " ".join(str(report).split())


def test_a_number_is_no_function():
    with pytest.raises(TypeError, match="expected a function of q, k and v, got 3"):
        audit(3)


def test_a_temperature_by_position_is_no_soft_cap():
    report = audit(PLANTED["a temperature by position"][0], n_keys=SIZES)
    assert "soft cap" not in {finding.item for finding in report.findings}


SCALED = {
    "scores": [attention, in_blocks],
    "q": [partial(scaled, on_q=1)],
    "k": [partial(scaled, on_k=1)],
    "q and k": [partial(scaled, on_q=0.5, on_k=0.5), partial(scaled, on_q=0.3, on_k=0.7)],
    "not visible": [lambda q, k, v: attention(q * (abs(q) >= np.finfo(q.dtype).tiny), k, v)],
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("place", "function"), [(place, one) for place, many in SCALED.items() for one in many]
)
def test_scaled_arrays_are_named_and_no_finding(place, function, dtype):
    report = audit(function, n_keys=SIZES, dtype=dtype)
    assert ([one.found for one in report.items if one.item == "scaled"], report.findings) == (
        [place],
        (),
    )


def test_a_divisor_of_1_rounds_nothing():
    report = audit(variant(divide=lambda _: 1.0), n_keys=SIZES, scaling="unscaled")
    assert [one.item for one in report.items if one.verdict == "not tested"] == ["scaled"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_keys", (16, 8), "rising"),
        ("mask", "window-0", "window-N"),
        ("n_keys", (), "whole d_k"),
        ("n_keys", 16.0, "whole d_k"),
        ("mask", "window-1", "from 2"),
        ("mask", "window-4096", "below 4096"),
        ("sink", 800.0, "within ±50"),
        ("dtype", "fp16", "did you mean float16"),
        ("groups", 0, "groups from 1"),
        ("alibi", 99.0, "slope"),
    ],
)
def test_wrong_expectations_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        audit(attention, **{name: value})
