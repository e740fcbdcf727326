"""`diagnose`: the diagnosis of every head of a model, from its queries and keys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.diagnosis.gaussian import gaussian_values
from sdpa.diagnosis.heads import Heads, Mask, label
from sdpa.diagnosis.quantities import QUANTITIES, Quantity, Setting
from sdpa.diagnosis.rows import HeadRows, head_rows
from sdpa.diagnosis.sums import ALL, REST, Sums, centred, moments_of, sums_of_rows
from sdpa.scaling import Scaling, refuses_scale, resolve_divisor

BATCH = "batch"
_OF_GAUSSIAN = ("n_visible", "lengths", "sees_first")
_FEWEST_FOR_QUANTILES = 8  # sequences; with fewer, the error of a quantile is often far too small, or 0


class Estimate(NamedTuple):
    """A quantity of every head, in arrays with the axes of the heads.

    Attributes:
        value: over all sequences.
        error: its standard error, from the differences between sequences; NaN for a single one, and for quantiles of
            fewer than 8.
        gaussian: its exact value for Gaussian rows of the same lengths and mean variance (`gaussian_values`); NaN if
            none is known.
    """

    value: FloatArray
    error: FloatArray
    gaussian: FloatArray


@dataclass(frozen=True)
class Diagnosis:
    """What the scale does to the attention of each head.

    Attributes:
        axes: names of the axes of the heads: those of q without `batch`, n_queries and d_k.
        sequences: number of independent sequences; with a single one, no quantity has an error.
        d_k, n_queries, n_keys: sizes of q and k.
        divisor: of the scores.
        rows: number of rows that see two keys or more, over all sequences, by head.
        estimates: by the names of `QUANTITIES`.
    """

    axes: tuple[str, ...]
    sequences: int
    d_k: int
    n_queries: int
    n_keys: int
    divisor: float
    rows: npt.NDArray[np.int64]
    estimates: Mapping[str, Estimate]

    def __getitem__(self, name: str) -> Estimate:
        return self.estimates[name]

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """A table with one row per head: its indices, then each quantity as NAME, NAME_se and NAME_exact.

        NAME_se is there with several sequences, NAME_exact where an exact value is known. `pandas.DataFrame` takes it.
        """
        places = np.indices(self.rows.shape).reshape(len(self.axes), self.rows.size)
        found: dict[str, npt.NDArray[Any]] = dict(zip(self.axes, places, strict=True))
        found["rows"] = self.rows.ravel()
        for name, estimate in self.estimates.items():
            found[name] = estimate.value.ravel()
            if self.sequences > 1:
                found[f"{name}_se"] = estimate.error.ravel()
            if not np.isnan(estimate.gaussian).all():
                found[f"{name}_exact"] = estimate.gaussian.ravel()
        return found


@refuses_scale
def diagnose(
    q: npt.ArrayLike,
    k: npt.ArrayLike,
    scaling: Scaling | str | float = "d_k^1/2",
    mask: Mask | None = None,
    *,
    axes: Sequence[str] | None = None,
) -> Diagnosis:
    """What a scale does to the attention of each head, and how far its q and k are from independent Gaussian entries.

    `sdpa.diagnosis.QUANTITIES` has the meaning and the formula of every quantity. Rows of a query that sees fewer than
    two keys do not count: their softmax has nothing to choose. Memory is that of the arguments, of one head in double
    precision, of tiles of a million scores, and of 64 bytes for each row.

    Args:
        q: queries, (..., n_queries, d_k), before any scale; any real type.
        k: keys, (..., n_keys, d_k), n_keys at least 2. The axis `head` may be shorter than that of q by a whole factor:
            as in grouped-query attention, consecutive heads of q share one of k.
        scaling: a rule such as `d_k^1/2`, or the divisor itself.
        mask: `none`; `causal`, where the last query sees every key; or booleans, broadcast to (..., n_queries, n_keys),
            True where the query may attend to the key. Queries and keys that no counted row uses may be any padding.
        axes: names of the leading axes of q. By default `head`; `batch`, `head`; or `batch`, `layer`, `head`, by their
            number. The axis `batch` has independent sequences, from which standard errors come.

    Raises:
        ValueError: shapes, names or the mask do not fit, or an entry that counts is not finite or beyond 1e70.

    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.standard_normal((2, 5, 3, 32, 64))  # 5 sequences, 3 heads
    >>> found = diagnose(q, k)
    >>> found.axes, found["max_weight"].value.round(2), found["max_weight"].gaussian.round(2)
    (('head',), array([0.18, 0.17, 0.17]), array([0.17, 0.17, 0.16]))
    >>> found["variance_ratio"].value.round(1)
    array([1., 1., 1.])
    """
    heads = Heads.of(q, k, mask, axes)
    divisor = _divisor(scaling, heads.q.shape[-1], heads.k.shape[-2])
    found = [_rows_of(heads, index, divisor) for index in _sequences_first(heads)]
    setting = Setting(heads.q.shape[-1], divisor)
    _check_rows(heads, found)
    return _diagnosis(heads, found, setting)


def _divisor(scaling: Scaling | str | float, d_k: int, n_keys: int) -> float:
    """The divisor of a rule or number; ValueError for the number 1/sqrt(d_k), which multiplies scores elsewhere."""
    divisor = resolve_divisor(scaling, d_k, n_keys)
    rule = Scaling.parse(scaling) if isinstance(scaling, str) else scaling
    is_number = not isinstance(rule, Scaling) or not rule.powers
    if is_number and d_k > 1 and math.isclose(divisor * math.sqrt(d_k), 1, rel_tol=1e-3):
        raise ValueError(f"scaling: got {divisor:g}, or 1/sqrt(d_k), but the scores are divided by it; pass d_k^1/2")
    return divisor


def _check_rows(heads: Heads, found: Sequence[_Found]) -> None:
    """ValueError if no row of a head counts in any sequence, or if a name of an axis is that of a column."""
    for name in heads.axes:
        if name == "rows" or any(quantity.name == name for quantity in QUANTITIES):
            raise ValueError(f"axes: expected names that no quantity has, got {name!r}")
    counts: dict[tuple[tuple[str, int], ...], float] = {}
    for index, one in zip(_sequences_first(heads), found, strict=True):
        head = tuple((name, place) for name, place in zip(heads.axes, index, strict=True) if name != BATCH)
        counts[head] = counts.get(head, 0.0) + one.sums["rows"]
    for head, count in counts.items():
        if not count:
            where = label([name for name, _ in head], [place for _, place in head])
            raise ValueError(f"mask: expected a query that sees two keys or more, got none{where}")


class _Found(NamedTuple):
    """What is kept of a head in a sequence: sums, moments, and the values of single rows by name and part."""

    sums: dict[str, float]
    moments: dict[str, tuple[float, float, float]]
    values: dict[tuple[str, str], FloatArray]


def _sequences_first(heads: Heads) -> list[tuple[int, ...]]:
    """All leading indices, sequence by sequence."""
    if BATCH not in heads.axes:
        return list(heads.indices())
    place = heads.axes.index(BATCH)
    return sorted(heads.indices(), key=lambda index: (index[place], index))


def _rows_of(heads: Heads, index: tuple[int, ...], divisor: float) -> _Found:
    try:
        found = head_rows(heads.head(index), divisor)
    except ValueError as error:
        raise ValueError(f"{error}{label(heads.axes, index)}") from None
    return _Found(sums_of_rows(found), moments_of(found), _single(found))


def _single(found: HeadRows) -> dict[tuple[str, str], FloatArray]:
    """The values of single rows by name and part: of the largest ones only the largest."""
    largest = found.rows.largest.max(initial=-np.inf, keepdims=True)
    smallest = found.rows.smallest.min(initial=np.inf, keepdims=True)
    values = {("largest", ALL): largest, ("largest_absolute", ALL): np.maximum(largest, -smallest)}
    for part, rows in ((ALL, found.rows), (REST, found.rest)):
        values |= {(name, part): getattr(rows, name) for name in ("jacobian_norm", *_OF_GAUSSIAN)}
    return values


def _diagnosis(heads: Heads, found: list[_Found], setting: Setting) -> Diagnosis:
    """From what was found of every head, sequence by sequence."""
    axes = tuple(name for name in heads.axes if name != BATCH)
    shape = tuple(length for name, length in zip(heads.axes, heads.shape, strict=True) if name != BATCH)
    sequences = heads.shape[heads.axes.index(BATCH)] if BATCH in heads.axes else 1
    sums = {name: np.reshape([each.sums[name] for each in found], (sequences, -1)) for name in found[0].sums}
    for name in found[0].moments:
        moments = np.reshape([each.moments[name] for each in found], (sequences, -1, 3))
        sums |= centred(name, np.moveaxis(moments, -1, 0))
    of_sequences = Sums(sums)
    n_heads = len(found) // sequences
    by_head = [found[i::n_heads] for i in range(n_heads)]
    exact = {part: _gaussian(by_head, of_sequences.together(), part) for part in (ALL, REST)}
    estimates = {}
    for quantity in QUANTITIES:
        value, error = _of_sums(quantity, of_sequences, setting) if quantity.of else _of_rows(quantity, by_head)
        gaussian = np.array([each.get(quantity.gaussian, np.nan) for each in exact[quantity.part]])
        estimates[quantity.name] = Estimate(*(values.reshape(shape) for values in (value, error, gaussian)))
    rows = of_sequences.together().by_name["rows"].astype(np.int64).reshape(shape)
    n_queries, d_k = heads.q.shape[-2:]
    return Diagnosis(axes, sequences, d_k, n_queries, heads.k.shape[-2], setting.divisor, rows, estimates)


def _gaussian(by_head: list[list[_Found]], sums: Sums, part: str) -> list[dict[str, float]]:
    """The values of Gaussian rows for each head."""
    found = []
    for of_head, variance in zip(by_head, sums.mean("unbiased_variance", part).tolist(), strict=True):
        rows = (np.concatenate([one.values[name, part] for one in of_head]) for name in _OF_GAUSSIAN)
        found.append(gaussian_values(*rows, variance=variance))
    return found


def _of_sums(quantity: Quantity, sums: Sums, setting: Setting) -> tuple[FloatArray, FloatArray]:
    """A function of sums, with the standard error of the jackknife over sequences."""
    assert quantity.of is not None
    value = quantity.of(sums.together(), setting)
    sequences = len(sums.by_name["rows"])
    if sequences == 1:
        return value, np.full_like(value, np.nan)
    without = quantity.of(sums.without_each(), setting)
    return value, np.sqrt((sequences - 1) * without.var(axis=0))


def _of_rows(quantity: Quantity, by_head: list[list[_Found]]) -> tuple[FloatArray, FloatArray]:
    """The largest value of single rows, or a quantile of them with its error."""
    assert quantity.row is not None
    key = quantity.row, quantity.part
    each = [_of_one(quantity, [found.values[key] for found in of_head]) for of_head in by_head]
    value, error = np.transpose(each)
    return value, error


def _of_one(quantity: Quantity, sequences: list[FloatArray]) -> tuple[float, float]:
    """Of one head: the largest value, or a quantile and its standard error.

    The share of rows up to the quantile is a ratio of sums over sequences, with a standard error. The quantiles at that
    share plus and minus its error lie two errors of the quantile apart (Woodruff 1952, JASA 47:635).
    """
    values = np.concatenate(sequences)
    if not len(values):
        return np.nan, np.nan
    if quantity.share is None:
        return float(values.max()), np.nan
    value = float(np.quantile(values, quantity.share))
    if len(sequences) < _FEWEST_FOR_QUANTILES:
        return value, np.nan
    below = np.array([np.count_nonzero(rows <= value) for rows in sequences])
    excess = below - below.sum() / len(values) * np.array([len(rows) for rows in sequences])
    error = np.sqrt(len(sequences) / (len(sequences) - 1) * (excess**2).sum()) / len(values)
    low, high = np.quantile(values, np.clip([quantity.share - error, quantity.share + error], 0, 1))
    return value, float(high - low) / 2
