"""`sdpa.audit` names bugs of public reports, and finds nothing in right functions."""

import math
import re
import sys
from functools import partial, reduce

import numpy as np
import pytest

from sdpa import attention_gradients, audit, softmax
from sdpa.tools.auditing.mistakes import MISTAKES
from sdpa.tools.auditing.model import rounded
from sdpa.tools.auditing.probes import Audited
from tests.tools.audited_functions import (
    BIAS,
    BY_HEAD,
    NUMBERS,
    PAGE,
    REPORTED,
    RIGHT,
    attention,
    in_blocks,
    in_single,
    of_page,
)


def backward(q, k, v, upstream, factor=1.0):
    gradients = attention_gradients(q, k, v, upstream)
    return factor * gradients.q, gradients.k, gradients.v


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("function, expected", RIGHT)
def test_right_functions_have_no_finding(dtype, function, expected):
    if dtype != "float64":
        function = partial(in_single, function=function)
    report = audit(function, dtype=dtype, **expected)
    assert report.findings == []
    assert "q·k" in report.facts["scores"]  # though a query may see one key


@pytest.mark.parametrize("function, words, expected", REPORTED)
def test_bugs_of_public_reports_are_named(function, words, expected):
    assert words in str(audit(function, **expected))


@pytest.mark.parametrize("words", [words for words in MISTAKES if words and "finite" not in words])
def test_each_mistake_is_found_and_no_other_claims_it(words, monkeypatch):
    """Its output, planted; a finite score is a fact if it is not far."""

    def planted(_, a, **_calls):
        output = np.nan_to_num(MISTAKES[words](a))
        output[~output.any(axis=-1)] = math.nan
        assert output.shape == (*a.q.shape[:3], a.v.shape[3])
        return output

    monkeypatch.setattr(Audited, "output", planted)
    mask = "causal" if "mask" in words else "none"
    sink = 0.5 if "sink" in words else None
    dtype = "float16" if "float16" in words else "float64"
    assert audit(attention, dtype=dtype, groups=2, mask=mask, sink=sink).findings[0] == words


DESCRIBED = {
    "weights sum to: 515, expected 1 outputs are no sums of v: twice v does not give twice the output "
    "nothing found gives all outputs; errors are about 2^-2": (
        lambda q, k, v: attention(q, k, v) + (k.shape[2] > 300)
    ),
    "keys: others; batch entry 1, head 0, query 12 sees 0 to 14 of 16, expected all": (
        lambda q, k, v: attention(q, *(x[:, :, : -1 if q.max() < 3 else None] for x in (k, v)))
    ),
    "q·k / d_k^1/2 keys: not told; batch entry 0, head 0, query 0 has no weight above 0 of 256, "
    "expected all": lambda q, k, v: attention(q, k, v, "1") / (q.shape[2] > 1),
    "keys: not told; batch entry 0, head 1, query 4 has no weight above 0 of 16, expected all "
    "wrong in": lambda q, k, v: attention(q, k, v) * (np.arange(q.shape[1]) != 1)[:, None, None],
    "WRONG channels of v are not treated alike: reversed ones give other outputs "
    "right in channel 0 to 31 of 64 nothing": (
        lambda q, k, v: attention(q, k, v) * (np.arange(v.shape[3]) < 32)
    ),
    "values in batch entry 0: of heads [1 2 0], expected [0 1 2], counted over the batch": (
        lambda q, k, v: attention(q, k, np.roll(v, -1, axis=1))
    ),
    "right in batch entry 0 of 2 and head 0, 2 of 3": (
        lambda q, k, v: attention(q, k, v) * (1 + (np.arange(6) == 4).reshape(2, 3, 1, 1)[: len(q)])
    ),
    "scores: (0.0884, 0.125) * q·k, expected q·k / d_k^1/2": (
        lambda q, k, v: attention(q, k, v, "{16: 64, 64: 128}.get(d_k, d_k)**0.5")
    ),
    "WRONG nothing found gives all outputs; some outputs are no number wrong in views": (
        lambda q, k, v: attention(q, k, v) / v.flags.c_contiguous
    ),
    "WRONG d_k 64: expected that the function returns its output alone, got tuple": (
        lambda q, *_: (q, q)
    ),
    "WRONG d_k 64: expected that the function returns its output alone, got NoneType": (
        lambda *_: None
    ),
    "WRONG n_queries 20: expected an output of shape (2, 3, 20, 64), got (2, 3, 24, 64)": (
        lambda q, k, v: attention(np.resize(q, (2, 3, 24, 64)) if q.shape[2] == 20 else q, k, v)
    ),
}


