"""Audit an attention function of NumPy arrays: which slip it has, from its outputs alone."""

from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sdpa._names import did_you_mean
from sdpa.auditing import audit
from sdpa.command.diagnosing import split_sink
from sdpa.command.output import add_options, check, rule, tell
from sdpa.heads.reading import sinks_in
from sdpa.scaling import SCALED, Scaling, multiplies

NAME = "audit"
_EXPECTED = ("scaling", "mask", "softcap", "sink", "alibi", "groups", "dtype")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("target", metavar="PACKAGE.MODULE:FUNCTION", help="importable from the working folder")
    add(
        "--scaling",
        type=rule,
        default=SCALED,
        metavar="RULE",
        help="expected rule (default: %(default)s)",
    )
    add(
        "--mask", default="none", metavar="MASK", help="expected: none, causal, window-N or local-N"
    )
    add("--softcap", type=float, default=0.0, metavar="C", help="expected soft cap")
    add("--sink", metavar="SINK", help="expected logit of a sink, or a file with one for each head")
    add("--alibi", type=float, default=0.0, metavar="SLOPE", help="expected slope of ALiBi")
    add("--groups", type=int, default=1, metavar="N", help="query heads per head of keys")
    add("--dtype", default="float64", metavar="NAME", help="type of the arrays (default: float64)")
    add("--evidence", action="store_true", help="print every item, not findings alone")
    add_options(parser)


def run(given: argparse.Namespace) -> int:
    """Print the report; 1 if there are findings.

    Raises:
        ValueError: there is no such function, or `sdpa.audit` refuses an option.
    """
    logit, file = split_sink(given.sink)
    check(given, filter(None, [file]))
    given.sink = sinks_in(file) if file else logit
    sys.path.insert(0, str(Path.cwd()))
    expected = {name: getattr(given, name) for name in _EXPECTED}
    report = audit(function_of(given.target), **expected)
    text = report.evidence if given.evidence else str(report)
    expected_rule = Scaling.parse(given.scaling)
    if not expected_rule.powers and (line := multiplies(float(expected_rule.constant))):
        text += f"\n{line}"
    tell(given, text, [*map(asdict, report.items)])
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
