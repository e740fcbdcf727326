"""Wording that messages share."""

from collections.abc import Iterable
from difflib import get_close_matches


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the singular or with an s.

    >>> counted(1, "cell"), counted(2, "cell")
    ('1 cell', '2 cells')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def did_you_mean(given: object, names: Iterable[str]) -> str:
    """The end of a message that suggests the nearest name; empty if none is near.

    >>> did_you_mean("N_key", ["d_k", "n_keys"]), did_you_mean("x", ["d_k", "n_keys"])
    ('; did you mean n_keys?', '')
    """
    return "".join(f"; did you mean {name}?" for name in get_close_matches(str(given).lower(), list(names), n=1))
