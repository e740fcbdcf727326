"""Sums over the rows of a head, and what is computed of them: for all sequences, and with each sequence left out.

Every quantity is a function of sums that add up over sequences. So its standard error comes from the jackknife, the
same function of the sums without one sequence (Efron and Stein 1981, Annals of Statistics 9:586).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.diagnosis.rows import HeadRows, Rows
from sdpa.metrics import SATURATED

# The ends of the names of sums, with every key and without the first one.
ALL, REST = "", "_without_first"


@dataclass(frozen=True)
class Sums:
    """Sums by name, in arrays of one shape: (sequences, heads), or (heads,) for all sequences together."""

    by_name: Mapping[str, FloatArray]

    def mean(self, name: str, part: str = ALL) -> FloatArray:
        """Sum over rows of a value, over the number of rows; NaN without rows."""
        rows = self.by_name[f"rows{part}"]
        return np.divide(self.by_name[name + part], rows, out=np.full_like(rows, np.nan), where=rows > 0)

    def variance(self, name: str) -> FloatArray:
        """Variance with 1/n of the n numbers called so: entries of q or k, or scores."""
        n, shift, squares = (self.by_name[f"{name}_{of}"] for of in ("count", "shift", "squares"))
        return np.asarray(np.maximum(squares / n - (shift / n) ** 2, 0.0))

    def centre(self, name: str) -> FloatArray:
        """Mean of the numbers called so."""
        n, shift = self.by_name[f"{name}_count"], self.by_name[f"{name}_shift"]
        return np.asarray(self.by_name[f"{name}_reference"] + shift / n)

    def together(self) -> Sums:
        """The sums over all sequences."""
        return Sums({name: self._total(name, values) for name, values in self.by_name.items()})

    def without_each(self) -> Sums:
        """The sums without each of the sequences, (sequences, heads)."""
        return Sums(
            {
                name: values if name.endswith("_reference") else self._total(name, values) - values
                for name, values in self.by_name.items()
            }
        )

    @staticmethod
    def _total(name: str, values: FloatArray) -> FloatArray:
        return np.asarray(values[0] if name.endswith("_reference") else values.sum(axis=0))


def sums_of_rows(found: HeadRows) -> dict[str, float]:
    """The sums of one head in one sequence, except those of `centred`."""
    sums: dict[str, float] = {}
    for part, rows in ((ALL, found.rows), (REST, found.rest)):
        sums |= {f"{name}{part}": float(values.sum()) for name, values in values_of_rows(rows).items()}
        sums[f"rows{part}"] = float(len(rows.n_visible))
    return sums


def values_of_rows(rows: Rows) -> dict[str, FloatArray]:
    """The values of each row whose sums count, by name."""
    n = rows.n_visible
    return {
        "row_variance": rows.variance,
        "unbiased_variance": rows.variance * n / (n - 1),
        "lengths": rows.lengths,
        "max_weight": rows.max_weight,
        "entropy": rows.entropy,
        "entropy_share": rows.entropy / np.log(n),
        "effective_keys": np.exp(rows.entropy),
        "saturated_rows": (rows.max_weight > SATURATED).astype(np.float64),
        "jacobian_square": rows.jacobian_norm**2,
        "first_weight": rows.first_weight,
    }


def centred(name: str, moments: npt.NDArray[np.float64]) -> dict[str, FloatArray]:
    """Sums of deviations from a common reference, in which little cancels, and of their squares.

    Args:
        name: of the numbers.
        moments: their count, mean and variance in each sequence and head, (3, sequences, heads).
    """
    count, mean, variance = moments
    reference = np.broadcast_to((count * mean).sum(axis=0) / count.sum(axis=0), count.shape)
    shift = mean - reference
    return {
        f"{name}_count": count,
        f"{name}_reference": reference,
        f"{name}_shift": count * shift,
        f"{name}_squares": count * (variance + shift**2),
    }


def moments_of(found: HeadRows) -> dict[str, tuple[float, float, float]]:
    """Count, mean and variance of the entries of q and k and of the scaled scores."""
    n = found.rows.n_visible
    if not len(n):
        return dict.fromkeys(("scores", "q", "k"), (0.0, 0.0, 0.0))
    count = float(n.sum())
    mean = float(n @ found.rows.mean) / count
    variance = float(n @ (found.rows.variance + (found.rows.mean - mean) ** 2)) / count
    entries = {
        name: (float(of.size), float(of.mean()), float(of.var())) for name, of in (("q", found.q), ("k", found.k))
    }
    return {**entries, "scores": (count, mean, variance)}
