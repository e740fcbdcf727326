"""The shipped example: queries and keys of the suite's own layer, before training (layer 0) and after it (layer 1).

The heads are runs of the experiment `training` with its own seeds, so that the first ones are those of the sweep in
config.yaml. The sequences are a fresh batch of the same task. Its tokens change places, because the one that the query
asks for comes first, and it would look like an attention sink.
"""

import io

import numpy as np
import numpy.typing as npt

from experiments.kinds.training import EXPERIMENT, Cell, states
from experiments.measuring.chunk import Chunk, generator
from sdpa import Scaling
from sdpa.training import draw_batch

CELL = Cell("recall", d_k=64, n_keys=16, learning_rate=0.01, scaling=(Scaling.parse("d_k^1/2"),))
RUNS, SEQUENCES = 8, 64
_SEED = 0  # of config.yaml

Floats = npt.NDArray[np.floating]


def trained_heads() -> tuple[Floats, Floats]:
    """Queries (sequences, 2, runs, 1, d_k) and keys (sequences, 2, runs, n_keys, d_k) in single precision."""
    q, k = zip(*map(_run, range(RUNS)), strict=True)
    return np.stack(q, axis=2).astype(np.float32), np.stack(k, axis=2).astype(np.float32)


def npz_bytes(q: Floats, k: Floats) -> bytes:
    """Queries and keys as a file with arrays named q and k."""
    np.savez(file := io.BytesIO(), q=q, k=k)
    return file.getvalue()


def _run(index: int) -> tuple[Floats, Floats]:
    """Queries and keys of one run, (sequences, 2, queries or keys, d_k)."""
    rng = generator(_SEED, Chunk(EXPERIMENT, CELL, index, trials=1))
    ends = [
        (run.weights.W_Q[0].copy(), run.weights.W_K[0].copy())
        for run in states(CELL, rng)
        if run.step in (0, CELL.steps)
    ]
    batch = draw_batch(rng, CELL.task, SEQUENCES, CELL.n_keys)
    order = rng.permuted(np.tile(np.arange(CELL.n_keys), (SEQUENCES, 1)), axis=1)
    tokens = np.take_along_axis(batch.tokens, order[..., None], axis=1)
    queries = batch.queries[:, None]
    return np.stack([queries @ W_Q for W_Q, _ in ends], axis=1), np.stack([tokens @ W_K for _, W_K in ends], axis=1)
