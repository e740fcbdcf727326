"""A monitor of the attention of a PyTorch model in training, beside Gaussian rows.

PyTorch and Transformers are no dependencies: they are imported when a model of theirs runs.
"""

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from math import ceil, inf, isqrt, nan

import numpy as np

from sdpa._arrays import FloatArray
from sdpa.metrics import SATURATED
from sdpa.theory.gaussian_rows import gaussian_rows
from sdpa.theory.query_lengths import largest_deviation_survival, largest_score_mean
from sdpa.tools.diagnosis.estimates import LARGEST_SIGMA
from sdpa.tools.diagnosis.head_rows import MASKING_DISTANCE
from sdpa.tools.record import Call, Model, Tensor, calls_of_pytorch, calls_of_transformers

_NOISE = 1e-6  # of scores in single precision, relative


class Monitor:
    """The monitor of a model: `step()` after each optimizer step, `close()` at the end."""

    def __init__(self, model: Model, every: int, queries: int) -> None:
        self._model = model
        self._every = every
        self._queries = queries
        self._until = 0  # steps before the next watched one
        # of the last forward pass: small tensors, or none of a call that is not recorded
        self._layers: list[tuple[Tensor, ...]] = []
        self._watching = ExitStack()
        self._hooks = (
            model.register_forward_pre_hook(self._begin),
            model.register_forward_hook(self._end, always_call=True),
        )

    def step(self) -> dict[str, float]:
        """Numbers by name, such as `layer0/head3/spread`; none between watched steps.

        Warns if a watched step had no attention call, or one that is not recorded, and has no numbers.
        """
        layers = self._layers
        self._layers = []
        was_watched = not self._until
        self._until = (self._until or self._every) - 1
        if was_watched and not layers:
            warnings.warn(
                "sdpa.watch: expected attention calls in a forward pass of "
                f"{type(self._model).__name__}, got none. Watch the module that you call, or what "
                "torch.compile returns; docs/your-model.md names the functions that are seen",
                stacklevel=2,
            )
        if unseen := [number for number, layer in enumerate(layers) if not layer]:
            warnings.warn(
                f"sdpa.watch: not recorded: layers {unseen}, whose softmax is over more than the scores "
                "of all keys, as beside a sink",
                stacklevel=2,
            )
        arrays = [tuple(tensor.cpu().numpy() for tensor in tensors) for tensors in layers]
        return summary(arrays)

    def close(self) -> None:
        """Remove the hooks from the model."""
        for hook in self._hooks:
            hook.remove()

    def _begin(self, *_: object) -> None:
        import torch

        # first, so that no compiled model depends on the number of the step
        if torch.compiler.is_compiling() or self._until:
            return
        self._layers.clear()
        self._watching.enter_context(torch.compiler.set_stance("force_eager"))
        self._watching.enter_context(calls_of_pytorch(self._see))
        configs = (getattr(module, "config", None) for module in self._model.modules())
        if any(getattr(config, "_attn_implementation", None) == "eager" for config in configs):
            self._watching.enter_context(calls_of_transformers(self._see_eager, "eager"))

    def _end(self, *_: object) -> None:
        import torch

        if not torch.compiler.is_compiling():
            self._watching.close()

    def _see(self, call: Call) -> None:
        self._layers.append(_rows(call, self._queries))

    def _see_eager(self, call: Call) -> None:
        """See the scores at the softmax, which have biases and caps that are no mask."""
        if getattr(call.scores, "shape", None) == (*call.q.shape[:-1], call.k.shape[-2]):
            self._see(call)
        else:
            self._layers.append(())


def watch(model: Model, every: int = 100, queries: int = 64) -> Monitor:
    """Watch the attention of a PyTorch model in every `every`-th step, from the first on.

    In training without `torch.compile`, outputs, gradients and random numbers stay the same to the
    bit. A layer is a call of `scaled_dot_product_attention`, of `nn.MultiheadAttention` or of the
    eager attention of Transformers, by its number in the last forward pass before `step()`. For
    each head, over rows of queries that see two keys or more, `step()` returns

        largest_score        the largest score at the softmax, with biases and caps
        largest_score_p      p-value of the largest deviation of a score from the mean of its row
        spread               root of the mean variance of the scores of a row
        entropy_share        mean of the entropy over ln n
        saturated_rows       share of rows with a weight above 0.99
        top_key              position of the key with the most weight in all rows
        top_key_share        its share of this weight

    and largest_score_exact, entropy_share_exact, saturated_rows_exact: their expectations over rows
    of independent normal scores of mean 0 and the same mean variance, in proportion to |q|^2. The p-value is that of
    independent normal scores in each row, of any mean and variance, as independent normal keys of
    any covariance give them. It is a union bound: the number of rows times the least p-value of a
    row, so that false alarms are at most as frequent as stated, however the rows depend on each
    other. A head without rows has NaN.

    A softmax over more than the scores of all keys, as of gpt-oss with its sinks, is not recorded:
    its layer has no numbers, and `step()` warns. A second monitor of a model replaces the first.

    Args:
        model: a `torch.nn.Module`, or what `torch.compile` returns; its watched steps are eager.
        every: number of steps from one watched step to the next.
        queries: number of queries watched in each head, evenly spaced in about sqrt(queries)
            sequences.

    >>> monitor = watch(model)  # doctest: +SKIP
    >>> loss.backward(); optimizer.step(); logs = monitor.step()  # doctest: +SKIP
    """
    if not hasattr(model, "named_modules"):
        raise TypeError(f"model: expected a torch.nn.Module, got {model!r}")
    if every < 1 or queries < 1:
        raise ValueError(f"expected every and queries of at least 1, got {every} and {queries}")
    for hook in [*model._forward_pre_hooks.values()]:
        if isinstance(before := getattr(hook, "__self__", None), Monitor):
            before.close()
    return Monitor(model, every, queries)


