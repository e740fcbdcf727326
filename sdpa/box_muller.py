"""Standard normal numbers in single precision, in a third of the time of NumPy's (Box and Muller 1958).

    x = sqrt(-2 ln u) cos(2 pi v),   y = sqrt(-2 ln u) sin(2 pi v)

for independent u and v, uniform on (0, 1) and on (-1/2, 1/2). Two random integers of 32 bits give a pair: v comes from
the second one, and u = (first + (last 8 bits of the second + 1/2) / 256) / 2^32. So u reaches down to 2^-41 and the
numbers up to 7.5 standard deviations, beyond which lie 5e-14 of all; from the first integer alone, they would end at
6.8. Single precision keeps 24 digits of v, and so its last 8 bits only near v = 0.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray

_PAIRS = 2**13  # made at a time, so that all buffers stay in cache
_UNIT = np.float32(2.0**-32)
_LAST_BITS = np.int32(255)
_PART, _MIDDLE = np.float32(2.0**-40), np.float32(2.0**-41)
_ANGLE = np.float32(2 * math.pi * 2.0**-32)


def single_normals(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Independent N(0, 1) numbers of that shape, from -7.5 to 7.5.

    >>> single_normals(np.random.default_rng(0), (2, 2)).dtype
    dtype('float32')
    """
    count = math.prod(shape)
    pairs = -(-count // 2)
    found = np.empty(2 * pairs, np.float32)
    radii, angles = np.empty((2, min(pairs, _PAIRS)), np.float32)
    for first in range(0, pairs, _PAIRS):
        size = min(_PAIRS, pairs - first)
        _fill(rng, radii[:size], angles[:size], found[2 * first : 2 * (first + size)])
    return found[:count].reshape(shape)


def _fill(rng: np.random.Generator, radius: FloatArray, angle: FloatArray, out: FloatArray) -> None:
    """Fill the halves of `out` with x and y; `radius` and `angle` are buffers of half its length."""
    size = len(radius)
    x, y = out[:size], out[size:]
    # The same integers on every machine, whatever the order of its bytes.
    integers = rng.integers(0, 2**64, size, dtype=np.uint64).astype("<u8", copy=False)
    np.copyto(radius, integers.view("<u4")[:size], casting="unsafe")
    np.copyto(angle, integers.view("<i4")[size:], casting="unsafe")
    np.copyto(x, integers.view("<i4")[size:] & _LAST_BITS, casting="unsafe")
    x *= _PART
    x += _MIDDLE
    radius *= _UNIT
    radius += x
    np.log(radius, out=radius)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    angle *= _ANGLE
    np.cos(angle, out=x)
    np.sin(angle, out=y)
    x *= radius
    y *= radius
