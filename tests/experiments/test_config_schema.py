"""The schema of the config and the loader on the same texts: what the loader accepts, the schema accepts.

Most planted mistakes both refuse. `ONLY_THE_LOADER` lists those that the schema does not express.
"""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft7Validator

from experiments.config.loader import ConfigError, load_config
from experiments.config.schema import SCHEMA, schema_text
from experiments.kinds import experiment_names
from experiments.measuring.columns import cell_fields, defaults
from experiments.measuring.experiment import load_experiment
from sdpa import LAWS
from tests.experiments.test_any_config import CONFIG
from tests.shipped import ROOT, shipped_only

VALIDATOR = Draft7Validator(json.loads(schema_text()))
CONFIGS = [
    *("config.full.yaml", "quick.yaml", "experiments/published/config.yaml", "results/statements/config.yaml"),
    *(pytest.param(path, marks=shipped_only) for path in ("config.yaml", "results/config.yaml")),
]

# A sweep as the texts of its values by key; a list of texts is a list in the config.
Block = dict[str, str | list[str]]


class _Editor(yaml.SafeLoader):
    """Reads YAML 1.2, as editors do: 1e-3 is a number, 010 is ten, and 1/3, 1:30 and no are text."""

    yaml_implicit_resolvers: dict = {}  # noqa: RUF012


for tag, pattern, first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.nan", list("-+.0123456789")),
):
    _Editor.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)
_Editor.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))


def text_of(block: Block, name: str = "one", seed: str = "seed: 0\n") -> str:
    """The config of one sweep."""
    values = {key: f"[{', '.join(value)}]" if isinstance(value, list) else value for key, value in block.items()}
    lines = [f"    {key}: {value}\n" for key, value in values.items()]
    return f"{seed}sweeps:\n  {name}:\n{''.join(lines)}"


def schema_accepts(text: str) -> bool:
    return VALIDATOR.is_valid(yaml.load(text, _Editor))


def loader_accepts(text: str, folder: Path) -> bool:
    path = folder / "generated.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        load_config(path)
    except ConfigError:
        return False
    return True


HEADS = {"d_model": "64", "n_heads": "4", "scheme": "gpt2"}
TASK = {"task": "recall", "learning_rate": "0.1"}
SOUND = {
    "saturation": {"d_k": "8", "n_keys": "16", "scaling": "d_k^1/2", "trials": "20"},
    "rounding": {"d_k": "8", "n_keys": "16", "scaling": "d_k^1/2", "arithmetic": "float16", "trials": "20"},
    "eight_bits": {"d_k": "8", "n_keys": "16", "scaling": "d_k^1/2", "arithmetic": "float8_e5m2", "trials": "20"},
    "rows": {"d_k": "8", "n_keys": "16", "scaling": "d_k^1/2", "n_queries": "2", "trials": "2"},
    "initialisation": HEADS | {"n_keys": "16", "n_queries": "2", "scaling": "d_k^1/2", "trials": "20"},
    "training": TASK | {"d_k": "8", "n_keys": "16", "scaling": "d_k^1/2", "trials": "20"},
    "distribution": {"d_k": "8", "trials": "20"},
}
for name in experiment_names():  # also one that follows the recipe
    cell = load_experiment(name).cell
    needed = [key for key in cell_fields(cell) if key not in defaults(cell)]
    SOUND.setdefault(name, {key: "d_k^1/2" if key == "scaling" else "8" for key in needed} | {"trials": "20"})
# Values in every spelling that the loader knows, by key of a sweep.
SPELLINGS = {
    "d_k": ["8", "1e2", "4.0", "+32", "2^7", "24/2", "2..32*2", "16..64+16", "2^3..2^6*2", "[2..8*2, 100]"],
    "key_std": ["0.5", "1e-3", ".25", "1/3", "+1.5", "3e0", "[1, 1/3]"],
    "n_queries": ["1", "2^1"],
    "inputs": [*LAWS, f"[{', '.join(LAWS)}]"],
    "mask": ["none"],
    "normalize": ["none", "l2", "rms"],
    "trials": ["20", "2^5", "4e1", "60/2"],
    "variants": ["[{}]", "[{d_k: [8, 16]}, {inputs: laplace, key_std: 1/3}]"],
    "figures": ["variance", "[variance, gradients]"],
    "scaling": [
        *("unscaled", "d_k^1/2", "d_k", "8", "0.5", "1/3", "+1/7", "sqrt ( n_keys )", "d_k^(1/3)", "d_k**0.25"),
        *("2*d_k^1/4", "d_k^1/2/ln(n_keys)", "(d_k*n_keys)^1/6", "d_k^1/2/0.43/ln( n_keys )", "n_keys^-1/2*d_k"),
        *("d_k^( -1/2 )*d_k^2", "[unscaled, d_k^1/2, 8]"),
    ],
}


