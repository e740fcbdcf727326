"""The texts that decoders train on, `text/NAME.txt`, as tokens: one per character."""

from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.integer]
TextName = Literal["python", "scipy"]
TESTED = 32  # stretches that the loss is measured on


@cache
def text(name: TextName) -> str:
    """The whole text."""
    return (Path(__file__).with_name("text") / f"{name}.txt").read_text(encoding="utf-8")


def characters(name: TextName) -> str:
    """The characters of the text in order; the place of each is its token."""
    return "".join(sorted(set(text(name))))


@cache
def _tokens(name: TextName) -> Tokens:
    places = {character: place for place, character in enumerate(characters(name))}
    return np.array([places[c] for c in text(name)])


def trained_on(name: TextName) -> Tokens:
    """The tokens of the first nine tenths of the text."""
    return _tokens(name)[: len(_tokens(name)) * 9 // 10]


def held_out(name: TextName) -> Tokens:
    """The tokens of the rest."""
    return _tokens(name)[len(trained_on(name)) :]


def stretches(tokens: Tokens, starts: Tokens, length: int) -> Tokens:
    """The stretches of tokens from these starts, (starts, length)."""
    return np.asarray(tokens[starts[:, None] + np.arange(length)])


@cache
def held_out_stretches(name: TextName, n_keys: int) -> Tokens:
    """Stretches of n_keys + 1 tokens of the held-out text, spread evenly over it."""
    rest = held_out(name)
    starts = np.linspace(0, len(rest) - n_keys - 1, TESTED).astype(int)
    return stretches(rest, starts, n_keys + 1)


@cache
def all_held_out(name: TextName, n_keys: int) -> Tokens:
    """Stretches of n_keys + 1 tokens that predict each token of the held-out text once, but for its
    first and fewer than n_keys of its last.
    """
    rest = held_out(name)
    return stretches(rest, np.arange(0, len(rest) - n_keys, n_keys), n_keys + 1)
