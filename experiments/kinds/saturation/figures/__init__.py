"""Figures of rows: of their variance, of their weights, and of gradients and sizes."""

from experiments.kinds.declarations import METRICS_OF_ROWS
from experiments.kinds.saturation.figures import sizes, variance, weights

SUMMARY_COLUMNS = METRICS_OF_ROWS
FIGURES = (*variance.FIGURES, *weights.FIGURES, *sizes.FIGURES)
