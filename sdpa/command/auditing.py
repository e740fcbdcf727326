"""Audit an attention function of NumPy arrays: facts and its mistake, from its outputs alone."""

import argparse
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sdpa._names import did_you_mean
from sdpa.auditing import audit
from sdpa.command.output import add_options, rule, tell

NAME = "audit"
_TARGET = "PACKAGE.MODULE:FUNCTION"


def _given(text: str) -> object:
    """The array in a file, a number, or a name."""
    if text.endswith(".npy"):
        return np.load(text)
    try:
        return float(text)
    except ValueError:
        return text


# Of `sdpa.audit`, which has the defaults.
_OPTIONS: dict[str, tuple[Callable[[str], object], str]] = {
    "scaling": (rule, "expected rule (default: d_k^1/2)"),
    "mask": (_given, "expected: none, causal, window-N, local-N, or causal-first, or FILE.npy"),
    "softcap": (float, "expected soft cap"),
    "sink": (_given, "expected logit, or FILE.npy: one for each head"),
    "alibi": (_given, "expected slope, or FILE.npy: one for each head"),
    "normalize": (float, "expected gain of unit q and k"),
    "empty": (str, "expected of queries without keys: zero, nan, uniform"),
    "groups": (int, "query heads per head of keys"),
    "d_k": (int, "width of the arrays (default: 64)"),
    "dtype": (str, "type of the arrays (default: float64)"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("target", metavar=_TARGET, help="importable from the working folder")
    parser.add_argument("--backward", metavar=_TARGET, help="its gradients dq, dk and dv")
    for name, (kind, text) in _OPTIONS.items():
        parser.add_argument("--" + name.replace("_", "-"), type=kind, help=text)
    add_options(parser)


def run(given: argparse.Namespace) -> int:
    """Print the report; 1 if there are findings.

    Raises:
        ValueError: there is no such function, or `sdpa.audit` refuses an option.
    """
    sys.path.insert(0, str(Path.cwd()))
    options = {name: value for name in _OPTIONS if (value := getattr(given, name)) is not None}
    if given.backward:
        options["backward"] = function_of(given.backward)
    report = audit(function_of(given.target), **options)
    texts = [("finding", x) for x in report.findings] + [("evidence", x) for x in report.evidence]
    rows = [{"kind": kind, "text": text} for kind, text in (*texts, *report.facts.items())]
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
