"""Exact laws and expectations of attention rows, without random numbers.

This folder has what rows of the textbook need; `special` has the laws of other rows.
"""

from sdpa.theory import limits
from sdpa.theory.attention import AttentionExpectations, attention_expectations, divisor_for
from sdpa.theory.integrals import UnknownError
from sdpa.theory.norm_quantiles import NormMedians, attention_medians
from sdpa.theory.query_lengths import largest_score_survival, score_survival
from sdpa.theory.rows import GaussianRow
from sdpa.theory.scores import row_variance, score_kurtosis, score_mean, score_variance
from sdpa.theory.special import overlap
from sdpa.theory.special.gradient_growth import StackLayer, attention_stack
from sdpa.theory.special.mapped_rows import MappedExpectations, mapped_expectations

__all__ = [
    "AttentionExpectations",
    "GaussianRow",
    "MappedExpectations",
    "NormMedians",
    "StackLayer",
    "UnknownError",
    "attention_expectations",
    "attention_medians",
    "attention_stack",
    "divisor_for",
    "largest_score_survival",
    "limits",
    "mapped_expectations",
    "overlap",
    "row_variance",
    "score_kurtosis",
    "score_mean",
    "score_survival",
    "score_variance",
]
