"""The command `sdpa`: its parts, and its exit status.

0: nothing found; 1: findings, or an unexpected error, whose traceback is in a file; 2: a mistake in
the words or in the files; 130: Ctrl-C.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence

import sdpa
from sdpa._names import did_you_mean
from sdpa.command import auditing, comparing, designing, diagnosing

_PARTS = (diagnosing, comparing, auditing, designing)
# Words of PyTorch, whose scale multiplies, and what they mean here.
_MEANT = {
    "--scale": "--scaling, which divides: 1/scale",
    "--causal": "--mask causal",
    "--is_causal": "--mask causal",
}


def main(words: Sequence[str] | None = None) -> int:
    """Run a part of the command on its words, by default those of the process."""
    parser = argparse.ArgumentParser(
        prog="sdpa", description="Attention scores of your own: what a scale does to them."
    )
    parser.add_argument("--version", action="version", version=f"sdpa {sdpa.__version__}")
    parts = parser.add_subparsers(required=True, metavar="COMMAND")
    for part in _PARTS:
        about = (part.__doc__ or "").partition("\n")[0]
        of_part = parts.add_parser(part.NAME, help=about, description=about, allow_abbrev=False)
        part.add_arguments(of_part)
        of_part.set_defaults(run=part.run)
    given, unknown = parser.parse_known_args(words)
    if unknown:
        typed = (word.partition("=")[0] for word in unknown)
        meant = next((_MEANT[word] for word in typed if word in _MEANT), None)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{did_you_mean(meant)}")
    if words is None and hasattr(signal, "SIGPIPE"):  # a reader such as head may have enough
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        return int(given.run(given))
    except OSError as error:
        place = error.filename or "the output"
        print(f"{place}: cannot write: {error.strerror}", file=sys.stderr)
    except ValueError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(_filed(error), file=sys.stderr)
        return 1
    return 2


def _filed(error: Exception) -> str:
    """A line about an unexpected error, whose traceback goes to a file."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="sdpa-error-", suffix=".txt", delete=False
    ) as file:
        traceback.print_exception(error, file=file)
    first, *_ = f"{type(error).__name__}: {error}".splitlines()
    return f"sdpa ended: {first} (traceback: {file.name})"