@pytest.mark.parametrize("words", DESCRIBED)
def test_what_nothing_explains_is_described(words):
    assert words in " ".join(str(audit(DESCRIBED[words])).split())


def read_side_by_side(x):
    """The last axis, as if its numbers lay side by side in memory."""
    return np.lib.stride_tricks.as_strided(x, strides=(*x.strides[:-1], x.itemsize))


OF_ONE_INPUT = {
    "largest_score 20000, first_keys 128, n_queries 5, n_keys 262": (
        partial(in_blocks, running=False)
    ),
    "views of (batch, n, heads, d); views of (batch, heads, d, n)": (
        lambda q, k, v: attention(q, k, np.ravel(v, order="K").reshape(v.shape))  # as contiguous
    ),
    "views of (batch, heads, d, n)": lambda *x: attention(*map(read_side_by_side, x)),
    "batch 1": lambda q, k, v: attention(q, k, v) * (1 + (len(q) == 1)),
    "n_queries 1, n_keys 256; n_queries 1, n_keys 256, d_v 32": (
        lambda q, k, v: attention(q, k, v) * (1 + (q.shape[2] == 1 and k.shape[2] % 64 == 0))
    ),
    "n_queries 1, n_keys 256, d_v 32": (
        lambda q, k, v: attention(q, k, v) * (1 + (q.shape[2] == 1 and v.shape[3] == 32))
    ),
}


@pytest.mark.parametrize("words", OF_ONE_INPUT)
def test_a_mistake_in_one_input_alone_is_found(words):
    findings = audit(OF_ONE_INPUT[words]).findings
    assert findings[-1] == f"wrong in {words}"
    assert "no sums of v" not in str(findings)


def test_a_mistake_of_decoding_is_told_with_its_inputs():
    def without_window(q, k, v):
        decodes = q.shape[2] == 1
        divisor, behind = ("1", math.inf) if decodes else ("d_k**0.5", 15)
        return attention(q, k, v, divisor, behind=behind, ahead=0)

    assert audit(without_window, mask="window-16").findings == [
        "scores: q·k, expected q·k / d_k^1/2",
        "keys: all, expected the query's own and 15 before it",
        "wrong in n_queries 1, n_keys 256; n_queries 1, n_keys 256, d_v 32; n_queries 1, n_keys 262",
    ]


def test_a_product_beyond_half_precision_is_found_before_the_scale_alone():
    def scaled_after(q, k, v, factor=1.0):
        scores = np.float16(q.astype("f4") * factor @ k.mT) / np.float32(8 * factor)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True) @ v

    of_one_width = partial(audit, dtype="float16", scaling="8")
    assert of_one_width(partial(scaled_after, factor=1 / 8)).findings == []
    named, where = of_one_width(scaled_after).findings
    assert named == "q·k is more than float16 has, before the scale (PaddlePaddle/Paddle#41933)"
    assert where == "wrong in largest_score 10000, step 1250"


def test_a_factor_of_some_heads_is_told_beside_the_expected_rule():
    def of_heads(q, k, v):
        return attention(q * np.resize([1, 0.5, 2], q.shape[1])[:, None, None], k, v)

    actual = audit(of_heads).findings[0]
    assert actual == "scores: (1, 0.5, 2) * q·k / d_k^1/2, expected q·k / d_k^1/2"


def test_keys_to_the_own_one_are_told_so_where_no_later_one_exists():
    def decodes_half_a_window(q, k, v):
        return attention(q, k, v, behind=7 if q.shape[2] == 1 else 15, ahead=0)

    words = "keys: the query's own and 7 before it, expected the query's own and 15 before it"
    assert words in audit(decodes_half_a_window, mask="window-16").findings[0]


def test_heads_that_no_channel_marks_are_not_told():
    """Six heads of two batch entries, beside four channels; another input has one channel."""
    assert audit(attention, d_k=4).findings == []
    findings = audit(lambda q, k, v: attention(q, k, v) + (k.shape[2] > 300), d_k=4).findings
    assert not [words for words in findings if words.startswith("values in batch")]


