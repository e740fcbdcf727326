"""Exact laws and expectations: one function per equation; draws no random number and holds no tabulated result."""

from sdpa.theory.attention import AttentionExpectations, attention_expectations
from sdpa.theory.rows import GaussianRow
from sdpa.theory.scores import score_kurtosis, score_mean, score_variance

__all__ = [
    "AttentionExpectations",
    "GaussianRow",
    "attention_expectations",
    "score_kurtosis",
    "score_mean",
    "score_variance",
]