def _rows(call: Call, queries: int) -> tuple[Tensor, Tensor]:
    """Tensors: values of rows, (values, heads, rows), and of the top keys, (values, heads)."""
    import torch

    with torch.no_grad(), torch.autocast(call.q.device.type, enabled=False):
        scores, squares = _scores(call, queries)
        largest = scores.amax(-1, keepdim=True)
        visible = (
            scores > largest.clamp(min=0) - MASKING_DISTANCE
        )  # none where all keys of a row are hidden
        below = (scores - largest).masked_fill(~visible, 0)
        n = visible.sum(-1, keepdim=True)
        mean = below.sum(-1, keepdim=True) / n
        centred = (below - mean) * visible
        variance = centred.square().sum(-1) / n[..., 0]
        weights = below.exp() * visible
        weights /= weights.sum(-1, keepdim=True)
        max_weight = weights.amax(-1)
        entropy = -max_weight.log() - (weights * below).sum(-1)
        counted = n >= 2
        received, top = weights.masked_fill(~counted, 0).sum((0, 2)).max(-1)
        top_keys = torch.stack([top.float(), received / counted.sum((0, 2, 3))])
        deviation = -mean / variance.sqrt()[..., None]
        columns = (array[..., 0] for array in (n, largest, deviation))
        values = torch.stack([*columns, variance, entropy, max_weight, squares])
        return values.movedim(2, 1).flatten(2), top_keys


def _scores(call: Call, queries: int) -> tuple[Tensor, Tensor]:
    """Scaled scores of some queries in single precision, (sequences, heads, queries, n_keys), -inf
    where hidden, and |q|^2.
    """
    import torch

    sizes = (1, *call.q.shape)[-3:]
    q = call.q.reshape(-1, *sizes)
    sequences, _, n_queries, d_k = q.shape
    n_keys = call.k.shape[-2]
    some = min(sequences, isqrt(queries))
    step = ceil(n_queries / ceil(queries / some))
    places = slice((n_queries - 1) % step, None, step)  # with the last query
    chosen = slice(None, None, ceil(sequences / some)), slice(None), places
    q = q[chosen].float()
    squares = q.square().sum(-1)
    if call.scores is not None:
        return call.scores.reshape(sequences, -1, n_queries, n_keys)[chosen].float(), squares
    k = call.k.expand(*call.q.shape[:-3], *call.k.shape[-3:])
    k = k.reshape(sequences, -1, n_keys, d_k)[chosen[:1]].float()
    # the heads of a group are further rows
    rows = q.reshape(*k.shape[:2], -1, d_k)
    scores = (rows @ k.mT).reshape(*q.shape[:-1], n_keys)
    scores *= d_k**-0.5 if call.scale is None else call.scale
    if call.mask is not None:
        mask = call.mask[..., :n_keys].expand(*call.q.shape[:-1], n_keys)
        mask = mask.reshape(sequences, -1, n_queries, n_keys)[chosen]
        scores = scores.masked_fill(~mask, -inf) if mask.dtype == torch.bool else scores + mask
    if call.is_causal:
        last = torch.arange(n_queries, device=q.device)
        keys = torch.arange(n_keys, device=q.device)
        scores = scores.masked_fill(keys > last[places, None], -inf)
    return scores, squares


def summary(layers: Sequence[tuple[FloatArray, ...]]) -> dict[str, float]:
    """Numbers of each head of each layer by name, from what `_rows` returns; none of an empty
    tuple.
    """
    return {
        f"layer{layer}/head{head}/{name}": value
        for layer, arrays in enumerate(layers)
        if arrays
        for name, values in _layer_numbers(*arrays).items()
        for head, value in enumerate(values.tolist())
    }


def _layer_numbers(rows: FloatArray, keys: FloatArray) -> dict[str, FloatArray]:
    """Numbers of the heads of a layer by name, (heads,); NaN for a head without rows."""
    n, largest, deviation, variance, entropy, max_weight, squares = rows.astype(np.float64)
    counted = n >= 2
    n = np.maximum(n, 2)
    count = counted.sum(-1)

    def mean(values: FloatArray) -> FloatArray:
        return np.asarray(np.where(counted, values, 0).sum(-1) / count)

    with np.errstate(divide="ignore", invalid="ignore"):  # a head without rows of finite scores
        variance_ratio = mean(variance * n / (n - 1)) / mean(squares)
        sigma = np.sqrt(variance_ratio[:, None] * squares * counted)
        sigma = np.nan_to_num(np.minimum(sigma, LARGEST_SIGMA))
        lengths = n.ravel().astype(int)
        exact = gaussian_rows(sigma.ravel(), lengths, ("entropy", "saturated_rows"))
        entropy_exact, saturated_exact = exact.T.reshape(2, *n.shape)
        is_spread = counted & (variance > (_NOISE * largest) ** 2)
        p = np.where(is_spread, largest_deviation_survival(deviation, n), 1)
        by_quantity = {
            "largest_score": np.where(counted, largest, -inf).max(-1),
            "largest_score_exact": largest_score_mean(sigma, n * counted),
            "largest_score_p": np.minimum(count * p.min(-1), 1),
            "spread": np.sqrt(mean(variance)),
            "entropy_share": mean(entropy / np.log(n)),
            "entropy_share_exact": mean(entropy_exact / np.log(n)),
            "saturated_rows": mean(max_weight > SATURATED),
            "saturated_rows_exact": mean(saturated_exact),
        }
    by_quantity |= dict(zip(("top_key", "top_key_share"), keys, strict=True))
    return {name: np.where(count > 0, values, nan) for name, values in by_quantity.items()}