def test_audits_of_several_functions_are_a_table():
    """pandas is no dependency of `sdpa`."""
    pd = pytest.importorskip("pandas")
    table = pd.concat(audit(f).to_pandas() for f in (attention, lambda *x: 0 * attention(*x)))
    assert [*table["verdict"]] == ["right in all inputs tried", "WRONG"]
    assert "all outputs are 0" in table["findings"].iloc[1]


def test_changed_arguments_and_rows_that_are_no_number_are_told():
    def scales_in_place(q, k, v):
        q *= 0.125
        return attention(q, k, v, divisor="1")

    assert "or q or k changed?" in str(audit(scales_in_place))
    all_nan = audit(lambda *x: np.nan * attention(*x))
    words = "keys: none: all outputs are no number, expected all"
    assert all_nan.findings == [words, "wrong in all inputs"]
    assert "all outputs are 0, expected all" in str(audit(lambda *x: 0 * attention(*x)))


def test_factors_of_gradients_are_told():
    of_one_size = partial(audit, in_single, mask=np.ones((16, 16), bool))
    for d_k in (24, 256):  # beside which the change along one step may be near 0
        assert of_one_size(d_k=d_k, dtype="float16", backward=backward).findings == []
    of_one_size = partial(of_one_size, dtype="float32")
    for factor in (8, 1.05, 0):
        actual = of_one_size(backward=partial(backward, factor=factor)).findings
        assert actual == [f"dq: {factor} times the right one"]
    for factor in (math.nan, np.eye(16, 64)):
        actual = of_one_size(backward=partial(backward, factor=factor)).findings
        assert actual == ["dq: no multiple of the right one"]


@pytest.mark.parametrize("word, head", [("first", 0), ("last", 1)])
def test_gradients_of_one_head_in_each_group_are_told(word, head):
    def of_some_heads(q, k, v, upstream):
        dq, *others = backward(q, *(np.repeat(x, 2, axis=1) for x in (k, v)), upstream)
        return dq, *(x[:, head::2] for x in others)

    assert audit(attention, groups=2, backward=of_some_heads).findings == [
        f"{name}: of the {word} head in each group, not their sum" for name in ("dk", "dv")
    ]


def test_one_head_of_keys_can_be_stated():
    def of_one_key_head(q, k, v):
        return attention(q, *(np.broadcast_to(x, (*q.shape[:2], *x.shape[2:])) for x in (k, v)))

    assert audit(of_one_key_head, groups="all").findings == []
    of_all_heads = audit(of_one_key_head, groups=2)
    assert "raises" in str(of_all_heads)


def test_causes_of_wrong_gradients_are_told():
    def without_row_sums(q, k, v, upstream):
        weights = softmax(q @ k.mT / q.shape[3] ** 0.5)
        changes = weights * (upstream @ v.mT) / q.shape[3] ** 0.5
        return changes @ k, changes.mT @ q, weights.mT @ upstream

    words = "without the row sum of output times its gradient"
    findings = audit(attention, backward=without_row_sums).findings
    assert findings == [f"d{name}: {words}" for name in "qk"]
    sink = np.array([6.0, 7.0, 8.0])  # with a large share of the weight
    by_head = partial(attention, sink=sink[:, None, None])
    findings = audit(by_head, sink=sink, backward=backward).findings
    assert findings == [f"d{name}: as if there were no sink" for name in "qkv"]
    uncapped = partial(backward_of_pairs, cap=5)
    findings = audit(partial(attention, cap=5), softcap=5, backward=uncapped).findings
    words = "without the derivative of the soft cap (Dao-AILab/flash-attention#1033)"
    assert findings == [f"d{name}: {words}" for name in "qk"]


def test_whole_tiles_are_tried():
    def without_mask_in_tiles(q, k, v):
        return attention(q, k, v, ahead=0 if q.shape[2] % 32 else math.inf)

    report = str(audit(without_mask_in_tiles, mask="causal"))
    assert report.startswith("audit of without_mask_in_tiles: WRONG\n  keys: all, expected from")
    assert "\n  wrong in n_queries 128, n_keys 256\n" in report


def test_a_cap_of_scores_and_bias_is_told():
    def capped(q, k, v):
        scores = np.tanh((q @ k.mT / q.shape[3] ** 0.5 + BIAS) / 5) * 5
        return softmax(scores) @ v

    words = "scores: soft cap of (scaled q·k + bias), expected soft cap of scaled q·k + bias"
    assert audit(capped, softcap=5, bias=BIAS).findings[0] == words


