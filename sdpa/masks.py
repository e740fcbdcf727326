"""Masks: which keys each query sees, as booleans, as numbers, or by name.

A mask is boolean, True where a query may attend to a key, or additive: 0 there, and -10,000 or
less, such as -inf, for the other keys. These get the score -inf, and so the weight 0. Every query
needs a visible key.

A name stands for a mask by position, whose queries are the last n_queries of n_keys positions; N is
any whole number from 1:

    none        all keys
    causal      the keys up to the position of the query, its own key
    window-N    causal, and of these the last N
    local-N     the own key, and the N before and after it, as far as there are so many: local-64 is
                the sliding window of 128 of ModernBERT (Warner et al. 2024, arXiv:2412.13663)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray, as_float, row_label
from sdpa._names import not_among

NoneOrCausal = Literal["none", "causal"]  # of experiments without other masks
NAMES = "none", "causal", "window-512", "local-64"
HIDDEN = -9984.0  # -1e4 in bfloat16; an additive mask hides a key by this or less


class Reach(NamedTuple):
    """The keys that a query sees by position: from `behind` before its own to `ahead` after it."""

    behind: float
    ahead: float

    def sees(self, own: npt.ArrayLike, keys: npt.ArrayLike) -> BoolArray:
        """True where queries of these positions see keys of these positions, which broadcast."""
        places, own = np.asarray(keys), np.asarray(own)
        return np.asarray((places >= own - self.behind) & (places <= own + self.ahead))

    def lengths(self, n_queries: int, n_keys: int) -> npt.NDArray[np.intp]:
        """The numbers of keys that the last n_queries of n_keys positions see, (n_queries,).

        >>> reach_of("local-1").lengths(3, 4)
        array([3, 3, 2])
        """
        own = np.arange(n_keys - n_queries, n_keys)
        last = np.minimum(own + self.ahead, n_keys - 1)
        return np.asarray(last - np.maximum(own - self.behind, 0) + 1, np.intp)


def reach_of(name: str, offered: Sequence[str] = NAMES) -> Reach:
    """The keys that a query sees under a named mask; ValueError for another name, with those that
    are offered.

    >>> reach_of("local-64"), reach_of("window-512")
    (Reach(behind=64, ahead=64), Reach(behind=511, ahead=0))
    """
    if name in ("none", "causal"):
        return Reach(math.inf, 0 if name == "causal" else math.inf)
    if numbered := re.fullmatch(r"(window|local)-([1-9][0-9]{0,8})", name):
        n = int(numbered[2])
        return Reach(n, n) if numbered[1] == "local" else Reach(n - 1, 0)
    if begun := re.match("window|local", name):
        raise ValueError(
            f"mask: expected {begun[0]}-N with a whole number N from 1 to 999999999, got {name!r}"
        )
    raise ValueError(f"mask: {not_among(name, offered)}")


def named_mask(name: str, n_queries: int, n_keys: int) -> BoolArray:
    """A mask by name, (n_queries, n_keys); ValueError for more queries than keys, but not for
    `none`.

    >>> named_mask("local-1", 2, 4)
    array([[False,  True,  True,  True],
           [False, False,  True,  True]])
    """
    reach = reach_of(name)
    if name != "none" and not 1 <= n_queries <= n_keys:
        raise ValueError(
            f"mask: expected n_queries from 1 to n_keys for {name!r}, got {n_queries} and {n_keys}"
        )
    return reach.sees(np.arange(n_keys - n_queries, n_keys)[:, None], np.arange(n_keys))


def causal_mask(n_queries: int, n_keys: int) -> BoolArray:
    """`named_mask` of `causal`: the last n_queries of n_keys positions see the keys up to their own.

    >>> causal_mask(2, 3)
    array([[ True,  True, False],
           [ True,  True,  True]])
    """
    return named_mask("causal", n_queries, n_keys)


def masked(scores: FloatArray, mask: npt.ArrayLike | None) -> FloatArray:
    """The scores, with -inf where the mask hides the key; ValueError for an invalid mask."""
    return scores if mask is None else np.where(allowed_keys(mask, scores.shape), scores, -np.inf)


def allowed_keys(mask: npt.ArrayLike, shape: tuple[int, ...]) -> BoolArray:
    """The mask as booleans in the shape of the scores; ValueError unless it broadcasts and shows
    each query a key.
    """
    if isinstance(mask, str):
        mask = named_mask(mask, *(1, *shape)[-2:])
    allowed = broadcast_mask(mask, shape)
    empty = np.argwhere(~allowed.any(axis=-1))
    if len(empty):
        raise ValueError(
            f"mask: expected every query to see a key, got none in {row_label(tuple(empty[0]))}"
        )
    return allowed


def broadcast_mask(mask: npt.ArrayLike, shape: tuple[int, ...]) -> BoolArray:
    """A mask as booleans in the shape of the scores; ValueError unless it is boolean or additive,
    and broadcasts.
    """
    given = np.asarray(mask)
    if given.ndim == 0:
        raise ValueError(f"mask: expected a name such as 'causal', or an array, got {mask!r}")
    allowed = given if given.dtype == np.bool_ else given == 0
    if given.dtype != np.bool_ and not (as_float("mask", given)[~allowed] <= HIDDEN).all():
        raise ValueError(
            "mask: expected booleans (True: may attend; of ones and zeros, mask == 1), or numbers "
            "to add to scores"
            f" (0, or -10,000 and less), got an array of {given.dtype} with {given[~allowed].max()}"
        )
    try:
        return np.broadcast_to(allowed, shape)
    except ValueError:
        raise ValueError(
            f"mask: expected a shape that broadcasts to {shape}, got {allowed.shape}"
        ) from None
