"""Measured tables and cut-offs, by which statements are judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.claims.cutoffs import OTHERS, Cutoffs
from experiments.claims.words import with_error
from experiments.declarations.tables import rows_of
from sdpa.scaling import SCALED, UNSCALED

Floats = npt.NDArray[np.floating]

UNTRAINED = "for independent, centred and untrained q and k"  # the inputs behind the tables
WIDTHS = [64, 128, 256, 512, 4096]
KEYS = [4, 64, 1024, 4096]
MEDIAN_JACOBIAN = "jacobian_norm_median"


@dataclass(frozen=True)
class Given(Cutoffs):
    """The cut-offs, and the tables by name: `dimension`, or `dimension/slopes` for a derived one.

    Statements about large d_k are judged over the plane of WIDTHS and KEYS of the sweep `phase`.
    It remembers in `read` the names of cut-offs that somebody looked up.
    """

    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    read: set[str] = field(init=False, default_factory=set)

    def __getattribute__(self, name: str) -> Any:
        """The attribute of that name; notes the name of a cut-off in `read`."""
        if name in OTHERS:
            self.read.add(name)
        return super().__getattribute__(name)

    def dimension(self, scaling: str) -> pd.DataFrame:
        """The rows of a rule in the sweep `dimension`, by d_k, which stays a column too."""
        return rows_of(self.tables, "dimension", scaling=scaling).set_index("d_k", drop=False)

    def phase(self, scaling: str, metric: str) -> pd.DataFrame:
        """A column of the sweep `phase` under a rule: a row per d_k, a column per n_keys."""
        rows = rows_of(self.tables, "phase", scaling=scaling)
        return rows.pivot_table(index="d_k", columns="n_keys", values=metric)

    def bare(self, metric: str) -> pd.DataFrame:
        """A metric without scaling, on the plane."""
        return self.phase(UNSCALED, metric).loc[WIDTHS, KEYS]

    def scaled(self, metric: str) -> pd.DataFrame:
        """A metric under d_k^1/2, on the plane."""
        return self.phase(SCALED, metric).loc[WIDTHS, KEYS]

    def ratio(self, metric: str) -> pd.DataFrame:
        """The unscaled value of a metric divided by its value under d_k^1/2."""
        return self.bare(metric) / self.scaled(metric)

    def medians(self) -> pd.DataFrame:
        """The median of |J| under d_k^1/2 in words, with as many digits as its error justifies."""
        low = self.scaled(f"{MEDIAN_JACOBIAN}_low")
        high = self.scaled(f"{MEDIAN_JACOBIAN}_high")
        return _with_errors(self.scaled(MEDIAN_JACOBIAN), low, high)

    def ratios_of_medians(self) -> pd.DataFrame:
        """The unscaled median of |J| over that under d_k^1/2, in words with as many digits.

        Its interval is (low / high, high / low) of theirs.
        """
        low = self.bare(f"{MEDIAN_JACOBIAN}_low") / self.scaled(f"{MEDIAN_JACOBIAN}_high")
        high = self.bare(f"{MEDIAN_JACOBIAN}_high") / self.scaled(f"{MEDIAN_JACOBIAN}_low")
        return _with_errors(self.ratio(MEDIAN_JACOBIAN), low, high)

    def agrees(self, rows: pd.DataFrame, metric: str, expected: object) -> bool:
        """True if a metric agrees everywhere with its expected value."""
        distance = abs(rows[metric] - expected)
        return bool((distance < self.certain * rows[f"{metric}_se"]).all())


def _with_errors(values: pd.DataFrame, low: pd.DataFrame, high: pd.DataFrame) -> pd.DataFrame:
    """Values in words. The error is a quarter of the width of the 95% interval."""
    words = np.vectorize(with_error)(values, (high - low) / 4)
    return pd.DataFrame(words, values.index, values.columns)


def spread(values: pd.DataFrame) -> "pd.Series[Any]":
    """The largest value along d_k over the smallest, for each number of keys."""
    return values.max() / values.min()
