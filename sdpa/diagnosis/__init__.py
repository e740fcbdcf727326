"""Diagnosis of the attention of given queries and keys: what a scale does to each head, beside the
exact values; and comparison of two runs.
"""

from sdpa.diagnosis.estimates import Diagnosis, diagnose, diagnose_scores
from sdpa.diagnosis.quantities import QUANTITIES
from sdpa.diagnosis.two_runs import COMPARED, compare

__all__ = [
    "COMPARED",
    "QUANTITIES",
    "Diagnosis",
    "compare",
    "diagnose",
    "diagnose_scores",
]
