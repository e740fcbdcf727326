"""Attention in the number formats of accelerators, emulated in NumPy.

An accelerator keeps results in a format of few digits, and computes sums, quotients and
exponentials in single precision. With R the rounding to the format, to the nearest number and to an
even last digit in a tie,

    s_ij = R(R(q_i.k_j) / c),   e_ij = exp(s_ij - max_j s_ij),   w_ij = R(e_ij / sum_j e_ij)

and for a gradient g to the weights, rounded too,

    dL/dS_ij = R(R(w_ij (g_ij - sum_j w_ij g_ij)) / c),   dL/dq_i = R(sum_j dL/dS_ij k_j).

So do the matrix products and the softmax of PyTorch and JAX if no fused kernel replaces them.
Formats of 8 bits exist in fused kernels: only factors of matrix products have them. Scores, dL/dq
and weights stay in single precision,

    w_ij = R(p e_ij) / (p sum_j e_ij),

with a prescale p, a power of 2 that keeps small e_ij from 0. Numbers below the smallest normal one
lose digits and then become 0 (gradual underflow); hardware that flushes them to 0 loses more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa._names import not_among

# Other names of formats, for suggestions alone: tables need one name for each format.
_ALIASES = {
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "single": "float32",
    "fp64": "float64",
    "double": "float64",
    "float8": "float8_e4m3fn",
    "fp8": "float8_e4m3fn",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}


@dataclass(frozen=True)
class Arithmetic:
    """A binary number format, and the precision in which sums of its numbers accumulate.

    Attributes:
        name: of the format.
        digits: p, of a normal number in base 2; numbers just below 1 are 2^-p apart.
        largest: the largest number.
        smallest_normal: the smallest number of all p digits.
        smallest: the smallest number above 0.

    >>> half = Arithmetic.parse("float16")
    >>> half.round(np.array([1 / 3, 2.0**-25, 70000.0]))
    array([0.33325195, 0.        ,        inf], dtype=float32)
    """

    name: str
    digits: int
    largest: float = field(repr=False)
    smallest_normal: float = field(repr=False)
    smallest: float = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Arithmetic:
        """The format of that name; ValueError if there is none, or if it lacks its package."""
        if text not in FORMATS:
            raise ValueError(not_among(text, FORMATS, _ALIASES.get(text.lower())))
        found = FORMATS[text]
        found._type()  # its package may be missing
        return found

    def __str__(self) -> str:
        return self.name

    @property
    def accumulator(self) -> type[np.floating[Any]]:
        """The type of sums and intermediate results: single precision, or double for float64."""
        return np.float64 if self.name == "float64" else np.float32

    @property
    def has_8_bits(self) -> bool:
        """True for a format that only factors of matrix products have."""
        return self.name.startswith("float8")

    @property
    def of_products(self) -> Arithmetic:
        """The format of scores, divided weights and dL/dq: this one, or single precision if this
        one has 8 bits.
        """
        return FORMATS["float32"] if self.has_8_bits else self

    def round(self, values: npt.ArrayLike) -> FloatArray:
        """The nearest numbers of the format, in the type of the accumulator; values beyond the
        largest become inf.

        In float8_e4m3fn, which has no infinity, they become NaN. An array whose numbers are all of
        the format, because its type is, comes back itself.
        """
        with np.errstate(over="ignore"):
            given = np.asarray(values, self.accumulator)
            return given.astype(self._type(), copy=False).astype(self.accumulator, copy=False)

    def weights(self, exponentials: FloatArray, prescale: float = 1.0) -> FloatArray:
        """Rounded weights, of the shape of the exponentials e^(s - max s)."""
        total = exponentials.sum(axis=-1, keepdims=True)
        if not self.has_8_bits:
            return self.round(exponentials / total)
        factor = self.accumulator(prescale)
        return np.asarray(
            self.round(factor * exponentials) / (factor * total).astype(self.accumulator)
        )

    def product(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """R(a b) of matrices of numbers of the format, with sums in the accumulator, R that of
        `of_products`.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self.of_products.round(a @ b)

    def _type(self) -> np.dtype[Any]:
        """The NumPy type; those of bfloat16 and of 8 bits come from an optional package."""
        if self.name in ("float64", "float32", "float16"):
            return np.dtype(self.name)
        try:
            import ml_dtypes
        except ModuleNotFoundError:
            message = (
                f"expected the package ml_dtypes beside {self.name}; install it with: pip "
                f"install ml_dtypes"
            )
            raise ValueError(message) from None
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.name))
        return found


def _format(name: str, digits: int, highest: int) -> Arithmetic:
    """The format of p digits and of exponents up to `highest`, with gradual underflow."""
    smallest_normal = 2.0 ** (2 - highest)
    largest = (2 - 2.0 ** (1 - digits)) * 2.0 ** (highest - 1)
    return Arithmetic(name, digits, largest, smallest_normal, smallest_normal * 2.0 ** (1 - digits))


FORMATS = {
    each.name: each
    for each in (
        _format("float64", 53, 1024),
        _format("float32", 24, 128),
        _format("bfloat16", 8, 128),
        _format("float16", 11, 16),
        _format("float8_e5m2", 3, 16),
        # of highest exponent, all numbers but NaN are finite
        Arithmetic("float8_e4m3fn", 4, 448.0, 2.0**-6, 2.0**-9),
    )
}


class RoundedRows(NamedTuple):
    """Rows of attention in a format, and the gradients to their scores before the divisor and to
    their queries.
    """

    # s, (..., n_queries, n_keys); inf where they are beyond the largest number, -inf where masked
    scores: FloatArray
    weights: FloatArray  # w, of the same shape; NaN in a row with an infinite score
    score_gradient: FloatArray  # dL/dS, of the same shape
    query_gradient: FloatArray  # dL/dq, (..., n_queries, d_k)


def rounded_rows(
    products: FloatArray,
    keys: FloatArray,
    gradient: FloatArray,
    divisor: float,
    arithmetic: Arithmetic | str,
    visible: npt.NDArray[np.bool_] | None = None,
    prescale: float = 1.0,
) -> RoundedRows:
    """Softmax rows and their gradients in a format, as this module defines them.

    Args:
        products: R(q.k) of rounded queries and keys, (..., n_queries, n_keys), as from
            `Arithmetic.product`.
        keys: rounded keys, (..., n_keys, d_k).
        gradient: dL/dw, rounded, of the shape of products.
        divisor: c, above 0; it is rounded to the accumulator.
        arithmetic: the format, or its name.
        visible: booleans that broadcast to the shape of products, True where the query may attend
            to the key.
        prescale: p of a format of 8 bits, a power of 2 up to its largest number; other formats do
            not use it.

    Raises:
        ValueError: the gradient has another shape than the products, or no format has the name.
    """
    if isinstance(arithmetic, str):
        arithmetic = Arithmetic.parse(arithmetic)
    if gradient.shape != products.shape:
        raise ValueError(
            f"gradient: expected shape {products.shape}, as the products, got {gradient.shape}"
        )
    c = arithmetic.accumulator(divisor)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scores = arithmetic.of_products.round(products / c)
        if visible is not None:
            scores = np.where(visible, scores, -np.inf).astype(arithmetic.accumulator)
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = arithmetic.weights(exponentials, prescale)
        centred = gradient - (weights * gradient).sum(axis=-1, keepdims=True)
        score_gradient = arithmetic.round(arithmetic.round(weights * centred) / c)
        return RoundedRows(
            scores, weights, score_gradient, arithmetic.product(score_gradient, keys)
        )
