"""`sdpa.audit` names bugs of public reports, and finds nothing in right functions."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import sdpa
from sdpa import audit, scaled_dot_product_attention
from sdpa.auditing.mistakes import CHANGES, MISTAKES
from sdpa.auditing.probes import Audited
from tests.audited_functions import REPORTED, RIGHT, attend
from tests.suite_process import ROOT

PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
# The others have other sizes of blocks.
LISTED = [
    words for words in {**CHANGES, **MISTAKES} if not re.match("blocks of (?!64)|halves", words)
]
FINITE = next(words for words in MISTAKES if "finite" in words)  # a fact if it is not far
OPTIONS = {
    "in turn": {"groups": 2},
    "not divided": {"normalize": 10},
    "cap": {"softcap": 5.0},
    "mask": {"mask": "causal"},
}


def backward(q, k, v, upstream, factor=1.0):
    found = sdpa.attention_gradients(q, k, v, upstream)
    return factor * found.q, found.k, found.v


def half(function, *arrays):
    """A function of float16 that computes in double precision."""
    found = function(*(array.astype(float) for array in arrays))
    parts = found if isinstance(found, tuple) else (found,)
    rounded = tuple(part.astype(np.float16) for part in parts)
    return rounded if isinstance(found, tuple) else rounded[0]


HALF = {"dtype": "float16", "backward": partial(half, backward)}
WITH_GRADIENTS = [(attend, {"backward": backward}), (partial(half, attend), HALF)]


@pytest.mark.parametrize(("function", "expected"), [*RIGHT, *WITH_GRADIENTS])
def test_right_functions_have_no_finding(function, expected):
    assert audit(function, **expected).findings == []


@pytest.mark.parametrize(("function", "words", "expected"), REPORTED)
def test_bugs_of_public_reports_are_named(function, words, expected):
    assert words in audit(function, **expected).findings[0]


@pytest.mark.parametrize("words", [words for words in LISTED if words != FINITE])
def test_each_mistake_is_found_and_no_other_claims_it(words, monkeypatch):
    """Its output, planted."""

    def planted(_, a, v):
        changed = CHANGES.get(words, CHANGES[""])(replace(a, v=v))
        found = np.nan_to_num(MISTAKES.get(words, MISTAKES[""])(changed))
        assert found.shape[-1] == v.shape[-1]
        return found

    monkeypatch.setattr(Audited, "output", planted)
    options = next((each for word, each in OPTIONS.items() if word in words), {})
    assert audit(attend, **options).findings == [words] * bool(words)


UNEXPLAINED = [
    (lambda q, k, v: attend(q, k, v[::-1]), "wrong in all inputs smallest: n_queries 1, scores"),
    (lambda q, k, v: attend(q, k, v) + (k.shape[2] > 40), "wrong in n_queries 3, n_keys 262; n_q"),
    (lambda q, *_: (q, q), "no output n_queries 16: arrays of float64 raise ValueError: expected"),
]


@pytest.mark.parametrize(("function", "words"), UNEXPLAINED)
def test_what_nothing_explains_is_described(function, words):
    found = audit(function)
    assert found.findings
    assert words in " ".join(str(found).split())


def test_factors_of_gradients_are_told():
    found = audit(attend, backward=partial(backward, factor=8.0))
    assert found.findings == ["dq: 8 times the right one"]


def test_the_page_lists_every_mistake_and_shows_what_an_audit_prints():
    listed = re.findall(r"^\| (.+?) \| *(\S*) \|$", PAGE, re.MULTILINE)
    for words in filter(None, LISTED):
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
        ("groups", 0, "groups from 1"),
        ("mask", "window-0", "window-N"),
        ("dtype", "float1", "did you mean float16"),
    ],
)
def test_wrong_expectations_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        audit(attend, **{name: value})
    with pytest.raises(TypeError, match="expected a function of q, k and v, got 3"):
        audit(3)


@pytest.mark.parametrize("mask", ["window-1024", "local-200"])
def test_a_window_whose_end_no_input_shows_is_refused(mask):
    with pytest.raises(ValueError, match=f"which inputs can show, got .* of {mask}"):
        audit(scaled_dot_product_attention, mask=mask)


def test_a_dropped_tail_of_keys_is_told_by_what_the_last_query_sees():
    def attention(q, k, v):
        n = k.shape[2] // 32 * 32 or k.shape[2]
        return scaled_dot_product_attention(q, k[:, :, :n], v[:, :, :n])

    (finding,) = (words for words in audit(attention).findings if words.startswith("keys"))
    assert finding == "keys: others; the last query sees 128 of 130, from 0 to 127, expected all"
