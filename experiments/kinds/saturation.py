"""The core experiment: all metrics of attention rows, for queries and keys of a given joint law."""

from dataclasses import dataclass

from experiments.measuring.row_metrics import METRICS
from experiments.measuring.row_statistics import RowStatistics
from experiments.measuring.sampling import SampledCell


@dataclass(frozen=True)
class Cell(SampledCell):
    """One point of the grid."""

    can_divide_by_row = True


STATISTICS = RowStatistics(METRICS)
EXPERIMENT = STATISTICS.experiment("saturation", Cell)
