"""The schema of the config and the loader on the same texts: the schema accepts what the loader
does.

Most planted mistakes both refuse. `ONLY_THE_LOADER` lists those that the schema does not express.
"""

import json
import re

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft7Validator

from experiments.config.kinds import config_names
from experiments.config.loader import ConfigError, load_config
from experiments.config.schema import SCHEMA, schema_text
from experiments.measuring.columns import cell_fields, defaults
from experiments.measuring.experiment import load_experiment
from sdpa import LAWS
from tests.experiments.test_any_config import CONFIG
from tests.shipped import ROOT, shipped_only

VALIDATOR = Draft7Validator(json.loads(schema_text()))
CONFIGS = [
    *("config.full.yaml", "quick.yaml"),
    *(pytest.param(path, marks=shipped_only) for path in ("config.yaml", "results/config.yaml")),
]
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


class Editor(yaml.SafeLoader):
    """Reads 1e-3 as a number, as editors do, which have YAML 1.2."""


POWER_OF_TEN = re.compile(r"[-+]?[0-9.]+[eE][-+]?[0-9]+$")
Editor.add_implicit_resolver("tag:yaml.org,2002:float", POWER_OF_TEN, [*"-+.0123456789"])


def schema_accepts(text):
    return VALIDATOR.is_valid(yaml.load(text, Editor))


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
BOTH = [
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
]
BOTH_TEXTS = [
    SOUND.replace("  one:", "  1one:"),
    SOUND.replace("seed: 0\n", "sede: 1\n"),
]
ONLY_THE_LOADER = [
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


RESERVED = SOUND.replace("one", "Columns")


def edited(line):
    """The sound config with another line of a key, or one more; without a value, without the
    key.
    """
    key, _, value = line.partition(":")
    rest = re.sub(rf"    {key}: .*\n", "", SOUND)
    return f"{rest}    {line}\n" if value else rest


def test_the_schema_is_valid_and_the_file_up_to_date():
    Draft7Validator.check_schema(VALIDATOR.schema)
    assert (ROOT / SCHEMA).read_text(encoding="utf-8") == schema_text(), "run make readme"
    assert len(schema_text()) < 64 * 1024, "parts that come again are references"


@pytest.mark.parametrize("experiment", config_names())
def test_both_accept_a_sound_config(loader_accepts, experiment):
    """Also that of an experiment which follows the recipe."""
    cell = load_experiment(experiment).cell
    named = {"scaling": "d_k^1/2", "scheme": "gpt2"}
    text = re.sub("    .*\n", "", SOUND) + f"    experiment: {experiment}\n    trials: 20\n"
    for key in cell_fields(cell):
        if key not in defaults(cell):
            text += f"    {key}: {named.get(key, 8)}\n"
    if "n_queries" in defaults(cell):
        text += "    n_queries: 2\n"
    assert loader_accepts(text), text
    assert schema_accepts(text)


@pytest.mark.parametrize("key", SPELLINGS)
def test_both_accept_every_spelling(loader_accepts, key):
    for value in SPELLINGS[key]:
        text = edited(f"{key}: {value}")
        assert loader_accepts(text), text
        assert schema_accepts(text), text


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(config=CONFIG)
def test_both_accept_a_generated_config(loader_accepts, config):
    text = yaml.safe_dump(config)
    assert loader_accepts(text)
    assert schema_accepts(text)


@pytest.mark.parametrize("text", [*map(edited, BOTH), *BOTH_TEXTS])
def test_both_refuse_a_planted_mistake(loader_accepts, text):
    assert not loader_accepts(text)
    assert not schema_accepts(text)


@pytest.mark.parametrize("text", [*map(edited, ONLY_THE_LOADER), RESERVED])
def test_only_the_loader_refuses_what_a_schema_cannot_express(loader_accepts, text):
    assert not loader_accepts(text)
    assert schema_accepts(text)


@pytest.mark.parametrize("path", CONFIGS)
def test_the_schema_accepts_every_config_of_this_repository(path):
    assert schema_accepts((ROOT / path).read_text(encoding="utf-8"))
