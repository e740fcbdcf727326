"""Queries and keys, scores or weights of a layer, and their diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from sdpa._arrays import BoolArray
from sdpa.diagnosis import AXES, BATCH, Diagnosis, Mask, diagnose, diagnose_scores
from sdpa.diagnosis.heads import hidden_scores
from sdpa.heads.formats import Array
from sdpa.heads.weights import (
    ROUNDED,
    check_visible,
    check_weights,
    leaving,
    scores_of,
    uniform_rows,
)
from sdpa.masks import named_mask
from sdpa.row_maps import PLAIN, RowMap
from sdpa.scaling import Rule

Kind = Literal["q", "scores", "weights"]
# Weights leave open what all scores of a row have in common.
UNKNOWN_OF_WEIGHTS = ("largest_score", "largest_absolute_score")


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
        documents: beside weights of packed sequences, True where the key is in the document of the
            query, (n_queries, n_keys); otherwise None.
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
    documents: BoolArray | None = None

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

    def padding(self, mask: str | None = None) -> tuple[BoolArray, BoolArray]:
        """Rows (..., n_queries) and keys (..., n_keys) that look padded in all heads of a sequence;
        they broadcast.

        A row does that counts, and is equal for all keys to the last bit or of zeros in q, or whose
        own key does, if there are as many queries as keys. A key does that is of zeros, or that no
        other row sees or gives weight.
        """
        pairs = self._pairs(mask)
        if self.k is not None:
            uniform = ~self.q.any(axis=-1)
            shown = self._in_any_head(self.k.any(axis=-1))[..., np.newaxis, :]
        else:
            shown = self.q > 0 if self.kind == "weights" else ~hidden_scores(self.q)
            uniform = uniform_rows(self.q) & shown[..., 0]
        uniform = ~self._in_any_head(~uniform)
        counted = (pairs.sum(axis=-1) >= 2) & shown.any(axis=-1)
        seen: BoolArray = pairs & shown & ~uniform[..., np.newaxis]
        keys = ~self._in_any_head(seen.any(axis=-2))
        own = keys if self.shape[-1] == self.shape[-2] else np.False_
        return (uniform | own) & counted, keys

    def _in_any_head(self, flags: npt.ArrayLike) -> BoolArray:
        """True where flags hold in any head of the sequence, with the same number of axes."""
        others = tuple(i for i, name in enumerate(self.leading) if name != BATCH)
        return np.asarray(np.any(flags, axis=others, keepdims=True))

    def _pairs(self, mask: str | None, *, skip_padded: bool = False) -> BoolArray:
        """The visible pairs, which broadcast; without a mask, weights of 0 hide their keys."""
        visible = self.visible(mask)
        if visible is None and self.kind == "weights":
            visible = self.q > 0
        elif visible is None or isinstance(visible, str):
            visible = named_mask(visible or "none", *self.shape[-2:])
        pairs: BoolArray = np.asarray(visible)
        if not skip_padded:
            return pairs
        rows, keys = self.padding(mask)
        return pairs & ~rows[..., np.newaxis] & ~keys[..., np.newaxis, :]

    def outside_document(self) -> Array:
        """The share of the weight of each head that leaves its document, over all sequences."""
        assert self.documents is not None
        batch = tuple(i for i, name in enumerate(self.leading) if name == BATCH)
        sums = leaving(self.q, self.documents)
        outside, whole = (one[..., 0, 0].sum(axis=batch) for one in sums)
        return np.asarray(outside / whole)

    def diagnose(
        self,
        scaling: Rule = "d_k^1/2",
        mask: str | None = None,
        row_map: RowMap = PLAIN,
        *,
        skip_padded: bool = False,
    ) -> Diagnosis:
        """The diagnosis of the heads, as by `sdpa.diagnose` and `sdpa.diagnose_scores`.

        Weights give the numbers of scores but `UNKNOWN_OF_WEIGHTS`. A weight of 0 hides its key;
        where a mask says which keys are visible, it stands for the smallest number of its type.
        `skip_padded` leaves out the rows and keys of `padding`.

        Raises:
            ValueError: an option does not fit the arrays, or the library refuses them.
        """
        axes = self.leading
        if self.kind == "weights":
            check_weights(self.q)
            pairs = self._pairs(mask, skip_padded=skip_padded)
            if self.documents is not None:
                outside, whole = leaving(self.q, self.documents)
                pairs = pairs & (self.documents | (outside > ROUNDED * whole))
            # A mask in a file tells which keys are padded.
            empty = self.padding(mask)[1] if self.mask is None else np.array([False])
            check_visible(self.q, pairs, empty)
            found = diagnose_scores(scores_of(self.q), pairs, axes=axes)
            known = {
                name: found[name] for name in found.estimates if name not in UNKNOWN_OF_WEIGHTS
            }
            return replace(found, estimates=known)
        visible = self._pairs(mask, skip_padded=True) if skip_padded else self.visible(mask)
        if self.k is None:
            return diagnose_scores(self.q, visible, axes=axes)
        cap = row_map.softcap
        sink = self.sinks if row_map.sink is None else row_map.sink
        return diagnose(self.q, self.k, scaling, visible, axes=axes, softcap=cap, sink=sink)
