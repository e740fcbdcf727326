"""Exact laws and expectations: one function per equation; draws no random number and holds no tabulated result."""

from sdpa.theory.scores import score_kurtosis, score_mean, score_variance

__all__ = ["score_kurtosis", "score_mean", "score_variance"]
