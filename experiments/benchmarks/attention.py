"""Time and memory of attention on this machine as tokens and width grow: the rows of cost.csv.

The arithmetic of Q K^T and of W V grows as n^2 d_k, and the memory of the scores as n^2.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.benchmarks.memory import peak_of_task
from experiments.benchmarks.timing import Task, interleaved
from sdpa import scaled_dot_product_attention

_USUAL_TOKENS, _USUAL_WIDTH = 1024, 64  # the fixed size while the other one grows


def attention_cost(
    tokens: Sequence[int] = (256, 512, 1024, 2048, 4096), widths: Sequence[int] = (64, 128, 256, 512, 1024)
) -> pd.DataFrame:
    """Median seconds and peak bytes of one call of `scaled_dot_product_attention` on one thread, for each size.

    Args:
        tokens: numbers n of queries and keys, at width 64.
        widths: widths d_k of q, k and v, at 1024 tokens.

    Returns:
        One row for each size: `swept` (the growing size, `n` or `d_k`), `n`, `d_k`, `seconds`, and `peak_bytes`, what
        Python and NumPy allocate during the call, without q, k and v.
    """
    sizes = [("n", n, _USUAL_WIDTH) for n in tokens] + [("d_k", _USUAL_TOKENS, width) for width in widths]
    rng = np.random.default_rng(0)
    tasks: dict[tuple[str, int, int], Task] = {
        size: partial(scaled_dot_product_attention, *rng.standard_normal((3, *size[1:]))) for size in sizes
    }
    with threadpool_limits(limits=1):
        seconds = interleaved(tasks)
        peaks = {size: peak_of_task(task) for size, task in tasks.items()}
    columns = ["swept", "n", "d_k", "seconds", "peak_bytes"]
    return pd.DataFrame([(*size, seconds[size], peaks[size]) for size in sizes], columns=columns)
