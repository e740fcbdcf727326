"""Spellings that the loader accepts, and mistakes that it refuses."""

import re

import pytest

from experiments.config.loader import ConfigError, load_config
from sdpa import LAWS

SOUND = """\
seed: 0
sweeps:
  one:
    experiment: saturation
    d_k: 8
    n_keys: 16
    scaling: d_k^1/2
    trials: 20
"""


@pytest.fixture
def loader_accepts(tmp_path):
    def accepts(text):
        path = tmp_path / "generated.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            load_config(path)
        except ConfigError:
            return False
        return True

    return accepts


# Values in every spelling that the loader knows, by key of a sweep.
SPELLINGS = {
    "d_k": ["1e2", "4.0", "+32", "24/2", "16..64+16", "2^3..2^6*2", "[2..8*2, 100]"],
    "key_std": ["1e-3", ".25", "+1.5", "[1, 1/3]"],
    "inputs": [*LAWS, f"[{', '.join(LAWS)}]"],
    "normalize": ["none", "l2", "rms"],
    "trials": ["2^5", "4e1", "60/2"],
    "variants": ["[{}]", "[{d_k: [8, 16]}, {inputs: laplace, key_std: 1/3}]"],
    "figures": ["variance", "[variance, gradients]"],
    "scaling": [
        "1/3",
        "d_k^(1/3)",
        "d_k**0.25",
        "2*d_k^1/4",
        "(d_k*n_keys)^1/6",
        "d_k^1/2/0.43/ln( n_keys )",
        "[unscaled, d_k^1/2, 8]",
    ],
}
# A change of one line of the sound config each.
REFUSED = [
    "d_kk: 8",
    "d_k: []",
    "d_k: [8, 16, 8.0]",
    "correlation: 2",
    "key_std: 0",
    "figures: [variance, varience]",
    "d_k: 2^",
    "precision: 0.1",
    "variants: [{}, {d_kk: 8}]",
    "experiment:",
    "d_k: 8/3",
    "d_k: 4..13*2",
    "d_k: 010",
    "d_k: [8, 2^3]",
    "scaling: d_k^",
    "scaling: 1/sqrt(d_k)",
    "mask: causal",
    "d_k: 1..65536+1\n    n_queries: [1, 2]",
    "n_keys: 16\n    n_keys: 16",
    "n_keys: &keys 8",
]
REFUSED_TEXTS = [
    SOUND.replace("  one:", "  1one:"),
    SOUND.replace("seed: 0\n", "sede: 1\n"),
    SOUND.replace("one", "Columns"),
]


def edited(line):
    """The sound config with another line of a key, or one more; without a value, without the
    key.
    """
    key, _, value = line.partition(":")
    rest = re.sub(rf"    {key}: .*\n", "", SOUND)
    return f"{rest}    {line}\n" if value else rest


@pytest.mark.parametrize("key", SPELLINGS)
def test_every_spelling_is_accepted(loader_accepts, key):
    for value in SPELLINGS[key]:
        text = edited(f"{key}: {value}")
        assert loader_accepts(text), text


@pytest.mark.parametrize("text", [*map(edited, REFUSED), *REFUSED_TEXTS])
def test_a_planted_mistake_is_refused(loader_accepts, text):
    assert not loader_accepts(text)
