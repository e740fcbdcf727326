"""`sdpa.audit` names bugs of public reports, and finds nothing in right functions."""

import re
import sys
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

import sdpa
from sdpa import audit, auditing
from tests import audited_functions as written
from tests.audited_functions import CAUSAL, REPORTED, attend
from tests.suite_process import ROOT

PADDING = np.arange(16) < np.reshape([10, 13], (2, 1, 1, 1))


def backward(q, k, v, upstream, factor=1.0):
    found = sdpa.attention_gradients(q, k, v, upstream)
    return factor * found.q, found.k, found.v


RIGHT = [
    (attend, {}),
    (lambda q, k, v: attend(q, k, v), {"backward": backward}),
    (written.causal, {"empty": "nan", **CAUSAL}),
    (written.zeros, {"empty": "zero", **CAUSAL}),
    (written.causal, {"dtype": "float32", **CAUSAL}),
    (written.from_first, {"mask": "causal-first"}),
    (written.both_sides, {"mask": "local-4"}),
    (partial(attend, mask=PADDING), {"mask": PADDING}),
    (written.sinks, {"sink": (-1, 0.5, 2)}),
    (partial(written.zero_filled, fill=-1e9), {"empty": "uniform", **CAUSAL}),
    (written.capped, {"softcap": 30.0}),
    (written.slopes, {"alibi": (0.5, 0.25, 0.125), **CAUSAL}),
    (written.grouped, {"groups": 2}),
    (written.in_blocks, {}),
    (written.in_singles, {"dtype": "float16"}),
    pytest.param(
        *(written.in_singles, {"dtype": "bfloat16"}),
        marks=pytest.mark.skipif(not find_spec("ml_dtypes"), reason="needs ml_dtypes"),
    ),
    (written.one_width, {}),
    (written.unit, {"normalize": 8.0}),
]


@pytest.mark.parametrize(("function", "expected"), RIGHT)
def test_right_functions_have_no_finding(function, expected):
    report = audit(function, **expected)
    assert report.findings == (), str(report)


@pytest.mark.parametrize(("function", "words", "expected"), REPORTED)
def test_bugs_of_public_reports_are_named(function, words, expected):
    report = audit(function, **expected)
    assert any(words in found for found in report.findings), str(report)
    assert len(report.findings) == 1


def facts_of(**expected):
    """The facts that an audit with these expectations compares with."""
    given = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "_report", lambda audited, *_: given.append(audited.facts))
        audit(attend, **expected)
    return given[0]


OPTIONS = {
    "cap": {"softcap": 5.0, **CAUSAL},
    "bias": {"alibi": 0.2},
    "hidden": CAUSAL,
    "mask": CAUSAL,
}
OTHER_BLOCKS = re.compile("of (16|32|128|256) keys")


@pytest.mark.parametrize(
    "mistake", [each for each in auditing.MISTAKES if not OTHER_BLOCKS.search(each[0])]
)
def test_each_mistake_is_found_and_no_other_claims_it(mistake):
    words, _, output = mistake

    def planted(*qkv, facts):
        with np.errstate(all="ignore"):
            found = output(auditing.Steps(auditing.Case(*qkv), facts))
        return np.where(np.isinf(found), np.nan, found)

    options = next((each for word, each in OPTIONS.items() if word in words), {})
    (found,) = audit(partial(planted, facts=facts_of(**options)), **options).findings
    assert found.split(" (as in")[0] == words


UNEXPLAINED = [
    (lambda q, k, v: attend(q.astype("f4"), k, v), "errors are at most"),
    (lambda q, k, v: attend(q, k, v[::-1]), "heads: values of other heads or batch entries"),
    (lambda q, k, v: attend(q, k, v) + (k.shape[2] > 40), "rows with n_keys at least 1097"),
    (lambda q, k, v: attend(q, k, v) * (1 - 1e-3 * (q > 40)), "smallest: "),
    (lambda q, *_: (q, q), "no usable output"),
    (lambda q, *_: np.nan * q, "wrong in 100% of the rows"),
]


@pytest.mark.parametrize(("function", "words"), UNEXPLAINED)
def test_what_nothing_explains_is_described(function, words):
    report = audit(function)
    assert report.findings
    assert words in " ".join(str(report).split())


def test_factors_of_gradients_are_found_and_arguments_are_watched():
    found = audit(attend, backward=partial(backward, factor=8.0)).findings
    assert found == ("dq: 8 times the right one",)

    def changed(q, k, v):
        q *= 0.5
        return attend(q, k, v)

    assert "arguments as they were" in audit(changed).findings[0]
    assert (
        "queries without keys: nan, expected zero"
        in audit(written.causal, empty="zero", **CAUSAL).findings
    )
    assert audit(partial(attend, fill=0)).name == "partial of attend"


def test_the_page_lists_every_mistake_and_thread():
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    listed = [*auditing.THREADS.items(), *(each[:2] for each in auditing.MISTAKES)]
    missing = [each for each in listed if not all(word in page for word in each)]
    assert [
        each for each in missing if "blocks of" not in each[0] and "block of" not in each[0]
    ] == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_keys", 8, "n_keys from 16"),
        ("groups", 0, "groups from 1"),
        ("mask", "window-0", "window-N"),
        ("empty", "none", "expected one of any, zero"),
        ("dtype", "float1", "did you mean float16"),
        ("dtype", "bfloat16", "pip install ml_dtypes"),
    ],
)
def test_wrong_expectations_are_refused(name, value, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)  # sdpa itself does not need it
    with pytest.raises(ValueError, match=message):
        audit(attend, **{name: value})
    with pytest.raises(TypeError, match="expected a function of q, k and v, got 3"):
        audit(3)
