"""The audited function, its calls, and its outputs for random inputs beside the expected ones."""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdpa._arrays import FloatArray
from sdpa.attention import attention_weights
from sdpa.auditing.computation import Array, Expected, repeated
from sdpa.auditing.formats import Format

Attention = Callable[..., Any]
ROWS = 8  # queries among the longest rows
_LONG = 1024  # keys, beyond which few queries are tried


_MOST_GROUPS = 3  # of query heads in an input


class CallError(Exception):
    """The function raised, changed its arguments, or returned something else than an output."""


@dataclass(frozen=True)
class Sample:
    """The output for one random input, and the expected one.

    Attributes:
        arrays: q, k and v.
        tolerance: the deviation that rounding may cause, per unit of v.
    """

    arrays: tuple[Array, ...]
    found: Array
    exact: Array
    tolerance: float

    def off(self, output: Array) -> float:
        """The largest deviation of the function from an output, over what rounding may cause;
        entries of NaN say nothing.
        """
        is_known = ~np.isnan(output)
        off = np.abs(self.found - output)[is_known].max(initial=0.0)
        allowed = self.tolerance * np.abs(self.arrays[2]).max()
        return float(np.nan_to_num(off / allowed, nan=math.inf))

    @property
    def error(self) -> float:
        """That from the expected output."""
        return self.off(self.exact)


def _single(result: object) -> object:
    """An output; TypeError for several ones, and for none."""
    if result is None or isinstance(result, tuple | list):
        raise TypeError(f"expected one array, the output, got {type(result).__name__}")
    return result


