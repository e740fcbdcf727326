"""Diagnosis of the attention of given queries and keys: what a scale does to each head, beside the
exact values; and comparison of two runs.
"""

from sdpa.tools.diagnosis.estimates import Diagnosis, diagnose, diagnose_scores
from sdpa.tools.diagnosis.quantities import QUANTITIES
from sdpa.tools.diagnosis.two_runs import COMPARED, compare

__all__ = [
    "COMPARED",
    "QUANTITIES",
    "Diagnosis",
    "compare",
    "diagnose",
    "diagnose_scores",
]
