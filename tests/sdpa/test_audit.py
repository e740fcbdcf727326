"""`sdpa.audit` names bugs of public threads, alone and in pairs, and raises nothing on right
functions.
"""

import sys
from functools import partial

import numpy as np
import pytest

import sdpa
from sdpa import audit
from sdpa.auditing import catalogue
from sdpa.auditing.computation import Computation, Expected
from tests import audited_functions as written
from tests.audited_functions import CAUSAL, REPORTED, attend

SIZES = (16, 40)


def backward(q, k, v, upstream, factor=1.0):
    found = sdpa.attention_gradients(q, k, v, upstream)
    return factor * found.q, found.k, found.v


RIGHT = [
    (attend, {}),
    (attend, {"backward": backward}),
    (written.causal, CAUSAL),
    (written.causal, {"dtype": "float32", **CAUSAL}),
    (written.both_sides, {"mask": "local-4"}),
    (written.sinks, {"sink": (-1, 0.5, 2)}),
    (partial(written.zero_filled, fill=-1e9), CAUSAL),
    (written.capped, {"softcap": 30.0}),
    (written.alibi, {"alibi": 0.25, **CAUSAL}),
    (written.grouped, {"groups": 2}),
    (written.in_blocks, {"n_keys": (16, 300)}),
    (written.in_singles, {"dtype": np.float16}),
    (written.one_width, {}),
    (written.no_root, {"scaling": "d_k^1"}),
    (written.latent_width, {"scaling": 24.0}),
]


@pytest.mark.parametrize(("function", "expected"), RIGHT)
def test_right_functions_have_no_finding(function, expected):
    report = audit(function, **{"n_keys": SIZES} | expected)
    assert {one.verdict for one in report.items} == {"as expected"}, report.evidence


@pytest.mark.parametrize(("function", "words", "expected"), REPORTED)
def test_bugs_of_public_reports_are_named(function, words, expected):
    report = audit(function, n_keys=SIZES, **expected)
    assert words in report.findings[0].found, str(report)
    assert " or " not in report.findings[0].found


PLAIN = Expected(sdpa.Scaling.parse("d_k^1/2/1.5"), "none", 0.0, None, 0.2, 1)
RICH = Expected(sdpa.Scaling.parse("d_k^1/2/1.5"), "window-5", 5.0, 0.5, 0.2, 2)


@pytest.mark.parametrize("slip", catalogue.CATALOGUE, ids=lambda slip: slip.compute.__name__)
def test_each_entry_is_found_and_named_and_no_other_claims_it(slip, monkeypatch):
    monkeypatch.setattr("sdpa.auditing.causes._LARGEST", 0)  # no pairs are tried
    number = slip.numbers[len(slip.numbers) // 2] if slip.numbers else 0
    named = []
    for expected in (PLAIN, RICH):

        def planted(*arrays, expected=expected):
            return Computation(arrays, expected, number).output({slip.stage: slip.compute})

        findings = audit(planted, n_keys=SIZES, **vars(expected)).findings
        named += [finding.found for finding in findings[:1]]
    assert slip.name.format(f"{number:.6g}") in named
    assert all(" or " not in found for found in named)
    assert all("#" in thread for thread in slip.threads)


def changed(q, k, v):
    q *= 0.5
    return attend(q, k, v)


UNEXPLAINED = [
    (
        lambda *qkv: attend(*(x.astype("f2") for x in qkv)),
        "outputs",
        "errors like those of float16",
        {},
    ),
    (lambda q, k, v: attend(q, k, v[::-1]), "heads", "[[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]", {}),
    (lambda q, k, v: attend(q, k[:, :, :8], v[:, :, :8]), "mask", "[8.0,", {}),
    (lambda q, k, v: attend(q / len(q) ** 0.5, k, v), "divisor", "11.3137 to 11.3137", {}),
    (lambda q, k, v: attend(q, k, v) * (1 + (k.shape[2] > 16)), "lost mass", "-1", {}),
    (written.dropped, "dropout", "left on, rate 0.1", {}),
    (changed, "outputs", "no usable output", {}),
    (lambda q, *_: np.nan * q, "lost mass", "nan", {}),
    (lambda q, *_: (q, q), "outputs", "no usable output", {}),
    (attend, "gradients", "wrong", {"backward": partial(backward, factor=0.5)}),
]


@pytest.mark.parametrize(("function", "item", "found", "expected"), UNEXPLAINED)
def test_what_no_slip_explains_is_described(function, item, found, expected, monkeypatch):
    if item != "outputs":  # errors of rounding, which any pair might come near to
        monkeypatch.setattr("sdpa.auditing.causes._LARGEST", 0)  # no pairs are tried
    report = audit(function, n_keys=SIZES, **expected)
    described = {finding.item: finding.found for finding in report.findings}
    assert described[item].startswith(found), str(report)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_keys", (16, 8), "rising"),
        ("n_keys", 16.0, "whole d_k"),
        ("groups", 0, "groups from 1"),
        ("mask", "window-0", "window-N"),
        ("sink", [-1.0, 2.0], "one for each of 3 heads, which some inputs have, got 2 numbers"),
        ("dtype", "fp16", "did you mean float16"),
        ("dtype", "bfloat16", "pip install ml_dtypes"),
    ],
)
def test_wrong_expectations_are_refused(name, value, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)  # sdpa itself does not need it
    with pytest.raises(ValueError, match=message):
        audit(attend, **{name: value})
    with pytest.raises(TypeError, match="expected a function of q, k and v, got 3"):
        audit(3)
