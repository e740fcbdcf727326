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


def repeated(x, group):
    return np.repeat(x, group, axis=1)


def tiled(x, group):
    return np.tile(x, (1, group, 1, 1))


def normalized(e, top, extra=-math.inf):
    """Weights of exponentials e^(s - top), beside a sink."""
    return e / (e.sum(axis=-1, keepdims=True) + np.exp(extra - top))


def attention(
    q,
    k,
    v,
    *,
    divide=math.sqrt,
    seen=None,
    logits=None,
    share=repeated,
    weights=normalized,
    shift=True,
):
    """Plain attention on (batch, heads, n, d): a divisor, visible keys, a map of scores, and ways
    to go wrong.
    """
    group = q.shape[1] // k.shape[1]
    k, v = share(k, group), share(v, group)
    n_queries, n_keys = q.shape[2], k.shape[2]
    s = q @ k.swapaxes(-1, -2) / divide(q.shape[-1])
    own = np.arange(n_keys - n_queries, n_keys)
    position = own[:, None] - np.arange(n_keys)
    if logits is not None:
        s = logits(s, position)
    if seen is not None:
        s = np.where(seen(position), s, -np.inf)
    top = s.max(axis=-1, keepdims=True) if shift else 0.0
    return weights(np.exp(s - top), top).astype(v.dtype) @ v


def in_blocks(q, k, v, size=64):
    """The recurrence of fused kernels: a running maximum and sum over blocks of keys."""
    top, total, out = -np.inf, 0.0, 0.0
    for start in range(0, k.shape[2], size):
        block = slice(start, start + size)
        s = q @ k[:, :, block].swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        new = np.maximum(top, s.max(axis=-1, keepdims=True))
        e = np.exp(s - new)
        keep = np.exp(top - new)
        total = total * keep + e.sum(axis=-1, keepdims=True)
        out = out * keep + e @ v[:, :, block]
        top = new
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
    single = (x.astype(np.float32) for x in (q, k, v))
    return attention(*single).astype(q.dtype)


def window(size, position):
    return (position >= 0) & (position < size)


causal = partial(window, math.inf)


def capped(s, _, cap=30.0):
    return cap * np.tanh(s / cap)


def clipped(most):
    return lambda s, _: np.clip(s, -most, most)


def alibi(s, position):
    return s - 0.25 * position


variant = partial(partial, attention)


def backward(q, k, v, upstream, factor=1.0):
    found = sdpa.attention_gradients(q, k, v, upstream)
    return factor * found.q, found.k, found.v


def large_wrong(q, k, v, upstream):
    largest = np.abs(q @ k.swapaxes(-1, -2)).max()
    return backward(q, k, v, upstream, factor=1.0 if largest < 80 else 0.9)


def batches_wrong(q, k, v, upstream):
    return backward(q, k, v, upstream, factor=len(q))


def case(function, **expected):
    return function, expected


RIGHT = {
    "plain": case(attention),
    "causal": case(variant(seen=causal), mask="causal"),
    "window": case(variant(seen=partial(window, 5)), mask="window-5"),
    "soft cap": case(variant(logits=capped), softcap=30.0),
    "sink": case(variant(weights=partial(normalized, extra=0.5)), sink=0.5),
    "ALiBi": case(variant(logits=alibi, seen=causal), alibi=0.25, mask="causal", dtype="float32"),
    "grouped": case(attention, groups=2),
    "muP": case(variant(divide=float), scaling="d_k^1"),
    "a number": case(variant(divide=lambda _: 12.0), scaling=12.0),
    "blocks": case(in_blocks),
    "on both": case(partial(scaled, on_q=0.5, on_k=0.5)),
    "one width": case(one_width),
    "float16": case(in_singles, dtype=np.float16),
    "bfloat16": case(in_singles, dtype=ml_dtypes.bfloat16),
    "the library": case(sdpa.scaled_dot_product_attention),
    "backward": case(attention, backward=backward),
}


@pytest.mark.parametrize(("function", "expected"), RIGHT.values(), ids=RIGHT)
def test_right_variants_raise_nothing(function, expected):
    found = audit(function, n_keys=SIZES, **expected)
    assert {item.verdict for item in found.items} == {"as expected"}, str(found)


def eight_bits(e, _):
    """Unnormalised weights in 8 bits, divided by the sum before rounding."""
    rounded = Arithmetic.parse("float8_e4m3fn").round(e)
    return rounded.astype(e.dtype) / e.sum(axis=-1, keepdims=True)


def by_a_number(s, position):
    return s + np.where(position >= 0, 0.0, -10_000.0)


