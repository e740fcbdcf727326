"""Figures of rows: of their variance, of their weights, and of gradients and sizes."""

from experiments.kinds.saturation.figures import sizes, variance, weights

FIGURES = (*variance.FIGURES, *weights.FIGURES, *sizes.FIGURES)
