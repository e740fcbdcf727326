"""Queries and keys, scores or weights of a layer, and their diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sdpa._arrays import BoolArray
from sdpa.diagnosis import AXES, Diagnosis, Mask, diagnose, diagnose_scores
from sdpa.diagnosis.heads import are_weights
from sdpa.heads.formats import Array
from sdpa.masks import named_mask
from sdpa.row_maps import PLAIN, RowMap
from sdpa.scaling import Rule

Kind = Literal["q", "scores", "weights"]
# Weights leave open what all scores of a row have in common.
_ROUNDED = 0.01  # of the weights of all keys, as in `are_weights`
UNKNOWN_OF_WEIGHTS = ("score_variance", "largest_score", "largest_absolute_score")


@dataclass(frozen=True)
class HeadArrays:
    """Queries and keys of one layer or head, or of all of them in one pair of arrays; or scores, or
    weights.

    Attributes:
        layer, head: the numbers in the names of the arrays; None if the names have none.
        q: (..., n_queries, d_k), or scores or weights (..., n_queries, n_keys); it may be read-only
            and mapped from a file.
        k: (..., n_keys, d_k); None beside scores and weights.
        place: the files, and the names of the arrays; for messages.
        axes: names of the leading axes of q; None for the usual ones.
        mask: True where the query may attend, broadcast to (..., n_queries, n_keys); None for all.
        kind: of the numbers in q.
        sinks: one logit per head, if `row_map` has no sink; otherwise None.
    """

    layer: int | None
    head: int | None
    q: Array
    k: Array | None
    place: str = "q and k"
    axes: tuple[str, ...] | None = None
    mask: BoolArray | None = None
    kind: Kind = "q"
    sinks: Array | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers in the names of the arrays, by `layer` and `head`."""
        both = ("layer", self.layer), ("head", self.head)
        return {name: number for name, number in both if number is not None}

    @property
    def leading(self) -> tuple[str, ...]:
        """The names of the leading axes of q; none where they are neither given nor usual."""
        count = self.q.ndim - 2 + (self.head is not None)
        usual = AXES.get(count, ())
        return self.axes or tuple(name for name in usual if name not in self.numbers)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the scores, (..., n_queries, n_keys)."""
        if self.k is None:
            return self.q.shape
        return (*self.q.shape[:-1], self.k.shape[-2])

    def visible(self, mask: str | None) -> Mask | None:
        """A mask by name together with that of the arrays."""
        if self.mask is None:
            return mask
        if mask in (None, "none"):
            return self.mask
        return self.mask & named_mask(mask, *self.shape[-2:])

    def diagnose(
        self, scaling: Rule = "d_k^1/2", mask: str | None = None, row_map: RowMap = PLAIN
    ) -> Diagnosis:
        """The diagnosis of the heads, as by `sdpa.diagnose` and `sdpa.diagnose_scores`.

        ln w has the softmax w, and differs from the scores by a number for each row. So weights
        give the numbers of scores but `UNKNOWN_OF_WEIGHTS`. A weight of 0 hides its key; where a
        mask says which keys are visible, it stands for the smallest number of its type.

        Raises:
            ValueError: an option does not fit the arrays, or the library refuses them.
        """
        axes = self.leading
        visible = self.visible(mask)
        if self.k is not None:
            cap = row_map.softcap
            sink = self.sinks if row_map.sink is None else row_map.sink
            return diagnose(self.q, self.k, scaling, visible, axes=axes, softcap=cap, sink=sink)
        if self.kind == "scores":
            return diagnose_scores(self.q, visible, axes=axes)
        _check_weights(self.q)
        if visible is not None:
            self._check_hidden_weights(visible)
        scores = _logarithms(self.q, has_zeros=visible is not None)
        found = diagnose_scores(scores, visible, axes=axes)
        known = {name: found[name] for name in found.estimates if name not in UNKNOWN_OF_WEIGHTS}
        return replace(found, estimates=known)

    def _check_hidden_weights(self, mask: Mask) -> None:
        """ValueError if a mask hides weight of rows that see a key; others are padding."""
        seen = named_mask(mask, *self.shape[-2:]) if isinstance(mask, str) else np.asarray(mask)
        counted = seen.any(axis=-1, keepdims=True)
        hidden = (self.q * (counted & ~seen)).sum(dtype=np.float64)
        hidden /= (self.q * counted).sum(dtype=np.float64) or 1.0
        if hidden > _ROUNDED:
            raise ValueError(
                f"mask: expected one that hides no weight, got one that hides {hidden:.0%} of it"
            )


def _check_weights(weights: Array) -> None:
    """ValueError unless each row is one of weights, or of zeros as padding."""
    if rows := np.isnan(weights).any(axis=-1).sum():
        raise ValueError(
            f"weights: expected numbers, with zeros as padding, got NaN in {rows} rows"
        )
    if not are_weights(weights):
        sums = weights.sum(axis=-1, dtype=np.float64)
        raise ValueError(
            "weights: expected rows that are non-negative and sum to 1, as without dropout, got "
            f"sums from {sums.min():.4g} to {sums.max():.4g}"
        )


def _logarithms(weights: Array, *, has_zeros: bool) -> Array:
    """ln w, -inf for a weight of 0; with zeros of visible keys, ln of the smallest number there.

    A row without any weight is padding.
    """
    shows_zeros = has_zeros & weights.any(-1, keepdims=True)
    least = np.finfo(weights.dtype).smallest_subnormal * shows_zeros
    dtype = np.result_type(weights, np.float32)
    with np.errstate(divide="ignore"):
        found: Array = np.log(np.maximum(weights, least), dtype=dtype)
    return found