def test_factors_of_blocks_are_told():
    def twice_late_keys(q, k, v):
        late = np.arange(k.shape[2]) >= 200
        return attention(
            q, np.concatenate([k, k[:, :, late]], 2), np.concatenate([v, v[:, :, late]], 2)
        )

    assert "borders at keys [200] of 256, where weights change by 2, expected none" in str(
        audit(twice_late_keys)
    )

    def with_an_infinite_weight(q, k, v):
        return twice_late_keys(q, k, v) + np.where(v[:, :, -1:] == 1, np.inf, 0)

    assert "borders at keys [200 255] of 256, expected none" in str(audit(with_an_infinite_weight))


def test_gradients_of_another_attention_are_told():
    findings = audit(partial(attention, ahead=0), mask="causal", backward=backward).findings
    assert findings == [f"d{name}: as if no key were hidden" for name in "qkv"]

    def of_first_entry(q, k, v, upstream):
        dq, dk, dv = backward(q, k, v, upstream)
        dk[1] = 0
        return dq, dk, dv

    assert audit(attention, backward=of_first_entry).findings == [
        "dk: no multiple of the right one, right in batch entry 0 of 2"
    ]

    def in_turn(q, k, v, upstream):
        dq, dk, dv = backward(q, *(np.tile(x, (1, 2, 1, 1)) for x in (k, v)), upstream)
        n = k.shape[1]
        return dq, dk[:, :n] + dk[:, n:], dv[:, :n] + dv[:, n:]

    words = "as if query heads read keys and values in turn"
    findings = audit(attention, groups=2, backward=in_turn).findings
    assert findings == [f"d{name}: {words}" for name in "qkv"]


def backward_of_pairs(q, k, v, upstream, ahead=math.inf, moves=np.ones_like, empty=0.0, cap=1e9):
    """Gradients by sums over pairs, of which some move; `empty` are weights of queries without keys.
    They lack the derivative of the cap.
    """
    distance = np.subtract.outer(np.arange(q.shape[2]), np.arange(k.shape[2])) * -1.0
    of_last = distance + q.shape[2] - k.shape[2]
    scores = np.where(of_last <= ahead, np.tanh(q @ k.mT / 8 / cap) * cap, -math.inf)
    w = np.nan_to_num(np.exp(scores - scores.max(axis=-1, keepdims=True)))
    w = np.nan_to_num(w / w.sum(axis=-1, keepdims=True), nan=empty)
    moving = w * moves(distance)
    to_rows = upstream @ v.mT - (upstream * (w @ v)).sum(axis=-1, keepdims=True)
    to_scores = moving * to_rows / 8
    return to_scores @ k, to_scores.mT @ q, moving.mT @ upstream


def test_gradients_within_a_causal_mask_alone_are_told():
    top_left = partial(backward_of_pairs, moves=lambda distance: distance <= 0)
    words = "of pairs within a causal mask alone"
    findings = audit(attention, backward=top_left).findings
    assert f"dq: {words}, in d_k 64; d_v 152; views of (batch, n, heads, d)" in findings
    assert findings[-1] == (
        f"dv: {words}, with queries at the first positions, in n_queries 130, n_keys 262"
    )


def test_gradients_of_views_and_of_queries_without_keys_are_asked_for():
    def of_memory(q, k, v, upstream):
        return backward(q, k, v, upstream.ravel("K").reshape(upstream.shape))

    assert audit(attention, backward=of_memory).findings == [
        f"d{name}: no multiple of the right one, in views of (batch, n, heads, d)" for name in "qkv"
    ]
    zero = partial(audit, lambda *x: np.nan_to_num(attention(*x, ahead=0)), empty="zero")
    of_causal = partial(backward_of_pairs, ahead=0)
    assert zero(mask="causal", backward=of_causal).findings == []
    assert zero(mask="causal", backward=partial(of_causal, empty=math.nan)).findings == [
        f"d{name}: no multiple of the right one, in n_queries 20" for name in "qkv"
    ]


