"""The command `sdpa`: its parts, and its exit status.

0: nothing found; 1: findings; 2: a mistake in the words or in the files; 130: Ctrl-C.
"""

import argparse
import signal
import sys
from collections.abc import Sequence

import sdpa
from sdpa.tools.command import auditing, comparing, designing, diagnosing

_PARTS = (diagnosing, comparing, auditing, designing)


def main(words: Sequence[str] | None = None) -> int:
    """Run a part of the command on its words, by default those of the process."""
    parser = argparse.ArgumentParser(
        prog="sdpa", description="Attention scores of your own: what a scale does to them."
    )
    parser.add_argument("--version", action="version", version=f"sdpa {sdpa.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for part in _PARTS:
        about = (part.__doc__ or "").partition("\n")[0]
        subparser = commands.add_parser(
            part.NAME, help=about, description=about, allow_abbrev=False
        )
        part.add_arguments(subparser)
        subparser.set_defaults(run=part.run)
    if words is None and hasattr(signal, "SIGPIPE"):  # a reader such as head may have enough
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        given = parser.parse_args(words)
        return int(given.run(given))
    except OSError as error:
        print(f"{error.filename or 'the output'}: {error.strerror}", file=sys.stderr)
    except (ValueError, ImportError) as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 2
