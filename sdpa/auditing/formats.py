"""The number formats of audited functions."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from sdpa._names import not_among

# Other names of formats, for suggestions alone.
_ALIASES = {
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "single": "float32",
    "fp64": "float64",
    "double": "float64",
}


@dataclass(frozen=True)
class Format:
    """A type of arrays by name, the distance from 1 to its next number, and its largest number."""

    name: str
    eps: float
    largest: float

    @classmethod
    def parse(cls, text: str) -> Format:
        """The format of that name; ValueError if there is none, or if it lacks its package."""
        if text not in FORMATS:
            raise ValueError(not_among(text, FORMATS, _ALIASES.get(text.lower())))
        if text == "bfloat16":
            try:
                importlib.import_module("ml_dtypes")  # adds the type to NumPy
            except ModuleNotFoundError:
                message = f"expected the package ml_dtypes beside {text}; pip install ml_dtypes"
                raise ValueError(message) from None
        return FORMATS[text]


def _format(name: str, digits: int, highest: int) -> Format:
    """The format of that many binary digits, and of exponents up to `highest`."""
    eps = 2.0 ** (1 - digits)
    return Format(name, eps, (2 - eps) * 2.0 ** (highest - 1))


FORMATS = {
    each.name: each
    for each in (
        _format("float64", 53, 1024),
        _format("float32", 24, 128),
        _format("bfloat16", 8, 128),
        _format("float16", 11, 16),
    )
}
