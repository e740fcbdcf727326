"""`sdpa.audit` names bugs of public reports, and finds nothing in right functions."""

import math
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from sdpa import attention_gradients, audit
from sdpa.auditing.mistakes import MISTAKES
from sdpa.auditing.probes import Audited
from tests.audited_functions import REPORTED, RIGHT, attention, in_single
from tests.suite_process import ROOT

PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")


def backward(q, k, v, upstream, factor=1.0):
    found = attention_gradients(q, k, v, upstream)
    return factor * found.q, found.k, found.v


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize(("function", "expected"), RIGHT)
def test_right_functions_have_no_finding(dtype, function, expected):
    if dtype != "float64":
        function = partial(in_single, function=function)
    report = audit(function, dtype=dtype, **expected)
    assert report.findings == []
    assert "q·k" in report.facts["scores"]  # though a query may see one key


@pytest.mark.parametrize(("function", "words", "expected"), REPORTED)
def test_bugs_of_public_reports_are_named(function, words, expected):
    assert words in " ".join(audit(function, **expected).findings)


@pytest.mark.parametrize("words", [words for words in MISTAKES if words and "finite" not in words])
def test_each_mistake_is_found_and_no_other_claims_it(words, monkeypatch):
    """Its output, planted; a finite score is a fact if it is not far."""

    def planted(_, a, v):
        least = -1e9 * a.hidden.any()
        found = np.nan_to_num(MISTAKES[words](replace(a, v=v, least=least)))
        assert found.shape == (*a.q.shape[:3], v.shape[3])
        return found

    monkeypatch.setattr(Audited, "output", planted)
    mask = "causal" if "mask" in words else "none"
    sink = 0.5 if "sink" in words else None
    findings = audit(attention, groups=2, mask=mask, sink=sink).findings
    assert findings[-1:] == [words]
    assert sum(one in MISTAKES for one in findings) == 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda q, k, v: attention(q, k, v) + (k.shape[2] > 300),
            "wrong in n_queries 5, n_keys 514, by about",
        ),
        (
            lambda q, k, v: attention(q + 0.3, k, v),
            "wrong in all inputs, by about 8e-03 of the size of scores largest difference: ",
        ),
        (
            lambda q, k, v: attention(q, k[:, :, :-1], v[:, :, :-1]),
            "others; the last query sees 261 of 262, from 0 to 260",
        ),
        (
            lambda q, *_: (q, q),
            "no output that can be audited usual sizes: arrays of float64 raise ValueError: expected",
        ),
    ],
)
def test_what_nothing_explains_is_described(function, words):
    assert words in " ".join(str(audit(function)).split())


def test_a_mistake_of_decoding_is_told_with_its_inputs():
    def without_window(q, k, v):
        return attention(q, k, v, behind=math.inf if q.shape[2] == 1 else 15, ahead=0)

    found = audit(without_window, mask="window-16")
    assert found.findings[0].startswith("keys: all, expected positions -15 to 0")
    assert found.evidence == ["wrong in n_queries 1, n_keys 262"]


def test_changed_arguments_and_rows_that_are_no_number_are_told():
    def scales_in_place(q, k, v):
        q *= 0.125
        return attention(q, k, v, divisor="1")

    assert "got changed ones" in str(audit(scales_in_place))
    assert audit(lambda *x: np.nan * attention(*x)).findings == ["all outputs are 0 or no number"]


def test_factors_of_gradients_and_errors_are_told():
    def found(function):
        return audit(attention, backward=function).findings

    assert found(backward) == []
    assert found(partial(backward, factor=8.0)) == ["dq: 8 times the right one"]
    assert found(lambda *_: 1 / 0) == ["backward raises ZeroDivisionError: division by zero"]


def test_the_page_lists_every_mistake_and_shows_what_an_audit_prints():
    for words in MISTAKES:
        row = re.sub(r" (16|32|64|128|256) keys", " N keys", words)
        row = row.replace(" (", " | ").removesuffix(")")
        assert f"\n| {row} |" in PAGE or not words
    code = re.search(r"```python\n(import numpy.+?)```", PAGE, re.DOTALL)[1]
    names = {}
    exec(code, names)
    assert f"```\n{audit(names['attention'], mask='causal')}\n```" in PAGE


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("groups", 0, "groups that divide heads"),
        ("mask", "window-1024", "which inputs show, got window-1024"),
        ("dtype", "float1", "did you mean float16"),
        ("normalize", -3.0, "expected a gain above 0, without a soft cap, got -3"),
    ],
)
def test_wrong_expectations_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        audit(attention, **{name: value})
    with pytest.raises(TypeError, match="expected a function of q, k and v, got 3"):
        audit(3)
