"""The time that `sdpa.watch` adds to training steps, and its false alarms and power.

`python -m benchmarks.monitor` prints them; it needs PyTorch. Times are those of the processor, on
one core, and ratios are medians over neighbouring steps with and without a monitor.
"""

import timeit
from collections.abc import Callable
from time import process_time
from typing import Any
from zlib import crc32

import numpy as np

import sdpa
from sdpa._arrays import FloatArray

# sequences, tokens, width, heads, layers
MODELS = {"toy": (16, 64, 64, 4, 2), "small": (8, 128, 256, 8, 4)}
# sequences, queries, keys, d_k, and whether a causal mask hides keys
CORNERS = {
    "64 keys": (8, 64, 64, 64, False),
    "64 keys, causal": (8, 64, 64, 64, True),
    "64 keys, a single query": (1, 1, 64, 64, False),
    "3 keys": (8, 64, 3, 64, False),
    "2 keys": (8, 64, 2, 64, False),
    "64 keys, one sequence, d_k = 2": (1, 64, 64, 2, False),
}
PLANTED = (5, 6, 7, 8)  # standard deviations by which one key of one row stands out
_STEPS = 20
_HEADS = 20_000


def training(
    sequences: int, tokens: int, width: int, heads: int, layers: int
) -> tuple[Any, Callable[[], None]]:
    """A decoder of PyTorch's own blocks, and a step of its training."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(sequences, tokens, width)
    mask = nn.Transformer.generate_square_subsequent_mask(tokens)

    def step() -> None:
        model(x, mask=mask, is_causal=True).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step


def watched(step: Callable[[], None], monitor: Any) -> float:
    """The time of a step of training and of its monitor."""

    def both() -> None:
        step()
        monitor.step()

    return timeit.timeit(both, timer=process_time, number=1)


def ratio(model: Any, step: Callable[[], None], every: int) -> float:
    """The median time of the second step after `watch`, over that of a step without a monitor just
    before.
    """
    ratios = []
    for _ in range(_STEPS):
        alone = timeit.timeit(step, timer=process_time, number=1)
        monitor = sdpa.watch(model, every)
        watched(step, monitor)
        ratios.append(watched(step, monitor) / alone)
        monitor.close()
    return float(np.median(ratios))


def p_values(
    sequences: int, queries: int, keys: int, d_k: int, causal: bool, planted: float = 0.0
) -> FloatArray:
    """`largest_score_p` of heads of standard normal q and k."""
    import torch
    from torch.nn import functional

    class Attention(torch.nn.Module):  # type: ignore[misc]
        def forward(self, q: Any, k: Any) -> Any:
            return functional.scaled_dot_product_attention(q, k, k, is_causal=causal)

    torch.manual_seed(crc32(repr((sequences, queries, keys, d_k, causal, planted)).encode()))
    model = Attention()
    monitor = sdpa.watch(model, every=1)
    chances: list[float] = []
    while len(chances) < _HEADS:
        q, k = (torch.randn(sequences, 500, n, d_k) for n in (queries, keys))
        last = q[0, :, -1]
        k[0, :, keys // 2] += planted * last / last.norm(dim=-1, keepdim=True)
        model(q, k)
        chances += [p for name, p in monitor.step().items() if name.endswith("largest_score_p")]
    return np.array(chances)


def main() -> None:
    """Print times, false alarms and power."""
    for name, sizes in MODELS.items():
        model, step = training(*sizes)
        alone = min(timeit.repeat(step, timer=process_time, number=1, repeat=5))
        monitor = sdpa.watch(model)
        first = watched(step, monitor) - alone
        monitor.close()
        ratios = [ratio(model, step, every) for every in (1, 2)]
        print(
            f"{name}: a step takes {1e3 * alone:.0f} ms, a watched one {ratios[0]:.3f} times as "
            f"long, another one {ratios[1]:.3f}; the first watched one {first:.2f} s more"
        )
    for name, corner in CORNERS.items():
        p = p_values(*corner)
        print(f"{name}: {(p < 0.01).mean():.2%} below 1%, {(p < 0.1).mean():.1%} below 10%")
    for planted in PLANTED:
        p = p_values(*CORNERS["64 keys"], planted)
        print(f"a key {planted} standard deviations out: {(p < 0.01).mean():.0%} below 1%")


if __name__ == "__main__":
    main()
