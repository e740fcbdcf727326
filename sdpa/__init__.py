"""Scaled dot-product attention, its gradients and its theory, in NumPy and SciPy alone.

Start with `scaled_dot_product_attention`, `trace` (its steps), `row_diagnostics` (of scores) and
`theory.attention_expectations`.

The tools in `sdpa.tools` read your arrays, models and functions: `diagnose` (your q and k), `watch`
(your model in training), `compare` (two runs) and `audit` (your function); `design` finds a divisor.
Nothing else needs them.
`experiments/` sweeps the library and draws figures.
"""

from typing import TYPE_CHECKING

from sdpa.attention import (
    AttentionGradients,
    Trace,
    attention_gradients,
    attention_weights,
    scaled_dot_product_attention,
    softmax,
    trace,
)
from sdpa.divided_scores import DividedScores, ScalingComparison, compare_scaling
from sdpa.inputs import LAWS, InputLaw
from sdpa.masks import causal_mask
from sdpa.metrics import (
    collision,
    effective_keys,
    entropy,
    jacobian_norm,
    jacobian_trace,
    max_weight,
    row_variance,
    softmax_jacobian,
    softmax_vjp,
)
from sdpa.module import MultiHeadAttention, ScaledDotProductAttention
from sdpa.pairs import PairLaw
from sdpa.scaling import Scaling
from sdpa.softmax_rows import RowDiagnostics, row_diagnostics

if TYPE_CHECKING:
    from sdpa import theory
    from sdpa.tools.auditing import audit
    from sdpa.tools.design import design
    from sdpa.tools.diagnosis import Diagnosis, compare, diagnose, diagnose_scores
    from sdpa.tools.monitor import watch

__version__ = "2.0.0"

__all__ = [
    "LAWS",
    "AttentionGradients",
    "Diagnosis",
    "DividedScores",
    "InputLaw",
    "MultiHeadAttention",
    "PairLaw",
    "RowDiagnostics",
    "ScaledDotProductAttention",
    "Scaling",
    "ScalingComparison",
    "Trace",
    "attention_gradients",
    "attention_weights",
    "audit",
    "causal_mask",
    "collision",
    "compare",
    "compare_scaling",
    "design",
    "diagnose",
    "diagnose_scores",
    "effective_keys",
    "entropy",
    "jacobian_norm",
    "jacobian_trace",
    "max_weight",
    "row_diagnostics",
    "row_variance",
    "scaled_dot_product_attention",
    "softmax",
    "softmax_jacobian",
    "softmax_vjp",
    "theory",
    "trace",
    "watch",
]

_LATE = {
    "compare": "diagnosis",
    "Diagnosis": "diagnosis",
    "diagnose": "diagnosis",
    "diagnose_scores": "diagnosis",
    "design": "design",
    "audit": "auditing",
    "watch": "monitor",
}


if not TYPE_CHECKING:  # a checker would take any name

    def __getattr__(name: str) -> object:
        """`sdpa.theory` and the names of `_LATE`, loaded on first use.

        They load SciPy, which attention and its measurement do not need.
        """
        from importlib import import_module

        if name == "theory":
            return import_module("sdpa.theory")
        if name in _LATE:
            return getattr(import_module(f"sdpa.tools.{_LATE[name]}"), name)
        raise AttributeError(f"module 'sdpa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING"})
