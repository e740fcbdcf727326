"""The pretrained models of `make model`, each in one declaration."""

import io
from functools import partial

import numpy as np
import pandas as pd

from experiments.models import heads, language, minilm, smollm2
from experiments.models.model import Case, Mask, Model, Network
from sdpa.heads import HeadArrays
from sdpa.heads.table import table_of
from sdpa.scaling import SCALED, UNSCALED

_OF_HEADS = ("by-head.csv", "by-layer.csv")
_RULES = (SCALED, UNSCALED, "d_k^1")
_TEXTS = ("prose", "code", "shuffled")
_LENGTH = 128
# The masks of the models, and the cases that their slides show.
MINILM_MASK: Mask = "none"
MINILM_CASE = Case(_LENGTH)
MINILM_LONGEST = Case(512)
SMOLLM2_MASK: Mask = "causal"
SMOLLM2_CASE = Case(language.LENGTH)
_SAMPLE = (
    slice(8),  # of sequences
    slice(2),  # of layers
    slice(None),  # of heads
    slice(32),  # of positions
)


def _example(network: Network) -> list[pd.DataFrame | bytes]:
    """The example of `sdpa diagnose`: the diagnosis of the prose, and a sample of its queries and
    keys in half precision.
    """
    q, k = network.queries_and_keys(network.tokens("prose", _LENGTH), "trained")
    sample = io.BytesIO()
    np.savez(
        sample,
        q=q[_SAMPLE].astype(np.float16),
        k=k[_SAMPLE].astype(np.float16),
    )
    diagnosis = table_of([HeadArrays(None, None, q, k, axes=("batch", "layer", "head"))])
    return [pd.DataFrame(diagnosis), sample.getvalue()]


_MINILM_CASES = (
    *(Case(_LENGTH, text=text, scaling=rule) for text in _TEXTS for rule in _RULES),
    *(Case(_LENGTH, "initial", scaling=rule) for rule in _RULES),
    *(Case(_LENGTH, text=text, keys=keys) for text in _TEXTS for keys in ("centred", "content")),
    *(Case(n) for n in (16, 32, 64, 256)),
    MINILM_LONGEST,
)

MINILM = Model(
    name="minilm",
    title="all-MiniLM-L6-v2",
    package=minilm.PACKAGE,
    licence="Apache-2.0",
    load=minilm.pretrained,
    made={
        _OF_HEADS: partial(heads.by_head_and_layer, _MINILM_CASES, MINILM_MASK),
        ("diagnosis.csv", "qk.npz"): _example,
    },
    figures=("slide",),
)

_SMOLLM2_CASES = (
    *(Case(language.LENGTH, text=text) for text in language.TEXTS),
    Case(language.LENGTH, "initial"),
)

SMOLLM2 = Model(
    name="smollm2",
    title="SmolLM2-135M-Instruct",
    package=smollm2.PACKAGE,
    licence="Apache-2.0",
    load=smollm2.pretrained,
    made={
        ("by-divisor.csv", "by-divisor-layer.csv", "by-divisor-head.csv"): language.by_divisor,
        ("by-text.csv", "smallest-loss.csv"): language.by_text,
        ("by-length.csv", "by-position.csv"): language.by_length,
        _OF_HEADS: partial(heads.by_head_and_layer, _SMOLLM2_CASES, SMOLLM2_MASK),
    },
    figures=("slide", "divisors", "layers"),
)

MODELS = (MINILM, SMOLLM2)