def edit(of: str = "saturation", /, **keys: str | list[str] | None) -> str:
    """The sound config of an experiment with some keys replaced; without those that are None."""
    block = {"experiment": of, **SOUND[of], **keys}
    return text_of({key: value for key, value in block.items() if value is not None})


def whole(old: str, new: str) -> str:
    """A sound config with a change of its text."""
    assert old in edit()
    return edit().replace(old, new, 1)


BOTH = {
    "unknown key": edit(d_kk="8"),
    "missing size": edit(d_k=None, d_model=None),
    "missing experiment": edit(experiment=None),
    "empty list": edit("saturation", d_k="[]"),
    "text for a number": edit("saturation", key_std="wide"),
    "duplicate size": edit("saturation", d_k=["8", "16", "8.0"]),
    "width beyond the limit": edit("training", d_k="1e7"),
    "deviation of 0": edit("saturation", key_std="0"),
    "unknown figure": edit("saturation", figures=["variance", "varience"]),
    "unknown law": edit("saturation", inputs="normal"),
    "rule of 0": edit("training", scaling="0"),
    "power without an exponent": edit("saturation", d_k="2^"),
    "trials and precision": edit("saturation", trials="20", precision="0.1"),
    "neither trials nor precision": edit("saturation", trials=None, precision=None, max_trials=None),
    "unknown key in a variant": edit("saturation", variants=["{}", "{d_kk: 8}"]),
    "sweep without a letter in front": whole("  one:", "  1one:"),
    "no seed": whole("seed: 0\n", ""),
    "unknown key at the top": whole("seed: 0\n", "seed: 0\nsede: 1\n"),
}
ONLY_THE_LOADER = {
    # Numbers that are text in an editor.
    "fraction that is not whole": edit("saturation", d_k="8/3"),
    "range that misses its end": edit("saturation", d_k="4..13*2"),
    # Numbers that only an editor reads as such.
    "leading zero": edit("saturation", d_k="010"),
    # One value in two spellings.
    "number twice": edit("saturation", d_k=["8", "2^3"]),
    # The grammar of rules.
    "rule without an exponent": edit("saturation", scaling="d_k^"),
    "multiplier": edit("saturation", scaling="1/sqrt(d_k)"),
    # Rules across keys.
    "queries beyond the keys of a mask": edit("saturation", n_keys="8", n_queries="9", mask="causal"),
    # Names of files of a run.
    "reserved sweep": whole("  one:", "  Columns:"),
    # Sizes of a sweep.
    "too many cells": edit("saturation", d_k="1..100000+1", n_keys="2..100+1"),
    # YAML before its values.
    "duplicate key": edit("saturation", n_keys="8\n    n_keys: 16"),
    "anchor": edit("saturation", n_keys="&keys 8"),
}


def test_the_schema_is_valid_and_the_file_up_to_date():
    Draft7Validator.check_schema(VALIDATOR.schema)
    assert (ROOT / SCHEMA).read_text(encoding="utf-8") == schema_text(), "run make readme"


@pytest.mark.parametrize("experiment", experiment_names())
def test_both_accept_a_sound_config(tmp_path, experiment):
    text = edit(experiment)
    assert loader_accepts(text, tmp_path)
    assert schema_accepts(text)


@pytest.mark.parametrize(("key", "written"), [(key, one) for key, values in SPELLINGS.items() for one in values])
def test_both_accept_every_spelling(tmp_path, key, written):
    text = edit(**{key: written})
    assert loader_accepts(text, tmp_path), text
    assert schema_accepts(text), text


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(config=CONFIG)
def test_both_accept_a_generated_config(tmp_path_factory, config):
    text = yaml.safe_dump(config)
    assert loader_accepts(text, tmp_path_factory.getbasetemp())
    assert schema_accepts(text)


@pytest.mark.parametrize("mistake", BOTH)
def test_both_refuse_a_planted_mistake(tmp_path, mistake):
    assert not loader_accepts(BOTH[mistake], tmp_path)
    assert not schema_accepts(BOTH[mistake])


@pytest.mark.parametrize("mistake", ONLY_THE_LOADER)
def test_only_the_loader_refuses_what_a_schema_cannot_express(tmp_path, mistake):
    assert not loader_accepts(ONLY_THE_LOADER[mistake], tmp_path)
    assert schema_accepts(ONLY_THE_LOADER[mistake])


@pytest.mark.parametrize("path", CONFIGS)
def test_the_schema_accepts_every_config_of_this_repository(path):
    assert schema_accepts((ROOT / path).read_text(encoding="utf-8"))
