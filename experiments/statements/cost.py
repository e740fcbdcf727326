"""How the time and the memory of attention grow with the number of tokens and the width, on this machine."""

import time
import tracemalloc
from statistics import median

import numpy as np
import numpy.typing as npt
import pandas as pd
from threadpoolctl import threadpool_limits

from sdpa import scaled_dot_product_attention

Floats = npt.NDArray[np.floating]

N_TOKENS = (256, 512, 1024, 2048, 4096)
WIDTHS = (64, 128, 256, 512, 1024)
_FIXED_N, _FIXED_WIDTH = 1024, 64
_ROUNDS = 7


def measure_cost() -> pd.DataFrame:
    """One row per size: median seconds of seven rounds on one thread, interleaved, and the bytes at the peak."""
    sizes = [(n, _FIXED_WIDTH, "n") for n in N_TOKENS] + [(_FIXED_N, width, "d_k") for width in WIDTHS]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((3, n, width)) for n, width, _ in sizes]
    with threadpool_limits(limits=1):
        rounds = [[_seconds(*qkv) for qkv in inputs] for _ in range(_ROUNDS)]
        peaks = [_peak(*qkv) for qkv in inputs]
    rows = []
    for i, (n, width, swept) in enumerate(sizes):
        seconds = median(one[i] for one in rounds)
        rows.append({"swept": swept, "n": n, "d_k": width, "seconds": seconds, "peak_bytes": peaks[i]})
    return pd.DataFrame(rows)


def _seconds(q: Floats, k: Floats, v: Floats) -> float:
    started = time.perf_counter()
    scaled_dot_product_attention(q, k, v)
    return time.perf_counter() - started


def _peak(q: Floats, k: Floats, v: Floats) -> int:
    tracemalloc.start()
    scaled_dot_product_attention(q, k, v)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
