"""Faults of listed functions, each computed again in plain NumPy: as the function computes, and as it
should.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from experiments.studies.libraries import functions
from sdpa._arrays import Array


def plain(q: Array, k: Array, v: Array, times: Any = 1.0, scale: float = 1 / 8) -> Array:
    """softmax(scale q kᵀ) v, where keys count so many times, 0 for hidden ones; a query that sees none
    gets the mean of all values. d_k is 64.
    """
    scores = scale * q @ k.mT + np.where(times, np.log(np.maximum(times, 1)), -1e30)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True) @ v)


def cosine(q: Array, k: Array, v: Array, axis: int | None) -> Array:
    """Attention to q and k that are divided by their norms along the axis, times 10."""
    q, k = (x / np.linalg.norm(x, axis=axis, keepdims=True) for x in (q, k))
    return plain(q, k, v, scale=10)


@dataclass(frozen=True)
class Fault:
    """What a function computes, and what it should: in words, and of q, k and v.

    Attributes:
        function: a listed one.
        n_queries, n_keys: the sizes.
        computes, expected: in words.
        actual, right: the same in NumPy; actual is None if the function raises.
        thread: one about it; empty for none.
        key_heads: those of k and v, beside 4 of q.
    """

    function: functions.Function
    n_queries: int
    n_keys: int
    computes: str
    expected: str
    actual: Callable[..., Array] | None = None
    right: Callable[..., Array] = plain
    thread: str = ""
    key_heads: int = 4

    def confirmed(self) -> tuple[str, str]:
        """Whether the function computes this, and its largest difference from the right output, over
        the queries that both have.
        """
        draw = np.random.default_rng(0).standard_normal
        q = draw((2, 4, self.n_queries, 64))
        k, v = draw((2, 2, self.key_heads, self.n_keys, 64))
        try:
            output = self.function(*(x.astype("f4") for x in (q, k, v)))
        except Exception as error:  # whatever it raises is a result
            return "no" if self.actual else "yes", f"raises {type(error).__name__}"
        again = self.actual(q, k, v) if self.actual else np.array(np.nan)
        is_same = output.shape == again.shape and np.allclose(output, again, atol=1e-4)
        difference = np.abs(output[:, :, : self.n_queries] - self.right(q, k, v)).max()
        return "yes" if is_same else "no", f"{difference:.2g}"


LAST = np.eye(12)[:, 11:]  # of 12 queries
TWICE = np.repeat([1, 2, 1], [134, 122, 6])  # keys from 134 to 255 of 262
FAULTS = (
    Fault(
        functions.unidirectional,
        12,
        16,
        "the last query sees all 16 keys",
        "the last query sees the first 12 keys",
        partial(plain, times=np.maximum(np.tri(12, 16), LAST)),
        partial(plain, times=np.tri(12, 16)),
        "microsoft/onnxruntime#29020",
    ),
    Fault(
        functions.ring_causal,
        32,
        48,
        "the last query sees the first 32 keys; all 48 with bucket_size=1024",
        "the last query sees all 48 keys",
        partial(plain, times=np.tri(32, 48)),
        partial(plain, times=np.tri(32, 48, 16)),
    ),
    Fault(
        functions.flash_function,
        8,
        12,
        "the first 4 queries see no key and get the mean of all values; the last sees 4 keys",
        "the first query sees 5 keys, the last all 12",
        partial(plain, times=np.tri(8, 12, -4)),
        partial(plain, times=np.tri(8, 12, 4)),
    ),
    Fault(
        functions.key_chunks,
        16,
        262,
        "keys 134 to 255 count twice",
        "each key counts once",
        partial(plain, times=TWICE),
    ),
    Fault(
        functions.query_chunks,
        20,
        20,
        "24 rows; the last chunk has queries 12 to 19",
        "20 rows",
        lambda *qkv: plain(*qkv)[:, :, [*range(16), *range(12, 20)]],
    ),
    Fault(
        functions.diffusers,
        16,
        16,
        "scores are divided by the root of d_k",
        "scores are not divided",
        plain,
        partial(plain, scale=1),
    ),
    Fault(
        functions.cosine,
        16,
        16,
        "q and k are divided by the norms of whole arrays",
        "each vector is divided by its own norm",
        partial(cosine, axis=None),
        partial(cosine, axis=-1),
    ),
    Fault(
        functions.local,
        16,
        16,
        "each query sees 9 keys",
        "each query sees at most 8 keys, as its README says",
        partial(plain, times=np.tri(16) - np.tri(16, k=-9)),
        partial(plain, times=np.tri(16) - np.tri(16, k=-8)),
        "lucidrains/local-attention#4",
    ),
    Fault(
        functions.attend_flash,
        20,
        16,
        "the first query sees the first key, the last ones all",
        "the last query is at the last key, as with flash=False",
        partial(plain, times=np.tri(20, 16)),
        partial(plain, times=np.tri(20, 16, -4)),
    ),
    Fault(functions.open_clip, 16, 16, "an exception: bmm of four axes", "an output"),
    Fault(
        functions.keras_grouped,
        16,
        16,
        "an exception: 4 and 2 heads cannot be broadcast",
        "groups of heads, as with JAX as its backend",
        thread="keras-team/keras#23081",
        key_heads=2,
    ),
)
