"""Text for the terminal, wherever standard output leads."""

import io
import os
import sys
import textwrap
from collections.abc import Callable

Say = Callable[[str], object]
WIDTH = 100  # columns


def tell(text: str, *, wrap: bool = True) -> None:
    """Print a text, even to a pager that closes early or a terminal that lacks a character.

    Args:
        text: of any number of lines.
        wrap: wrap each line between words; False for a table.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        print("\n".join(map(wrapped, text.split("\n"))) if wrap else text, flush=True)
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Give up standard output after its reader has left; as the documentation of Python's signal module advises."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def wrapped(line: str) -> str:
    """A line, wrapped between words."""
    if len(line) <= WIDTH:
        return line
    return textwrap.fill(line, WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)
