"""Audit an attention function of NumPy arrays: facts and its mistake, from its outputs alone."""

import argparse
import ast
import pkgutil
import sys
from collections.abc import Callable

import numpy as np

from sdpa.masks import MASKS
from sdpa.tools.auditing import audit

NAME = "audit"
_TARGET = "PACKAGE.MODULE:FUNCTION"


def _given(text: str) -> object:
    """The array in a file, a number, or a name."""
    if text.endswith(".npy"):
        return np.load(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


# Of `sdpa.audit`, which has the defaults.
_OPTIONS = {
    "scaling": "expected rule (default: d_k^1/2)",
    "mask": f"expected: {', '.join(MASKS)}, or causal-first, or FILE.npy",
    "softcap": "expected soft cap",
    "sink": "expected logit, or FILE.npy: one for each head",
    "alibi": "expected slope, or FILE.npy: one for each head",
    "bias": "FILE.npy: expected beside q·k in scores",
    "rope": "expected pairs of channels: half or interleaved",
    "normalize": "expected gain of unit q and k, or layer for LayerNorm",
    "empty": "expected of queries without keys: zero, nan, uniform",
    "groups": "query heads per head of keys, or all",
    "d_k": "width of the arrays (default: 64)",
    "dtype": "float64 (the default), float32, float16, or bfloat16: its numbers in arrays of float32",
}

_NUMBERS: dict[str, Callable[[str], object]] = {"d_k": int}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("target", type=_function, metavar=_TARGET, help="importable from here")
    parser.add_argument("--backward", type=_function, metavar=_TARGET, help="its dq, dk and dv")
    for name, text in _OPTIONS.items():
        kind = _NUMBERS.get(name, _given)
        parser.add_argument("--" + name.replace("_", "-"), type=kind, help=text)


def run(given: argparse.Namespace) -> int:
    """Print the report; 1 if there are findings."""
    names = "backward", *_OPTIONS
    options = {x: value for x, value in vars(given).items() if x in names and value is not None}
    report = audit(given.target, **options)
    print(report)
    return int(bool(report.findings))


def _function(target: str) -> Callable[..., object]:
    """The function that PACKAGE.MODULE:FUNCTION names, importable from the working folder."""
    sys.path.insert(0, "")
    try:
        function: Callable[..., object] = pkgutil.resolve_name(target)
    except (Exception, SystemExit) as error:  # a script may end the process
        message = (
            f"expected {_TARGET}, importable here, got {target}: {type(error).__name__}: {error}"
        )
        if ".py:" in target:
            message += "; leave out .py"
        raise argparse.ArgumentTypeError(message) from error
    if not callable(function):
        raise argparse.ArgumentTypeError(f"expected {_TARGET}, got {target}, which is no function")
    return function