def test_gradients_that_are_wrong_in_long_rows_or_of_wide_values_are_told():
    def of_one_block(q, k, v, upstream):
        dq, dk, dv = backward(q, k, v, upstream)
        return dq, dk * (np.arange(k.shape[2]) < 128)[:, None], dv * (1 + (v.shape[3] > 64))

    assert audit(attention, backward=backward).findings == []
    assert audit(attention, backward=of_one_block).findings == [
        "dk: no multiple of the right one, in n_queries 130, n_keys 262",
        "dv: 2 times the right one, in d_v 152",
    ]

    def of_one_width(q, k, v, upstream):
        if v.shape[3] != 64:
            raise ValueError("expected one width")
        return backward(q, k, v, upstream)

    report = audit(attention, backward=of_one_width)
    assert (report.findings, report.facts["dv"]) == ([], "right")
    assert "backward raises ValueError: expected one width" in report.facts["d_v 152"]


def test_what_a_backward_or_a_function_raises_is_a_finding():
    # One gradient for each query head, in place of the sums of groups.
    actual = audit(attention, groups=2, backward=lambda q, *_: (q, q, q)).findings
    assert "backward raises ValueError: operands" in actual[0]
    assert "raises SystemExit: 0" in str(audit(lambda *_: sys.exit(0)))


@pytest.mark.parametrize("reads", [True, False])
def test_nan_in_hidden_values_is_told_if_it_reaches_the_output(reads):
    seen = np.arange(16) < 10

    def function(q, k, v):
        hidden = v[:, :, ~seen].sum() if reads else 0
        return attention(q, k[:, :, seen], v[:, :, seen]) + 0 * hidden

    report = audit(function, mask=seen)
    assert report.findings == []
    assert report.facts["NaN at hidden keys"] == ("reaches the output" if reads else "no effect")


def in_brain_floats(q, k, v, factor=1.0, add=np.add):
    """Rounded as most kernels do: the arrays, scores, weights and output."""

    def rounds(x):
        return rounded(x, "bfloat16")

    scores = rounds(rounds(np.float32(q) @ np.float32(k).mT) * np.float32(factor / 8))
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total = reduce(add, np.moveaxis(shares, -1, 0))[..., None]
    return rounds(rounds(shares / total) @ np.float32(v))


def test_brain_floats_have_a_tolerance_of_their_own():
    of_one_width = partial(audit, scaling="8")
    assert of_one_width(in_brain_floats, dtype="bfloat16").findings == []
    actual = of_one_width(partial(in_brain_floats, factor=1.02), dtype="bfloat16").findings
    assert actual == ["scores: 0.1275 * q·k, expected 0.125 * q·k", "wrong in all inputs"]
    with_narrow_sums = partial(in_brain_floats, add=lambda *x: rounded(sum(x), "bfloat16"))
    words, *_, where = of_one_width(with_narrow_sums, dtype="bfloat16").findings
    assert re.fullmatch(r"weights sum to: no rule, from 0\.9\d* to 1\.\d*, expected 1", words)
    assert where.startswith("wrong in all inputs but d_k 64")  # short rows
    other = of_one_width(in_brain_floats)
    assert other.verdict == "right in bfloat16, not in float64"
    assert other.findings == ["as if computed in bfloat16: add --dtype bfloat16"]


def test_slopes_are_fitted_by_head():
    reverse = partial(attention, slopes=BY_HEAD[::-1])
    actual = audit(reverse, alibi=NUMBERS).findings[0]
    assert "+ (0.25, 1, 4) * slope * distance, expected" in actual


def test_the_page_lists_every_mistake_and_shows_what_an_audit_prints():
    for words in MISTAKES:
        row = words.replace(" (", " | ").removesuffix(")")
        assert f"\n| {row} |" in PAGE or not words
    assert f"```\n{audit(of_page('numpy'), mask='causal')}\n```" in PAGE


def test_wrong_expectations_are_refused():
    with pytest.raises(ValueError, match="normalize: expected a gain or layer, got rms"):
        audit(attention, normalize="rms")
    with pytest.raises(ValueError, match="normalize: expected a gain above 0 or layer, got 0"):
        audit(attention, normalize=0)
    with pytest.raises(ValueError, match="expected all, or a whole number from 1 to 128, got"):
        audit(attention, groups=1.5)
    with pytest.raises(
        ValueError, match="dtype: expected one of float64, float32, float16, bfloat16, got"
    ):
        audit(attention, dtype="floaty")
