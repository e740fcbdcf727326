"""`sdpa.audit` names bugs of public reports, and finds nothing in right functions."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import sdpa
from sdpa import audit
from sdpa.auditing.mistakes import CHANGES, MISTAKES
from sdpa.auditing.probes import Audited
from tests import audited_functions as written
from tests.audited_functions import CAUSAL, REPORTED, attend
from tests.suite_process import ROOT

PADDING = np.arange(16) < np.reshape([10, 13], (2, 1, 1, 1))


def backward(q, k, v, upstream, factor=1.0):
    found = sdpa.attention_gradients(q, k, v, upstream)
    return factor * found.q, found.k, found.v


RIGHT = [
    (attend, {"backward": backward}),
    (written.causal, CAUSAL),
    (written.causal, {"dtype": "float32", **CAUSAL}),
    (written.renormalized, CAUSAL),
    (partial(written.in_singles, attention=written.renormalized), {"dtype": "float32", **CAUSAL}),
    (written.from_first, {"mask": "causal-first"}),
    (written.both_sides, {"mask": "local-4"}),
    (partial(attend, mask=PADDING), {"mask": PADDING}),
    (written.sinks, {"sink": (-1, 0.5, 2)}),
    (partial(written.zero_filled, fill=-1e9), CAUSAL),
    (written.capped, {"softcap": 30.0}),
    (written.slopes, {"alibi": (0.5, 0.25, 0.125), **CAUSAL}),
    (written.grouped, {"groups": 2}),
    (written.in_blocks, {}),
    (written.in_singles, {"dtype": "float16"}),
    (written.one_width, {}),
]


@pytest.mark.parametrize(("function", "expected"), RIGHT)
def test_right_functions_have_no_finding(function, expected):
    assert audit(function, **expected).findings == []


@pytest.mark.parametrize(("function", "words", "expected"), REPORTED)
def test_bugs_of_public_reports_are_named(function, words, expected):
    (found,) = audit(function, **expected).findings
    assert words in found


FINITE = next(words for words in MISTAKES if "finite" in words)  # a fact if it is not far
OPTIONS = {
    "not divided": {"normalize": 10.0},
    "soft cap": {"softcap": 5.0},
    "in turn": {"groups": 2},
    "mask": CAUSAL,
}


@pytest.mark.parametrize("words", [words for words in [*CHANGES, *MISTAKES] if words != FINITE])
def test_each_mistake_is_found_and_no_other_claims_it(words, monkeypatch):
    """Its output, planted."""

    def planted(_, a, v):
        change, mistake = CHANGES.get(words), MISTAKES.get(words, MISTAKES[""])
        found = np.nan_to_num(mistake(change(replace(a, v=v)) if change else replace(a, v=v)))
        assert found.shape[-1] == v.shape[-1]
        return found

    monkeypatch.setattr(Audited, "output", planted)
    options = next((each for word, each in OPTIONS.items() if word in words), {})
    assert audit(attend, **options).findings == [words] * bool(words)


UNEXPLAINED = [
    (lambda q, k, v: attend(q, k, v[::-1]), "wrong in rows with n_queries 16; n_queries 1;"),
    (
        lambda q, k, v: attend(q, k, v) + (k.shape[2] > 40),
        "wrong in rows with n_queries 3, n_keys 262; n_queries 5, n_keys 514 smallest",
    ),
    (lambda q, k, v: attend(q, k, v) * (1 - 1e-3 * (q > 40)), "smallest: "),
    (lambda q, *_: (q, q), "no output n_queries 16: arrays of float64 raise ValueError: expected"),
    (lambda q, *_: np.nan * q, "all outputs are 0 or no number"),
    (
        partial(written.in_blocks, keep=1.0),
        "64 keys are not rescaled by a larger maximum in the output",
    ),
]


@pytest.mark.parametrize(("function", "words"), UNEXPLAINED)
def test_what_nothing_explains_is_described(function, words):
    found = audit(function)
    assert found.findings
    assert words in " ".join(str(found).split())


def test_factors_of_gradients_and_outputs_of_empty_rows_are_told():
    found = audit(attend, backward=partial(backward, factor=8.0))
    assert found.findings == ["dq: 8 times the right one"]
    assert audit(written.causal, **CAUSAL).facts["queries without keys"] == "nan"


def test_the_page_lists_every_mistake():
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (.+?) \| *(\S*) \|$", page, re.MULTILINE)
    for words in [*CHANGES, *MISTAKES]:
        shown, _, thread = words.partition(" (")
        if words and not re.match("blocks of (?!64)|halves", words):
            assert (shown, thread.removesuffix(")")) in listed


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
