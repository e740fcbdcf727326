"""Scaled dot-product attention, its gradients and its theory, in NumPy and SciPy alone.

The library knows no file, table, config or figure; what sweeps it and draws it is in `experiments/`.
"""

from sdpa import theory
from sdpa.attention import attention_weights, scaled_dot_product_attention, softmax
from sdpa.diagnostics import RowDiagnostics, row_diagnostics
from sdpa.gradients import (
    AttentionGradients,
    attention_gradients,
    jacobian_norm,
    jacobian_trace,
    softmax_jacobian,
    softmax_vjp,
)
from sdpa.inputs import LAWS, InputLaw
from sdpa.module import ScaledDotProductAttention
from sdpa.scaling import Scaling

__all__ = [
    "LAWS",
    "AttentionGradients",
    "InputLaw",
    "RowDiagnostics",
    "ScaledDotProductAttention",
    "Scaling",
    "attention_gradients",
    "attention_weights",
    "jacobian_norm",
    "jacobian_trace",
    "row_diagnostics",
    "scaled_dot_product_attention",
    "softmax",
    "softmax_jacobian",
    "softmax_vjp",
    "theory",
]
