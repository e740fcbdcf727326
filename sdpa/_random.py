"""The source of random numbers: a seed, or the caller's generator."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sdpa._arrays import FloatArray

_DEFAULT_SEED = 0


class NormalSource(Protocol):
    """A source of standard normal numbers: NumPy's Generator, or its legacy RandomState for published seeds."""

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Independent standard normal numbers of that shape."""
        ...


def normal_source(seed: int | None, rng: NormalSource | None) -> NormalSource:
    """The given rng, or NumPy's default Generator with the given seed (default 0); global state stays untouched.

    Raises:
        ValueError: both seed and rng are given, or the seed is below 0.
        TypeError: the seed is not an integer, or the rng cannot draw normal numbers.

    >>> normal_source(None, None).standard_normal((2,)).round(4)
    array([ 0.1257, -0.1321])
    """
    if rng is None:
        return np.random.default_rng(_checked(_DEFAULT_SEED if seed is None else seed))
    if seed is not None:
        raise ValueError(f"expected seed or rng, got both: seed {seed!r} and an rng")
    if not hasattr(rng, "standard_normal"):
        raise TypeError(f"rng: expected a NumPy Generator or RandomState, got {rng!r} (pass an integer as seed)")
    return rng


def _checked(seed: int) -> int:
    if not isinstance(seed, int | np.integer):
        raise TypeError(f"seed: expected a non-negative integer, got {seed!r}")
    if seed < 0:
        raise ValueError(f"seed: expected a non-negative integer, got {seed}")
    return int(seed)
