"""Measurements as bytes: the compressed arrays of their fields.

Types come from the code, not from the bytes, so that these build nothing but declared measurements.
"""

import dataclasses
import io
import typing
import zlib
from collections.abc import Iterator, Mapping

import numpy as np

from experiments.measuring.columns import Hint
from sdpa._arrays import Array

_COMPRESSION = 1  # the fastest: arrays shrink to a quarter in a hundredth of the measuring time


def pack(measurement: object) -> bytes:
    """The bytes of a measurement: a dataclass of numbers, arrays and tuples of them, nested as needed.

    Raises:
        FloatingPointError: a number is not finite.
    """
    arrays = dict(_flattened(measurement, ""))
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise FloatingPointError(
                f"expected finite numbers in {name}, got {array[~np.isfinite(array)][0]}"
            )
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    return zlib.compress(packed.getvalue(), _COMPRESSION)


def unpack(kind: Hint, content: bytes) -> Hint:
    """The measurement of that type from its bytes, equal to the bit to the one that was packed."""
    with np.load(io.BytesIO(zlib.decompress(content))) as arrays:
        return _built(kind, {**arrays}, "")


def _flattened(value: object, name: str) -> Iterator[tuple[str, Array]]:
    """The arrays and numbers of a measurement, keyed by their path of fields and positions.

    >>> from experiments.measuring.intervals import Limits
    >>> [(name, float(array)) for name, array in _flattened((Limits(0, 1), 2), "")]
    [('.0.low', 0.0), ('.0.high', 1.0), ('.1', 2.0)]
    """
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _flattened(getattr(value, field.name), f"{name}.{field.name}")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _flattened(item, f"{name}.{i}")
    else:
        yield name, np.asarray(value)


def _built(kind: Hint, arrays: Mapping[str, Array], name: str) -> Hint:
    """A measurement of that type from its arrays, the reverse of `_flattened`."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        values = {field: _built(hints[field], arrays, f"{name}.{field}") for field in hints}
        return kind(**values)  # type: ignore[operator]
    if typing.get_args(kind)[1:] == (...,):
        inner, _ = typing.get_args(kind)
        below = [key.removeprefix(f"{name}.") for key in arrays if key.startswith(f"{name}.")]
        places = dict.fromkeys(key.partition(".")[0] for key in below)
        return tuple(_built(inner, arrays, f"{name}.{place}") for place in places)
    return kind(arrays[name]) if kind in (int, float) else arrays[name]
