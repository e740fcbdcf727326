"""Records of the queries and keys that the attention of a model receives, for `sdpa.diagnose`.

PyTorch and Transformers are no dependencies: they are imported when a model of theirs is recorded.
"""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from sdpa._arrays import as_array

Tensor: TypeAlias = Any  # of PyTorch
Model: TypeAlias = Any  # a module of PyTorch


class Call(NamedTuple):
    """The arguments of an attention function: tensors of PyTorch, and the others."""

    q: Tensor  # (..., head, n_queries, d_k)
    k: Tensor  # (..., head, n_keys, d_k), with as many heads as q, or one for a group of its heads
    scale: float | None  # multiplies scores; None is 1/sqrt(d_k)
    mask: Tensor  # of booleans, True where a query may attend, or added to scores; or None
    is_causal: bool = False  # the first query sees the first key alone
    scores: Tensor = None  # those of a softmax of PyTorch, if the function calls one itself


class Recording:
    """Queries and keys of attention calls, and what each call does to their scores."""

    def __init__(self) -> None:
        self.arrays: dict[
            str, npt.NDArray[np.float32]
        ] = {}  # `q.0`, `k.0`, `q.1`, ... by the number of the call
        # Divisor, `d_k^1/2` or a number, and mask: `none`, `causal` as in `sdpa.diagnose`,
        # `tensor` for any other, or `not recorded`.
        self.calls: dict[int, tuple[str, str]] = {}

    def add(
        self,
        q: Tensor,
        k: Tensor,
        scale: float | None = None,
        mask: str = "none",
        layer: int | None = None,
    ) -> None:
        """Add q and k, (..., n, d_k), of any array type; `scale` multiplies scores, and is
        1/sqrt(d_k) by default.

        `layer` is the number of the call; by default, one more than the largest.

        Raises:
            ValueError: the layer has been added before, or the scale is 0.

        >>> saved, q = Recording(), np.ones((2, 4))
        >>> saved.add(q, q, layer=2)
        >>> saved.add(q, q)
        >>> [*saved.arrays]
        ['q.2', 'k.2', 'q.3', 'k.3']
        """
        number = max(self.calls, default=-1) + 1 if layer is None else layer
        if number in self.calls or scale == 0:
            raise ValueError(
                f"expected each layer once and a scale other than 0, got layer {number} and scale "
                f"{scale}"
            )
        for name, values in (("q", q), ("k", k)):
            self.arrays[f"{name}.{number}"] = np.array(as_array(values), np.float32)
        root = self.arrays[f"q.{number}"].shape[-1] ** -0.5
        is_root = scale is None or math.isclose(scale, root, rel_tol=1e-5)
        self.calls[number] = ("d_k^1/2" if is_root or not scale else f"{1 / scale:.7g}", mask)

    def save(self, path: str) -> None:
        """Write the arrays to an .npz file, which `sdpa diagnose` reads; ValueError if there
        are none.
        """
        if not self.arrays:
            raise ValueError(
                "expected attention calls, got none: docs/your-model.md names what is recorded"
            )
        np.savez(path, **self.arrays)  # type: ignore[arg-type]


@contextmanager
def recorded_attention(model: Model = None) -> Iterator[Recording]:
    """Record the attention calls of PyTorch, or of a model of Transformers, while the block runs.

    Without a model, a call is one of `scaled_dot_product_attention` of PyTorch, under any imported
    name, or of `nn.MultiheadAttention`. With a model of Transformers, it is one of the attention
    function of its implementation (and so of other models of that implementation, too), after
    QK-norm and rotary embedding; its mask is not recorded. The outputs of the model stay the same
    up to rounding.

    >>> with recorded_attention() as recorded:  # doctest: +SKIP
    ...     model(inputs)
    >>> recorded.save("qk.npz")  # doctest: +SKIP
    """
    recording = Recording()

    def see(call: Call) -> None:
        mask = _mask_name(call) if model is None else "not recorded"
        recording.add(call.q, call.k, call.scale, mask)

    with (
        calls_of_pytorch(see)
        if model is None
        else calls_of_transformers(see, model.config._attn_implementation)
    ):
        yield recording


def _mask_name(call: Call) -> str:
    """`none`, `causal` as in `sdpa.diagnose`, or `tensor` for any other mask."""
    import torch

    n_queries, n_keys = call.q.shape[-2], call.k.shape[-2]
    visible = torch.ones(n_queries, n_keys, dtype=torch.bool, device=call.k.device)
    lower = visible.tril(n_keys - n_queries)  # the last query sees every key
    if call.is_causal:
        visible = visible.tril()
    elif call.mask is not None:
        visible = call.mask if call.mask.dtype == torch.bool else call.mask == 0
    return "none" if visible.all() else "causal" if (visible == lower).all() else "tensor"


def calls_of_pytorch(see: Callable[[Call], None]) -> Any:
    """A mode that sees the calls of `scaled_dot_product_attention`; while it is active,
    `nn.MultiheadAttention` leaves its fast path without Python calls.
    """
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    def record(
        query: Tensor,
        key: Tensor,
        value: Tensor,  # noqa: ARG001  # of the signature that it replaces
        attn_mask: Tensor = None,
        *rest: Any,
        **options: Any,
    ) -> Tensor:
        options |= dict(zip(("dropout_p", "is_causal", "scale"), rest, strict=False))
        is_causal = bool(options.get("is_causal"))
        if variant := getattr(attn_mask, "variant", None):  # torch.nn.attention.bias.CausalBias
            visible = torch.ones(
                query.shape[-2], key.shape[-2], dtype=torch.bool, device=key.device
            )
            is_lower = variant.name == "LOWER_RIGHT"
            attn_mask = visible.tril((visible.shape[1] - visible.shape[0]) * is_lower)
        see(Call(query, key, options.get("scale"), attn_mask, is_causal))
        return query

    class Mode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: object, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if func is functional.scaled_dot_product_attention:
                record(*args, **kwargs)
            # calls the function above only without weights
            elif func is functional.multi_head_attention_forward:
                with (
                    torch.no_grad(),
                    patch.object(functional, "scaled_dot_product_attention", record),
                ):
                    func(*args, **{**kwargs, "need_weights": False})
            return func(*args, **kwargs)

    return Mode()


@contextmanager
def calls_of_transformers(see: Callable[[Call], None], name: str) -> Iterator[None]:
    """A wrapped attention function in the registry of Transformers, by the name of its
    implementation.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    registered = ALL_ATTENTION_FUNCTIONS.get(name)  # None for "eager": each model has its own
    softmax = torch.softmax, torch.Tensor.softmax, torch.nn.functional.softmax

    class Softmax(TorchFunctionMode):  # type: ignore[misc]
        scores: Tensor = None

        def __torch_function__(
            self, func: Any, types: object, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func in softmax:
                self.scores = args[0] if args else (kwargs or {}).get("input")
            return func(*args, **(kwargs or {}))

    def record(
        module: Model,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor = None,
        *rest: Any,
        **kwargs: Any,
    ) -> Tensor:
        attend = registered or sys.modules[module.__module__].eager_attention_forward
        with Softmax() as seen:
            returned = attend(module, query, key, value, attention_mask, *rest, **kwargs)
        see(Call(query, key, kwargs.get("scaling"), attention_mask, scores=seen.scores))
        return returned

    # may have an entry of a user
    with patch.dict(ALL_ATTENTION_FUNCTIONS._local_mapping, {name: record}):
        yield
