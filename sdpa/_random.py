"""The source of random numbers: a seed, or a generator of the caller's."""

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
    """The given rng, or NumPy's default Generator of the given seed, 0 without one; nothing global is touched.

    Raises:
        ValueError: both are given, or a seed below 0.
        TypeError: a seed that is no integer, or an rng that draws no normal numbers.

    >>> normal_source(None, None).standard_normal((2,)).round(4)
    array([ 0.1257, -0.1321])
    """
    if rng is None:
        return np.random.default_rng(_checked(_DEFAULT_SEED if seed is None else seed))
    if seed is not None:
        raise ValueError(f"expected seed or rng, got both: seed {seed!r} and an rng")
    if not hasattr(rng, "standard_normal"):
        raise TypeError(f"rng: expected a NumPy Generator or RandomState, got {rng!r} (an integer goes to seed)")
    return rng


def _checked(seed: int) -> int:
    if not isinstance(seed, int | np.integer):
        raise TypeError(f"seed: expected an integer from 0, got {seed!r}")
    if seed < 0:
        raise ValueError(f"seed: expected an integer from 0, got {seed}")
    return int(seed)
