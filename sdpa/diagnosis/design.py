"""The inverse question for given queries and keys: the divisor at which a head has a wanted value of a quantity."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import numpy.typing as npt
from scipy import optimize

from sdpa.diagnosis.estimates import BATCH, diagnose
from sdpa.diagnosis.heads import Heads, Mask
from sdpa.diagnosis.rows import Rows, head_rows
from sdpa.diagnosis.sums import values_of_rows
from sdpa.scaling import refuses_scale
from sdpa.theory.design import Target

_RANGE = 1e3  # of divisors around the one at which rows have the variance 1: the ends are one-hot and uniform rows
_ACCURACY = 1e-9


@refuses_scale
def divisor_for(target: Target, value: float, q: npt.ArrayLike, k: npt.ArrayLike, mask: Mask | None = None) -> float:
    """The divisor c at which a quantity of a head has a wanted value, computed from the scores of the head itself.

    `theory.divisor_for` is for rows of a law; this one takes rows as they are, with their spread and structure. In each
    row, a larger c lowers the variance and the largest weight and raises the entropy, so a search in ln c finds the one
    that fits, to a relative error of 1e-9.

    Args:
        target: `entropy_share`, `effective_keys`, `max_weight` or `row_variance`, as in `QUANTITIES`.
        value: that it should have, as a mean over rows.
        q: queries of the head, (n_queries, d_k) or (batch, n_queries, d_k), as in `diagnose`.
        k: its keys, (n_keys, d_k) or (batch, n_keys, d_k).
        mask: as in `diagnose`.

    Raises:
        ValueError: no divisor within a factor of 1000 of the one of row variance 1 gives the value, the scores of each
            row are equal, or `diagnose` refuses the arrays.

    >>> q, k = 2 * np.random.default_rng(0).standard_normal((2, 5, 32, 64))  # 5 sequences
    >>> c = divisor_for("entropy_share", 0.9, q, k)
    >>> round(float(diagnose(q, k, c, axes=["batch"])["entropy_share"].value), 9)
    0.9
    """
    if target not in get_args(Target):
        raise ValueError(f"target: expected one of {', '.join(get_args(Target))}, got {target!r}")
    axes = (BATCH,)[: np.ndim(q) - 2]
    unit = float(diagnose(q, k, mask=mask, axes=axes)["unit_divisor"].value)
    if math.isnan(unit):
        raise ValueError("q and k: expected rows of different scores, got equal ones in each row")
    if target == "row_variance" and 0 < value < math.inf:
        return unit / math.sqrt(value)
    heads = Heads.of(q, k, mask, axes)

    def mean(x: float) -> float:
        rows = Rows.joined([head_rows(heads.head(index), math.exp(x)).rows for index in heads.indices()])
        return float(values_of_rows(rows)[target].mean())

    ends = math.log(unit / _RANGE), math.log(unit * _RANGE)
    low, high = sorted(map(mean, ends))
    if not low < value < high:
        within = f"for divisors within a factor of {_RANGE:g} of {unit:.6g}"
        raise ValueError(f"{target}: expected a value above {low:.6g} and below {high:.6g} {within}, got {value}")
    return math.exp(optimize.brentq(lambda x: mean(x) - value, *ends, xtol=_ACCURACY))