@dataclass(frozen=True)
class Audited:
    """A function of arrays (batch, heads, n, d_k), their format, the sizes to try, and what it
    should compute.
    """

    function: Attention
    backward: Any  # a function, or None
    number_format: Format
    d_k: int
    n_keys: tuple[int, ...]
    expected: Expected

    def __post_init__(self) -> None:
        groups = self.expected.groups
        sizes = (self.d_k, 4 * groups, *self.n_keys)
        is_whole = all(isinstance(size, (int, np.integer)) for size in sizes)
        is_large = is_whole and min(sizes) >= 4
        is_rising = [*self.n_keys] == sorted(set(self.n_keys)) != []
        if not (is_large and is_rising and self.n_keys[0] <= 512):
            expected = (
                "expected whole d_k from 4, groups from 1, and rising n_keys from 4, the "
                "first up to 512"
            )
            raise ValueError(f"{expected}, got {self.d_k}, {groups} and {self.n_keys}")
        sinks = self.expected.sink
        heads = _MOST_GROUPS * groups
        if isinstance(sinks, tuple) and len(sinks) < heads:
            raise ValueError(
                f"sink: expected one number, or one for each of {heads} heads, which some inputs "
                f"have, got {len(sinks)} numbers"
            )
        # The first call refuses what the library refuses.
        self.exact(normals("q", 1, heads, 4, self.d_k) for heads in (groups, 1, 1))

    def exact(self, arrays: Iterable[FloatArray]) -> FloatArray:
        """The expected output for q, k and v in double precision; q has `groups` times the heads of
        k and v.
        """
        q, *both = arrays
        k, v = (repeated(x, self.expected.groups) for x in both)
        sink = self.expected.sink_of(q.shape[1])
        chosen = {**vars(self.expected), "sink": sink}
        del chosen["groups"]
        return np.asarray(attention_weights(q, k, **chosen) @ v)

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number of the format."""
        return self.number_format.eps

    @property
    def is_wide(self) -> bool:
        """True for single and double precision."""
        return self.eps < 1e-4

    def cast(self, values: npt.ArrayLike) -> Array:
        """Values in the format of the function."""
        return np.asarray(values).astype(self.number_format.name)

    def random(
        self,
        spread: float,
        n_queries: int,
        n_keys: int,
        d_k: int = 0,
        batch: int = 2,
    ) -> list[Array]:
        """q, k and v of normal numbers; scores have a spread in each row.

        Heads of keys and batch entries differ in number, and are 5 together.
        """
        d = d_k or self.d_k
        heads = 5 - batch
        q = normals(
            "q",
            batch,
            heads * self.expected.groups,
            n_queries,
            d,
        )
        length = np.linalg.norm(q, axis=-1, keepdims=True)
        q = q * spread * self.expected.divisor(d, n_keys) / length
        return [self.cast(q), *(self.cast(normals(x, batch, heads, n_keys, d)) for x in "kv")]

    def call(
        self,
        function: Attention,
        given: Sequence[Array],
        *shapes: tuple[int, ...],
    ) -> list[FloatArray]:
        """The arrays of these shapes that a function returns, as doubles; CallError if it does
        anything else.
        """
        copies = [x.copy() for x in given]
        try:
            with np.errstate(all="ignore"):
                results = function(*copies)
                parts = results if len(shapes) > 1 else [_single(results)]
                found = [np.asarray(x).astype(float) for x in parts]
        except (Exception, SystemExit) as error:  # whatever it raises is a result of the audit
            raise CallError(
                f"calling it with arrays of {self.number_format.name} (--dtype), or reading its "
                f"output, raised {type(error).__name__}: {error}"
            ) from error
        if [x.shape for x in found] != [*shapes]:
            got = " and ".join(str(x.shape) for x in found)
            raise CallError(
                f"expected an output of shape {' and '.join(map(str, shapes))}, got {got}"
            )
        pairs = zip(copies, given, strict=True)
        if not all(np.array_equal(x, y) for x, y in pairs):
            raise CallError("the function changed its arguments")
        return found

    def outputs(
        self,
        q: npt.ArrayLike,
        k: npt.ArrayLike,
        v: npt.ArrayLike,
    ) -> tuple[FloatArray, FloatArray]:
        """The output, and the expected one, of the same rounded arrays; matrices are those of all
        heads and batch entries.
        """
        heads = (_MOST_GROUPS * self.expected.groups, _MOST_GROUPS, _MOST_GROUPS)
        arrays = zip((q, k, v), heads, strict=True)
        given = [self.cast(_wide(x, n)) for x, n in arrays]
        shape = (*given[0].shape[:-1], given[2].shape[-1])
        (found,) = self.call(self.function, given, shape)
        return found, self.exact(x.astype(float) for x in given)

    def samples(self) -> tuple[list[Sample], list[str]]:
        """Random inputs of several shapes and spreads: square, with fewer queries, with one, long,
        of two remainders by blocks, with scores whose exponentials overflow, or that finite
        masks let through, and of half the width; and the messages of failed calls.
        """
        samples = []
        failures = []
        few = self.n_keys[0]
        long = self.n_keys[-1]
        sizes = (few, few), (max(1, few // 3), few), (1, few)
        cases = [(spread, *size) for size in sizes for spread in (1.0, 5.0, 20.0)]
        cases.append((0.56 * math.log(self.number_format.largest), few, few))
        if self.is_wide:
            cases.append((min(1e6, 0.002 / self.eps), few, few))
        cases += [(5.0, n, n) for n in self.n_keys[1:] if n <= _LONG]
        lengths = (max(few, long - 3), *self.n_keys[1:])
        cases += [(5.0, min(ROWS, few), n) for n in lengths]
        for case, (spread, n_queries, n_keys) in enumerate([*cases, (2.0, few, few)]):
            # the last: another width, and other numbers of heads and batch entries
            is_other = case == len(cases)
            width = self.d_k // (1 + is_other)
            batch = 2 + is_other
            given = self.random(
                spread,
                n_queries,
                n_keys,
                width,
                batch,
            )
            try:
                found, exact = self.outputs(*given)
            except CallError as error:
                # It need not take another width.
                where = f"With {n_queries} queries and {n_keys} keys: {error}."
                failures += [where] * (not is_other)
                continue
            # Numbers of 16 bits leave no room for other causes.
            tolerance = (64 if self.is_wide else 8) * self.eps * spread
            arrays = tuple(x.astype(float) for x in given)
            samples.append(Sample(arrays, found, exact, tolerance))
        return samples, failures

    def weights(self, q: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
        """The weights of q over k, and the expected ones, (2, batch, heads, n_queries, n_keys):
        outputs for the columns of the identity, as wide as the keys.
        """
        n_keys, width = np.shape(k)[-2:]
        blocks = [
            self.outputs(q, k, np.eye(n_keys, width, -start)) for start in range(0, n_keys, width)
        ]
        return np.concatenate(blocks, axis=-1)[..., :n_keys]


def _wide(x: npt.ArrayLike, heads: int) -> Array:
    """A matrix as that of two batch entries and several heads."""
    array = np.asarray(x)
    if array.ndim == 4:
        return array
    return np.broadcast_to(array, (2, heads, *array.shape))


@functools.lru_cache(maxsize=8)
def normals(name: str, *shape: int) -> FloatArray:
    """Standard normal numbers, the same for the same letter and shape."""
    rng = np.random.default_rng((ord(name), *shape[-2:]))
    return rng.standard_normal(shape)