def first_corner(q, k, v):
    rows = np.tri(q.shape[2], k.shape[2], dtype=bool)
    return attention(q, k, v, logits=lambda s, _: np.where(rows, s, -np.inf))


def in_halves(q, k, v):
    """Weights added up one by one in bfloat16, in which sums of small numbers stand still."""
    n_keys = k.shape[2]
    one_hot = np.broadcast_to(np.eye(n_keys), (*k.shape[:3], n_keys))
    weights = attention(q, k, one_hot).astype(v.dtype)
    total = np.zeros((*q.shape[:3], v.shape[3]), v.dtype)
    for key in range(n_keys):
        total += weights[..., key, None] * v[:, :, None, key]
    return total


def undivided(_):
    return 1.0


def cap_first(q, k, v):
    root = math.sqrt(q.shape[-1])
    return attention(q, k, v, divide=undivided, logits=lambda s, p: capped(s, p) / root)


def dropped_tail(q, k, v):
    """Keys beyond the last whole block of 128 are skipped in long rows."""
    n = k.shape[2]
    if n >= 128:
        n -= n % 128
    return attention(q, k[:, :, :n], v[:, :, :n])


def arguments_changed(q, k, v):
    q *= 0.5
    return attention(q, k, v)


def noisy(q, k, v):
    return attention(q, k, v) + 1e-15 * np.random.default_rng().normal()


def planted(function, item, found, **expected):
    """A fault, the item and the beginning of what an audit finds; and what it expects."""
    return function, item, found, {"n_keys": SIZES} | expected


