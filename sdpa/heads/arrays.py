"""Queries and keys, scores or weights of a layer, and their diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sdpa._arrays import BoolArray
from sdpa.diagnosis import AXES, BATCH, Diagnosis, Mask, diagnose, diagnose_scores
from sdpa.diagnosis.head_rows import hidden_scores
from sdpa.heads.formats import Array
from sdpa.heads.weights import ROUNDED, check_visible, check_weights, leaving, scores_of
from sdpa.masks import named_mask
from sdpa.row_maps import PLAIN, RowMap
from sdpa.scaling import Rule

Kind = Literal["q", "scores", "weights"]
# Weights leave open what all scores of a row have in common.
UNKNOWN_OF_WEIGHTS = ("largest_score", "largest_absolute_score")


@dataclass(frozen=True)
class HeadArrays:
    """Queries and keys of one layer, or of all of them in one pair of arrays; or scores, or weights.

    Attributes:
        q: (..., n_queries, d_k), or scores or weights (..., n_queries, n_keys); it may be read-only
            and mapped from a file.
        k: (..., n_keys, d_k); None beside scores and weights.
        layer: the number in the names of the arrays; None if the names have none.
        place: the files; for messages.
        axes: names of the leading axes of q; None for the usual ones.
        mask: True where the query may attend, broadcast to (..., n_queries, n_keys); None for all.
        kind: of the numbers in q.
        sinks: one logit per head, if `row_map` has no sink; otherwise None.
        documents: beside weights of packed sequences, True where the key is in the document of the
            query, (n_queries, n_keys); otherwise None.
    """

    q: Array
    k: Array | None = None
    layer: int | None = None
    place: str = "q and k"
    axes: tuple[str, ...] | None = None
    mask: BoolArray | None = None
    kind: Kind = "q"
    sinks: Array | None = None
    documents: BoolArray | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """The number in the names of the arrays, by `layer`."""
        return {} if self.layer is None else {"layer": self.layer}

    @property
    def leading(self) -> tuple[str, ...]:
        """The names of the leading axes of q; none where they are neither given nor usual."""
        return self.axes or AXES.get(self.q.ndim - 2, ())

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

    def _places(self, *, batch: bool) -> tuple[int, ...]:
        """The places of the axes of sequences, or of all other leading axes."""
        return tuple(i for i, name in enumerate(self.leading) if (name == BATCH) == batch)

    def outside_document(self) -> Array:
        """The share of the weight of each head that leaves its document, over all sequences."""
        assert self.documents is not None
        sums = leaving(self.q, self.documents)
        outside, whole = (one[..., 0, 0].sum(axis=self._places(batch=True)) for one in sums)
        return np.asarray(outside / whole)

    def diagnose(
        self, scaling: Rule = "d_k^1/2", mask: str | None = None, row_map: RowMap = PLAIN
    ) -> Diagnosis:
        """The diagnosis of the heads, as by `sdpa.diagnose` and `sdpa.diagnose_scores`.

        Weights give the numbers of scores but `UNKNOWN_OF_WEIGHTS`. A weight of 0 hides its key;
        where a mask says which keys are visible, it stands for the smallest number of its type.

        Raises:
            ValueError: an option does not fit the arrays, or the library refuses them.
        """
        axes = self.leading
        if self.kind == "weights":
            found = diagnose_scores(scores_of(self.q), self._pairs_of_weights(mask), axes=axes)
            known = {
                name: found[name] for name in found.estimates if name not in UNKNOWN_OF_WEIGHTS
            }
            return replace(found, estimates=known)
        visible = self.visible(mask)
        if self.k is None:
            return diagnose_scores(self.q, visible, axes=axes)
        cap = row_map.softcap
        sink = self.sinks if row_map.sink is None else row_map.sink
        return diagnose(self.q, self.k, scaling, visible, axes=axes, softcap=cap, sink=sink)

    def _pairs_of_weights(self, mask: str | None) -> BoolArray:
        """The visible pairs, which broadcast; with documents, those of the own one alone, unless
        weight leaves it.
        """
        check_weights(self.q)
        visible = self.visible(mask)
        if isinstance(visible, str):
            visible = named_mask(visible, *self.shape[-2:])
        pairs: BoolArray = np.asarray(self.q > 0 if visible is None else visible)
        if self.documents is not None:
            outside, whole = leaving(self.q, self.documents)
            pairs = pairs & (self.documents | (outside > ROUNDED * whole))
        check_visible(self.q, pairs, self._places(batch=False))
        return pairs


def _hidden(arrays: HeadArrays) -> BoolArray:
    """The scores that a mask of finite numbers hides; -inf does not count."""
    return np.asarray(hidden_scores(arrays.q) & (arrays.q != -np.inf))


def notes(heads: Sequence[HeadArrays]) -> list[str]:
    """The lines that hold of some of the arrays, with the number of cases in all of them."""
    unmasked = [one for one in heads if one.mask is None]
    vectors = [each for one in unmasked if one.k is not None for each in (one.q, one.k)]
    weights = [one.q for one in heads if one.kind == "weights"]
    equal = [np.asarray(np.ptp(one.q, -1) == 0) for one in unmasked if one.kind == "weights"]
    flags: dict[str, list[BoolArray]] = {
        "Hidden keys: {} scores are more than 5,000 below 0 and the largest of their row.": [
            _hidden(one) for one in heads if one.kind == "scores"
        ],
        "Rows of zeros: {} queries and keys, as padding has. They count, unless a mask of tokens "
        "leaves them out (--mask FILE).": [np.asarray(~each.any(axis=-1)) for each in vectors],
        "Rows of equal weights: {}, as padding has. They count, unless a mask of tokens leaves them "
        "out (--mask causal,FILE).": equal,
        "Weights of 0: {}. They hide their keys, unless --mask names the keys that are visible; "
        "there they count as the smallest number of their type. The spread is a lower bound if "
        "some are rounded.": [each == 0 for each in weights],
    }
    counts = {line: sum(int(each.sum()) for each in found) for line, found in flags.items()}
    return [line.format(count) for line, count in counts.items() if count]
