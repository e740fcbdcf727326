"""Attention functions of public packages, each with what it should compute: the options of
`sdpa.audit`.

A function gets q, k and v as its package takes them: as arrays of that package, with heads before
the positions or after them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

Tensor = Any  # an array of NumPy, or of a package
Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Listed:
    """A function of NumPy arrays (batch, heads, n, d).

    Attributes:
        package: its name in the package index.
        calls: what is called, with its options.
        attention: the function.
        options: those of `sdpa.audit`.
    """

    package: str
    calls: str
    attention: Function
    options: dict[str, Any]


FUNCTIONS: list[Listed] = []


def listed(
    package: str, arrays: Function = np.asarray, heads: int = 1, **options: Any
) -> Callable[[Function], Function]:
    """List a wrapper, whose docstring names what it calls; heads are at that axis, 1 or 2."""

    def add(wrapper: Function) -> Function:
        def attention(*given: Tensor) -> Tensor:
            output = wrapper(*(arrays(x.swapaxes(1, heads)) for x in given))
            return np.asarray(output).swapaxes(1, heads)

        calls = str(wrapper.__doc__).rstrip(".")
        FUNCTIONS.append(Listed(package, calls, attention, {"dtype": "float32"} | options))
        return attention

    return add


def direct(path: str, **named: Any) -> Function:
    """A function of a package that takes q, k, v, and further arguments by name."""
    module, _, name = path.partition(":")

    def wrapper(*qkv: Tensor) -> Tensor:
        return getattr(import_module(module), name)(*qkv, **named)

    words = ", ".join(f"{x}={value}" for x, value in named.items())
    wrapper.__doc__ = f"{module}.{name}({words})"
    return wrapper


def tensor(x: Tensor) -> Tensor:
    """An array of PyTorch."""
    import torch

    torch.set_grad_enabled(False)
    return torch.from_numpy(x)


def jax_array(x: Tensor) -> Tensor:
    """An array of JAX."""
    import jax

    return jax.numpy.asarray(x)


TORCH = "torch.nn.functional:scaled_dot_product_attention"
JAX = "jax.nn:dot_product_attention"
KERAS = "keras.ops:dot_product_attention"  # with the backend NumPy
RING = "ring_attention_pytorch:ring_flash_attn"
CHUNKS = "memory_efficient_attention:efficient_dot_product_attention_pt"
PIECES = "memory_efficient_attention_pytorch.memory_efficient_attention:memory_efficient_attention"

listed("torch", tensor)(direct(TORCH))
listed("torch", tensor, mask="causal-first", dtype="float64")(direct(TORCH, is_causal=True))
listed("torch", tensor, groups=2)(direct(TORCH, enable_gqa=True))
listed("jax", jax_array, 2)(direct(JAX))
listed("jax", jax_array, 2, mask="causal-first")(direct(JAX, is_causal=True))
listed("jax", jax_array, 2, mask="window-4-first")(direct(JAX, local_window_size=(3, 0)))
listed("jax", jax_array, 2, groups=2)(direct(JAX))
listed("flax", jax_array, 2)(direct("flax.linen:dot_product_attention"))
listed("flax", jax_array, 2)(direct("flax.nnx:dot_product_attention"))
listed("keras", heads=2)(direct(KERAS))
keras_grouped = listed("keras", heads=2, groups=2)(direct(KERAS))
pieces = direct(PIECES, causal=True)
listed("memory-efficient-attention-pytorch", tensor, mask="causal-first")(pieces)
listed("ring-attention-pytorch", tensor, 2)(direct(RING, ring_size=1))
listed("memory-efficient-attention", tensor, 2)(direct(CHUNKS))
causal_flash = direct("flash_attention_jax:causal_flash_attention")
listed("flash-attention-jax", jax_array, mask="causal")(causal_flash)
key_chunks = listed("memory-efficient-attention", tensor, 2)(direct(CHUNKS, key_chunk_size=128))
query_chunks = listed("memory-efficient-attention", tensor, 2)(direct(CHUNKS, query_chunk_size=8))
ring = direct(RING, causal=True, bucket_size=32, ring_size=1)
ring_causal = listed("ring-attention-pytorch", tensor, 2, mask="causal")(ring)


@listed("memory-efficient-attention-pytorch", tensor, mask="causal")
def flash_function(*qkv: Tensor) -> Tensor:
    """FlashAttentionFunction.apply(causal=True)."""
    from memory_efficient_attention_pytorch.flash_attention import FlashAttentionFunction

    return FlashAttentionFunction.apply(*qkv, None, True, 512, 1024)


def eager(model: str, *qkv: Tensor, sinks: Tensor = None, **options: Any) -> Tensor:
    """The eager attention of a model of Transformers."""
    module = SimpleNamespace(num_key_value_groups=1, training=False, sinks=sinks)
    of_model = import_module(f"transformers.models.{model}.modeling_{model}")
    scaling = qkv[0].shape[-1] ** -0.5
    output, _ = of_model.eager_attention_forward(module, *qkv, None, scaling=scaling, **options)
    return output.swapaxes(1, 2)


@listed("transformers", tensor)
def llama(*qkv: Tensor) -> Tensor:
    """eager_attention_forward of Llama."""
    return eager("llama", *qkv)


@listed("transformers", tensor, softcap=50)
def gemma2(*qkv: Tensor) -> Tensor:
    """eager_attention_forward(softcap=50) of Gemma 2."""
    return eager("gemma2", *qkv, softcap=50)


@listed("transformers", tensor, sink=0)
def gpt_oss(*qkv: Tensor) -> Tensor:
    """eager_attention_forward of gpt-oss, whose sinks are 0."""
    return eager("gpt_oss", *qkv, sinks=qkv[0].new_zeros(qkv[0].shape[1]))


@listed("mlx", mask="causal")
def mlx(*qkv: Tensor) -> Tensor:
    """fast.scaled_dot_product_attention(mask="causal")."""
    from mlx import core

    scale = qkv[0].shape[-1] ** -0.5
    q, k, v = map(core.array, qkv)
    return core.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask="causal")


def onnx_model(operator: str, domain: str, **attributes: Any) -> Tensor:
    """A model of one operator of q, k and v."""
    from onnx import TensorProto, helper

    names = "q", "k", "v", "output"
    values = [helper.make_tensor_value_info(x, TensorProto.FLOAT, None) for x in names]
    node = helper.make_node(operator, names[:3], names[3:], domain=domain, **attributes)
    graph = helper.make_graph([node], "attention", values[:3], values[3:])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@cache
def onnx_runtime(*operator: str, **attributes: Any) -> Tensor:
    """A session of ONNX Runtime with one operator."""
    from onnxruntime import InferenceSession

    model = onnx_model(*operator, **attributes).SerializeToString()
    return InferenceSession(model, providers=["CPUExecutionProvider"])


def run_onnx(session: Tensor, *qkv: Tensor) -> Tensor:
    """The output of a session."""
    return session.run(None, dict(zip("qkv", qkv, strict=True)))[0]


@listed("onnx", mask="causal-first")
def onnx_causal(*qkv: Tensor) -> Tensor:
    """ReferenceEvaluator of Attention(is_causal=1), opset 23."""
    from onnx.reference import ReferenceEvaluator

    return run_onnx(ReferenceEvaluator(onnx_model("Attention", "", is_causal=1)), *qkv)


@listed("onnxruntime", mask="causal-first")
def runtime_causal(*qkv: Tensor) -> Tensor:
    """Attention(is_causal=1), opset 23."""
    return run_onnx(onnx_runtime("Attention", "", is_causal=1), *qkv)


def merged(x: Tensor) -> Tensor:
    """Heads of an array (batch, n, heads, d) side by side."""
    return x.reshape(*x.shape[:2], -1)


def multi_head(*qkv: Tensor, **attributes: int) -> Tensor:
    """MultiHeadAttention of ONNX Runtime, (batch, n, heads, d)."""
    heads = qkv[0].shape[2]
    session = onnx_runtime("MultiHeadAttention", "com.microsoft", num_heads=heads, **attributes)
    output = run_onnx(session, *map(merged, qkv))
    return output.reshape(*output.shape[:2], heads, -1)


@listed("onnxruntime", heads=2)
def runtime_heads(*qkv: Tensor) -> Tensor:
    """com.microsoft.MultiHeadAttention."""
    return multi_head(*qkv)


@listed("onnxruntime", heads=2, mask="causal-first")
def unidirectional(*qkv: Tensor) -> Tensor:
    """com.microsoft.MultiHeadAttention(unidirectional=1)."""
    return multi_head(*qkv, unidirectional=1)


def of_module(kind: Function, *qkv: Tensor, **options: Any) -> Tensor:
    """The output of a module of PyTorch, (batch, n, heads, d), whose projection `qkv` gives q, k and v
    side by side.
    """
    torch = import_module("torch")
    three = torch.stack([*map(merged, qkv)], 2).flatten(2)
    module = kind(merged(qkv[0]).shape[2], qkv[0].shape[2], **options)
    module.__dict__.update(qkv=lambda _: three, proj=torch.nn.Identity())
    output = module(merged(qkv[0]))
    return output.reshape(*output.shape[:2], qkv[0].shape[2], -1)


@listed("timm", tensor, 2)
def timm(*qkv: Tensor) -> Tensor:
    """layers.Attention."""
    from timm.layers import Attention

    return of_module(Attention, *qkv)


@listed("open-clip-torch", tensor, 2, normalize=10)
def open_clip(*qkv: Tensor) -> Tensor:
    """transformer.Attention(scaled_cosine=True)."""
    from open_clip.transformer import Attention

    return of_module(Attention, *qkv, scaled_cosine=True)


@listed("diffusers", tensor, 2, scaling="unscaled")
def diffusers(*qkv: Tensor) -> Tensor:
    """AttnProcessor2_0 of Attention(scale_qk=False)."""
    from diffusers.models.attention_processor import Attention, AttnProcessor2_0

    q, k, v = map(merged, qkv)
    attention = Attention(q.shape[2], None, *qkv[0].shape[2:], scale_qk=False)
    given = {"to_q": lambda _: q, "to_k": lambda _: k, "to_v": lambda _: v}
    attention.__dict__.update(given, to_out=[lambda x: x] * 2)
    return AttnProcessor2_0()(attention, q).reshape(*qkv[0].shape[:3], qkv[2].shape[3])


@listed("x-transformers", tensor, mask="causal")
def attend_flash(*qkv: Tensor) -> Tensor:
    """attend.Attend(causal=True, flash=True)."""
    from x_transformers.attend import Attend

    return Attend(causal=True, flash=True)(*qkv)[0]


@listed("local-attention", tensor, mask="window-8")
def local(*qkv: Tensor) -> Tensor:
    """LocalAttention(8, causal=True, exact_windowsize=True)."""
    from local_attention import LocalAttention

    exact = {"causal": True, "exact_windowsize": True, "use_rotary_pos_emb": False}
    return LocalAttention(8, **exact)(*qkv)


@listed("flash-attention-jax", jax_array, normalize=10)
def cosine(*qkv: Tensor) -> Tensor:
    """cosine_sim_attention."""
    from flash_attention_jax import cosine_sim_attention

    batch, _, n_keys, _ = qkv[1].shape
    return cosine_sim_attention(*qkv, np.ones((batch, n_keys), bool))
