"""Diagnosis of the attention of given queries and keys: what a scale does to each head, beside the
exact values.
"""

from sdpa.diagnosis.estimates import (
    BATCH,
    Diagnosis,
    Estimate,
    diagnose,
    diagnose_scores,
    divisor_for,
)
from sdpa.diagnosis.heads import AXES, Mask
from sdpa.diagnosis.quantities import QUANTITIES, Quantity

__all__ = ["AXES", "BATCH", "QUANTITIES", "Diagnosis", "Estimate", "Mask", "Quantity"]
__all__ += ["diagnose", "diagnose_scores", "divisor_for"]
