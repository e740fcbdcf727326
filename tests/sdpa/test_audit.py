"""`sdpa.audit` names bugs of public reports, and finds nothing in right functions."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import sdpa
from sdpa import audit, scaled_dot_product_attention
from sdpa.auditing.mistakes import MISTAKES
from sdpa.auditing.probes import Audited
from tests.audited_functions import REPORTED, RIGHT, attend, in_type
from tests.suite_process import ROOT

PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
OPTIONS = {
    "sink": {"sink": 0.5},
    "in turn": {"groups": 2},
    "first head": {"groups": 3},
    "mask": {"mask": "causal"},
}


def backward(q, k, v, upstream, factor=1.0):
    found = sdpa.attention_gradients(q, k, v, upstream)
    return factor * found.q, found.k, found.v


@pytest.mark.parametrize(("function", "expected"), [*RIGHT, (attend, {"backward": backward})])
def test_right_functions_have_no_finding(function, expected):
    assert audit(function, **expected).findings == []


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("function", "expected"), RIGHT)
def test_right_functions_of_other_types_have_no_finding(dtype, function, expected):
    single = partial(in_type, "f4", attention=function)
    assert audit(single, **expected | {"dtype": dtype}).findings == []


@pytest.mark.parametrize(("function", "words", "expected"), REPORTED)
def test_bugs_of_public_reports_are_named(function, words, expected):
    assert words in " ".join(audit(function, **expected).findings)


@pytest.mark.parametrize("words", [words for words in MISTAKES if "finite" not in words])
def test_each_mistake_is_found_and_no_other_claims_it(words, monkeypatch):
    """Its output, planted; a finite score is a fact if it is not far."""

    def planted(_, a, v):
        found = np.nan_to_num(MISTAKES[words](replace(a, v=v, block=64)))
        assert found.shape == (*a.q.shape[:3], v.shape[3])
        return found

    monkeypatch.setattr(Audited, "output", planted)
    options = next((each for word, each in OPTIONS.items() if word in words), {})
    assert audit(attend, **options).findings[-1:] == [words] * bool(words)


UNEXPLAINED = [
    (lambda q, k, v: attend(q, k, v[:, ::-1]), "wrong in all inputs smallest: n_queries 1: out"),
    (lambda q, k, v: attend(q, k, v) + (k.shape[2] > 300), "wrong in n_queries 5, n_keys 514 sma"),
    (
        lambda q, *_: (q, q),
        "no output that can be audited usual sizes: arrays of float64 raise ValueError: expected",
    ),
    (lambda q, k, v: attend(q, k[:, :, :-1], v[:, :, :-1]), "the last query sees 261 of 262, fr"),
]


@pytest.mark.parametrize(("function", "words"), UNEXPLAINED)
def test_what_nothing_explains_is_described(function, words):
    found = audit(function)
    assert found.findings
    assert words in " ".join(str(found).split())


def test_factors_of_gradients_and_errors_are_told():
    assert audit(attend, backward=partial(backward, factor=8.0)).findings == [
        "dq: 8 times the right one"
    ]
    (finding,) = audit(attend, backward=lambda *_: 1 / 0).findings
    assert finding == "backward raises ZeroDivisionError: division by zero"


def test_the_page_lists_every_mistake_and_shows_what_an_audit_prints():
    listed = re.findall(r"^\| (.+?) \| *(\S*) \|$", PAGE, re.MULTILINE)
    for words in filter(None, MISTAKES):
        shown, _, thread = words.partition(" (")
        assert (shown, thread.removesuffix(")")) in listed
    code, report = re.search(
        r"```python\n(import numpy.+?)```.+?```\n(.+?)```", PAGE, re.DOTALL
    ).groups()
    names = {}
    exec(code, names)
    assert report == f"{audit(names['attention'], mask='causal')}\n"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("groups", 0, "groups that divide heads"),
        ("mask", "window-0", "window-N"),
        ("mask", "window-1024", "which inputs show, got window-1024"),
        ("dtype", "float1", "did you mean float16"),
    ],
)
def test_wrong_expectations_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        audit(scaled_dot_product_attention, **{name: value})
    with pytest.raises(TypeError, match="expected a function of q, k and v, got 3"):
        audit(3)
