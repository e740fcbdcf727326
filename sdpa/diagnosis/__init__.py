"""Diagnosis of the attention of given queries and keys: what a scale does to each head, beside the
exact values; and comparison of two runs.
"""

from sdpa.diagnosis.comparing import COMPARED, compare
from sdpa.diagnosis.estimates import (
    Diagnosis,
    Estimates,
    diagnose,
    diagnose_scores,
)
from sdpa.diagnosis.heads import Mask
from sdpa.diagnosis.quantities import QUANTITIES

__all__ = ["COMPARED", "QUANTITIES", "Diagnosis", "Estimates", "Mask"]
__all__ += ["compare", "diagnose", "diagnose_scores"]
