"""Audit an attention function of NumPy arrays: facts and its mistake, from its outputs alone."""

from __future__ import annotations

import argparse
import inspect
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sdpa._names import did_you_mean
from sdpa.auditing import audit
from sdpa.command.output import add_options, rule, tell
from sdpa.scaling import SCALED

NAME = "audit"
_TARGET = "PACKAGE.MODULE:FUNCTION"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("target", metavar=_TARGET, help="importable from the working folder")
    add("--scaling", type=rule, default=SCALED, metavar="RULE", help="expected (default: d_k^1/2)")
    masks = "none, causal, window-N or local-N, or causal-first and so on, or FILE.npy"
    add("--mask", type=_given, default="none", metavar="MASK", help=f"expected: {masks}")
    add("--softcap", type=float, default=0.0, metavar="C", help="expected soft cap")
    by_head = "or FILE.npy: one for each head"
    add("--sink", type=_given, metavar="SINK", help=f"expected logit, {by_head}")
    add("--alibi", type=_given, default=0.0, metavar="SLOPE", help=f"expected slope, {by_head}")
    add("--normalize", type=float, metavar="GAIN", help="expected gain of unit q and k")
    add("--empty", default="any", help="expected of queries without keys: zero, nan, uniform")
    add("--groups", type=int, default=1, metavar="N", help="query heads per head of keys")
    add("--d-k", type=int, default=64, metavar="N", help="width of the arrays (default: 64)")
    add("--dtype", default="float64", metavar="NAME", help="type of the arrays (default: float64)")
    add("--backward", metavar=_TARGET, help="its gradients dq, dk and dv")
    add_options(parser)


def _given(text: str) -> object:
    """The array in a file, a number, or a name."""
    if text.endswith(".npy"):
        return np.load(text)
    try:
        return float(text)
    except ValueError:
        return text


def run(given: argparse.Namespace) -> int:
    """Print the report; 1 if there are findings.

    Raises:
        ValueError: there is no such function, or `sdpa.audit` refuses an option.
    """
    sys.path.insert(0, str(Path.cwd()))
    known = inspect.signature(audit).parameters
    options = {name: value for name, value in vars(given).items() if name in known}
    if given.backward:
        options["backward"] = function_of(given.backward)
    report = audit(function_of(given.target), **options)
    rows = [{"kind": "finding", "text": text} for text in report.findings]
    rows += [{"kind": "evidence", "text": text} for text in report.evidence]
    rows += [{"kind": name, "text": words} for name, words in report.facts.items()]
    tell(given, str(report), rows)
    return int(bool(report.findings))


def function_of(target: str) -> Callable[..., object]:
    """The function that PACKAGE.MODULE:FUNCTION names; ValueError if there is none, or if its
    module raises an error or ends the process.
    """
    expected = f"expected {_TARGET}, importable here, got {target}"
    try:
        found: object = pkgutil.resolve_name(target)
    except (Exception, SystemExit) as error:  # a script may end the process
        hint = did_you_mean(target.replace(".py:", ":") if ".py:" in target else None)
        raise ValueError(f"{expected}: {type(error).__name__}: {error}{hint}") from error
    if not callable(found):
        raise ValueError(f"{expected}, which is no function")  # noqa: TRY004 (of a word)
    return found
