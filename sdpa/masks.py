"""Masks: which keys each query sees, as booleans, as numbers, or by name.

A mask is boolean, True where a query may attend to a key, or additive: 0 there, and -10,000 or
less, such as -inf, for the other keys. These get the score -inf, and so the weight 0. Every query
needs a visible key.

A name of `MASKS` stands for a mask by position, whose queries are the last n_queries of n_keys
positions; N is any whole number from 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray, FloatArray, as_array, as_float, row_label
from sdpa._names import not_among

NoneOrCausal = Literal["none", "causal"]  # of experiments without other masks
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


class Mask(NamedTuple):
    """A kind of mask by name."""

    sees: str  # the keys that a query sees, in words
    reach: Callable[[int], Reach]  # under this name, with N
    example: int = 0  # an N that models have; 0 for a name without N


MASKS: Mapping[str, Mask] = {
    "none": Mask("all keys", lambda _: Reach(math.inf, math.inf)),
    "causal": Mask("keys up to the query's own", lambda _: Reach(math.inf, 0)),
    "window-N": Mask("the last N of these", lambda n: Reach(n - 1, 0), 512),
    # local-64 is the sliding window of 128 of ModernBERT (Warner et al. 2024, arXiv:2412.13663).
    "local-N": Mask("its own key and N on both sides", lambda n: Reach(n, n), 64),
}
NAMES = tuple(name.replace("-N", f"-{mask.example}") for name, mask in MASKS.items())
MEANINGS = "; ".join(f"{name}: {mask.sees}" for name, mask in MASKS.items())


def reach_of(name: str, offered: Sequence[str] = NAMES) -> Reach:
    """The keys that a query sees under a named mask; ValueError for another name, with those that
    are offered.

    >>> reach_of("local-64"), reach_of("window-512")
    (Reach(behind=64, ahead=64), Reach(behind=511, ahead=0))
    """
    kind, dash, number = name.partition("-")
    form = f"{kind}-N" if f"{kind}-N" in MASKS else name
    if form not in MASKS:
        raise ValueError(f"mask: {not_among(name, offered)}")
    if not MASKS[form].example:
        return MASKS[form].reach(0)
    if not (dash and re.fullmatch(r"[1-9][0-9]{0,8}", number)):
        raise ValueError(
            f"mask: expected {form} with a whole number N from 1 to 999999999, got {name!r}"
        )
    return MASKS[form].reach(int(number))


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
    given = as_array(mask)
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
