"""The text that decoders train on, `text/python.txt`, as tokens: one per character."""

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.integer]
TEXT = Path(__file__).with_name("text") / "python.txt"
TESTED = 32  # stretches that the loss is measured on


@cache
def characters() -> str:
    """The characters of the text in order; the place of each is its token."""
    return "".join(sorted(set(TEXT.read_text(encoding="utf-8"))))


@cache
def _tokens() -> Tokens:
    places = {character: place for place, character in enumerate(characters())}
    return np.array([places[c] for c in TEXT.read_text(encoding="utf-8")])


def trained_on() -> Tokens:
    """The tokens of the first nine tenths of the text."""
    return _tokens()[: len(_tokens()) * 9 // 10]


def held_out() -> Tokens:
    """The tokens of the rest."""
    return _tokens()[len(trained_on()) :]


def stretches(tokens: Tokens, starts: Tokens, length: int) -> Tokens:
    """The stretches of tokens from these starts, (starts, length)."""
    return np.asarray(tokens[starts[:, None] + np.arange(length)])


@cache
def held_out_stretches(n_keys: int) -> Tokens:
    """Stretches of n_keys + 1 tokens of the held-out text, spread evenly over it."""
    rest = held_out()
    starts = np.linspace(0, len(rest) - n_keys - 1, TESTED).astype(int)
    return stretches(rest, starts, n_keys + 1)