PLANTED = {
    "torchtitan#2170: m squared is never used": planted(
        attention, "divisor", "d_k^1/2", scaling="d_k^1/2/1.873854"
    ),
    "mlc-llm#3426: no scale": planted(variant(divide=undivided), "divisor", "unscaled"),
    "vllm#48658: the latent width, 576": planted(variant(divide=lambda _: 24.0), "divisor", "24"),
    "mobius#548: m squared": planted(
        variant(divide=lambda d: d**0.5 * 1.873854), "divisor", "1.873854 times d_k^1/2"
    ),
    "ln n beyond 16 keys": planted(
        variant(logits=lambda s, _: s * (1 + (s.shape[3] > 16) / 9)), "divisor", "of no known"
    ),
    "8 at half as wide again": planted(
        variant(divide=lambda d: 8.0 if d == 96 else d**0.5), "divisor", "of no known"
    ),
    "no scale in 16 bits": planted(
        variant(divide=undivided), "divisor", "weights of one key alone", dtype="float16"
    ),
    "a temperature by position": planted(
        variant(logits=lambda s, p: s * (1 + p[:, :1] / 999)), "divisor", "different in"
    ),
    "values two rows off": planted(
        lambda q, k, v: attention(q, k, np.roll(v, 2, axis=2)), "divisor", "no divisor of q·k"
    ),
    "arguments changed": planted(arguments_changed, "divisor", "no usable"),
    "vit-pytorch#65: width of all heads": planted(
        lambda q, k, v: attention(q / q.shape[1] ** 0.5, k, v),
        "divisor",
        "2 times as large with 2 batch entries and 4",
    ),
    "the number of batch entries": planted(
        lambda q, k, v: attention(q / len(q) ** 0.5, k, v),
        "divisor",
        "1.414 times as large with 2 batch entries and 4",
    ),
    "mlx#2835: causal from the first key": planted(
        first_corner, "mask", "causal from the first key", mask="causal"
    ),
    "transformers#39408: a window of 6": planted(
        variant(seen=partial(window, 6)), "mask", "window-6", mask="window-5"
    ),
    "outputs of 0": planted(lambda q, *_: 0 * q, "mask", "another"),
    "the tail of long rows": planted(dropped_tail, "mask", "another", n_keys=(16, 512)),
    "transformers#12109: -10000": planted(
        variant(logits=by_a_number), "hidden keys", "they leak", mask="causal"
    ),
    "onnx#7274: heads tiled": planted(
        variant(share=tiled), "heads", "[[0, 1, 0, 1], [2, 3, 2, 3]]", groups=2
    ),
    "batch entries mixed": planted(
        lambda q, k, v: attention(q, k, v[::-1]), "heads", "[[2, 3], [0, 1]]"
    ),
    "flash-attention#2694: weights in 8 bits": planted(
        variant(weights=eight_bits), "lost mass", "0."
    ),
    "FlyDSL#1020, flashinfer#5020: sums stand still": planted(
        in_halves, "lost mass", "0.", dtype=ml_dtypes.bfloat16
    ),
    "wrong from 257": planted(
        lambda q, k, v: attention(q, k, v) * (1 + (k.shape[2] > 256) / 999), "lost mass", "-0.001"
    ),
    "no maximum subtracted": planted(variant(shift=False), "large scores", "it is not"),
    "one maximum for all rows": planted(
        variant(shift=False, logits=lambda s, _: s - s.max()), "large scores", "it is"
    ),
    "a clip at 30": planted(variant(logits=clipped(30)), "large scores", "other outputs"),
    "a clip at 15": planted(variant(logits=clipped(15)), "soft cap", "another function"),
    "a score that grows": planted(
        variant(logits=lambda s, _: s + s**3 / 1e4), "soft cap", "another function"
    ),
    "a cap before the divisor": planted(cap_first, "soft cap", "3.75", softcap=30.0),
    "no cap": planted(attention, "soft cap", "none", softcap=50.0),
    "a sink of 0 that is not wanted": planted(
        variant(weights=partial(normalized, extra=0.0)), "sink", "0"
    ),
    "a slope of half": planted(variant(logits=alibi), "bias", "slope 0.25", alibi=0.5),
    "no slope in 16 bits": planted(
        variant(seen=causal), "bias", "no", alibi=2**-8, mask="causal", dtype="float16"
    ),
    "heads of keys exchanged": planted(
        lambda q, k, v: attention(q, k[:, ::-1], v), "outputs", "wrong"
    ),
    "noise": planted(noisy, "outputs", "different in"),
    "one query": planted(
        lambda q, k, v: attention(q * (1 + (q.shape[2] == 1)), k, v), "outputs", "wrong"
    ),
    "half of dL/dq": planted(
        attention, "gradients", "wrong", backward=partial(backward, factor=0.5)
    ),
    "dL/dq of large scores": planted(attention, "gradients", "wrong", backward=large_wrong),
    "dL/dq of batches": planted(attention, "gradients", "wrong", backward=batches_wrong),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found_and_named(name):
    function, item, found, expected = PLANTED[name]
    report = audit(function, **expected)
    assert report.findings[0].item == item, str(report)
    assert report.findings[0].found.startswith(found), str(report)
    assert re.match(f"audit of .*: findings: {item}", str(report))
    if "16 bits" in name:
        assert len(report.findings) == 1
    if name == "a temperature by position":
        assert "soft cap" not in {finding.item for finding in report.findings}


def test_lost_mass_grows_with_the_spread_beside_the_exact_share_of_zeros():
    lossy = audit(variant(weights=eight_bits), n_keys=SIZES).lost_mass
    lost = {(row.n_keys, row.spread): row.lost for row in lossy}
    assert 0 < lost[300, 1.0] < lost[300, 2.0] < lost[300, 5.0]
    singles = audit(attention, n_keys=SIZES, dtype=np.float32).lost_mass
    tiny = {(row.n_keys, row.spread): row.tiny_share for row in singles}
    assert tiny[300, 1.0] < 0.01 < tiny[300, 20.0]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _: None, "calling it, or reading its output, raised TypeError"),
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


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("place", "function"),
    [
        ("scores", attention),
        ("q", partial(scaled, on_q=1)),
        ("k", partial(scaled, on_k=1)),
        ("q and k", partial(scaled, on_q=0.3, on_k=0.7)),
        (
            "not visible",
            lambda q, k, v: attention(q * (abs(q) >= np.finfo(q.dtype).tiny), k, v),
        ),
    ],
)
def test_scaled_arrays_are_named_and_no_finding(place, function, dtype):
    report = audit(function, n_keys=SIZES[:1], dtype=dtype)
    assert [one.found for one in report.items if one.item == "scaled"] == [place]
    assert not report.findings


def test_a_divisor_of_1_rounds_nothing():
    report = audit(variant(divide=undivided), n_keys=SIZES[:1], scaling="unscaled")
    assert [one.item for one in report.items if one.verdict == "not tested"] == ["scaled"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_keys", (16, 8), "rising"),
        ("n_keys", (), "whole d_k"),
        ("n_keys", 16.0, "whole d_k"),
        ("groups", 0, "groups from 1"),
        ("mask", "window-0", "window-N"),
        ("mask", "window-1", "from 2"),
        ("mask", "window-4096", "below 4096"),
        ("sink", 800.0, "within ±50"),
        ("dtype", "fp16", "did you mean float16"),
        ("alibi", 99.0, "slope"),
    ],
)
def test_wrong_expectations_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        audit(attention, **{name: value})
