"""Audit an attention function of NumPy arrays: facts and its mistake, from its outputs alone."""

from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sdpa._names import did_you_mean
from sdpa.auditing import EMPTY, audit
from sdpa.command.output import add_options, rule, tell
from sdpa.scaling import SCALED, Scaling, multiplies

NAME = "audit"
_EXPECTED = (
    "scaling",
    "mask",
    "softcap",
    "sink",
    "alibi",
    "normalize",
    "groups",
    "empty",
    "d_k",
    "dtype",
)
_TARGET = "PACKAGE.MODULE:FUNCTION"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("target", metavar=_TARGET, help="importable from the working folder")
    add("--scaling", type=rule, default=SCALED, metavar="RULE", help="expected (default: d_k^1/2)")
    masks = "none, causal, window-N or local-N, or causal-first and so on, or FILE.npy"
    add("--mask", type=_given, default="none", metavar="MASK", help=f"expected: {masks}")
    add("--softcap", type=float, default=0.0, metavar="C", help="expected soft cap")
    add(
        "--sink", type=_given, metavar="SINK", help="expected logit, or FILE.npy: one for each head"
    )
    add("--alibi", type=_given, default=0.0, metavar="SLOPE", help="expected, or FILE.npy likewise")
    add("--normalize", type=float, metavar="GAIN", help="expected gain of unit q and k")
    add("--groups", type=int, default=1, metavar="N", help="query heads per head of keys")
    add("--empty", choices=EMPTY, default="any", help="expected for queries that see no key")
    add("--d-k", type=int, default=64, metavar="N", help="width of the arrays (default: 64)")
    add("--dtype", default="float64", metavar="NAME", help="type of the arrays (default: float64)")
    add("--backward", metavar=_TARGET, help="its gradients dq, dk and dv")
    add_options(parser)


def _given(text: str) -> Any:
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
    options = {name: of for name, of in vars(given).items() if name in _EXPECTED}
    if given.backward:
        options["backward"] = function_of(given.backward)
    report = audit(function_of(given.target), **options)
    rows = [("finding", each) for each in report.findings]
    rows += [("evidence", each) for each in report.evidence]
    rows += [("fact", f"{name}: {each}") for name, each in report.facts.items()]
    expected = Scaling.parse(given.scaling)
    text = str(report)
    if not expected.powers and (line := multiplies(float(expected.constant))):
        text += f"\n{line}"
    tell(given, text, [{"kind": kind, "text": each} for kind, each in rows])
    return int(bool(report.findings))


def function_of(target: str) -> Callable[..., Any]:
    """The function that PACKAGE.MODULE:FUNCTION names; ValueError if there is none, or if its
    module raises an error or ends the process.
    """
    expected = "expected PACKAGE.MODULE:FUNCTION, importable here"
    words, sys.argv = sys.argv, sys.argv[:1]  # a script would read the words of this command
    try:
        found: object = pkgutil.resolve_name(target)
    except (Exception, SystemExit) as error:  # a script may end the process
        kind = type(error).__name__
        meant = target.replace(".py:", ":") if ".py:" in target else None
        hint = did_you_mean(meant)
        raise ValueError(f"{expected}, got {target}: {kind}: {error}{hint}") from error
    finally:
        sys.argv = words
    if not callable(found):
        raise ValueError(  # noqa: TRY004 (of the word in the command line)
            f"{expected}, got {target}, which is no function"
        )
    return found
