"""Find the divisor that gives rows a wanted entropy, largest weight or variance."""

import argparse
from typing import get_args

from sdpa.masks import MASKS
from sdpa.theory.attention import Target
from sdpa.tools.command.output import add_options, tell
from sdpa.tools.design import COLUMNS, design

NAME = "design"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("--d-k", type=_whole, required=True, metavar="N", help="width of queries and keys")
    add("--n-keys", type=_whole, required=True, metavar="N", help="keys of the sequence")
    wishes = parser.add_mutually_exclusive_group(required=True)
    for target in get_args(Target):
        wishes.add_argument(
            f"--{target.replace('_', '-')}", type=float, metavar="NUMBER", help=COLUMNS[target][1]
        )
    add("--normalize", default="none", help="normalization of queries and keys: none, l2 or rms")
    add("--mask", default="none", help=f"{', '.join(MASKS)}; a query for each key")
    add_options(parser)


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number such as 1024, got {text!r}")
    return int(text)


def run(given: argparse.Namespace) -> int:
    """Print the divisor, the same divisor as another rule, and exact values with it.

    Raises:
        ValueError: no divisor gives the value.
    """
    target = next(name for name in get_args(Target) if getattr(given, name) is not None)
    value = getattr(given, target)
    result = design(target, value, given.d_k, given.n_keys, given.mask, given.normalize)
    tell(given, str(result), result.table)
    return 0
