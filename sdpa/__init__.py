"""Scaled dot-product attention, its gradients and its theory, in NumPy and SciPy alone.

The library knows no file, table, config or figure; what sweeps it and draws it is in `experiments/`.
"""

import importlib
from types import ModuleType

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


def __getattr__(name: str) -> ModuleType:
    """`sdpa.theory`, when it is first asked for: it loads SciPy, which attention and its measurement do without."""
    if name == "theory":
        return importlib.import_module("sdpa.theory")
    raise AttributeError(f"module 'sdpa' has no attribute {name!r}")
