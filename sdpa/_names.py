"""Hints at the known name that an unknown one may mean."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# the share of common characters from which names are near; at 0.6, `bias` is near `trials`
_ALIKE = 0.7


def nearest(given: object, names: Iterable[str]) -> str | None:
    """The name nearest to a value, whose case does not count; None if none is near.

    Args:
        given: the value in place of a name.
        names: the known names.

    >>> nearest("N_key", ["d_k", "n_keys"]), nearest("x", ["d_k", "n_keys"])
    ('n_keys', None)
    """
    return next(iter(get_close_matches(str(given).lower(), list(names), n=1, cutoff=_ALIKE)), None)


def not_among(given: object, names: Iterable[str], meant: str | None = None) -> str:
    """The message about a value that is none of the names, and perhaps means one of them; with "",
    it means none.

    >>> not_among("gausian", ["gaussian", "uniform"])
    "expected one of gaussian, uniform, got 'gausian'; did you mean gaussian?"
    """
    known = list(names)
    hint = did_you_mean(nearest(given, known) if meant is None else meant)
    return f"expected one of {', '.join(known)}, got {given!r}{hint}"


def did_you_mean(name: str | None) -> str:
    """The end of a message that suggests a name; empty without one.

    >>> did_you_mean("n_keys"), did_you_mean(None)
    ('; did you mean n_keys?', '')
    """
    return f"; did you mean {name}?" if name else ""
