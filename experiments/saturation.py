"""The core experiment: all metrics of attention rows, for queries and keys of a given joint law."""

from experiments.metrics import METRICS
from experiments.row_statistics import RowStatistics
from experiments.sampling import OTHER_WORDS, Cell

STATISTICS = RowStatistics(METRICS)
EXPERIMENT = STATISTICS.experiment(Cell, other_words=OTHER_WORDS)
