"""Any config is read, or refused with the places of its mistakes, before anything is measured."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.harness.config import ConfigError, load_config

ROOT = Path(__file__).parents[2]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["unscaled", "d_k^1/2", "d_k^x", "1/d_k", "2^3", "4..16*2", "4..15*2", "gaussian", "saturation", "rows", "1e3"]
    ),
)
KEYS = st.sampled_from(
    ["experiment", "d_k", "n_keys", "n_queries", "scaling", "trials", "inputs", "key_std", "figures", "seed", "no"]
)
BLOCKS = st.dictionaries(KEYS, st.one_of(VALUES, st.lists(VALUES, max_size=4)), max_size=9)
SOUND = {"experiment": "saturation", "d_k": 4, "n_keys": 8, "trials": 5, "scaling": "d_k^1/2"}
NAMES = st.sampled_from(["a", "b", "../c", "columns"])
CONFIGS = st.one_of(
    st.fixed_dictionaries({"seed": VALUES, "sweeps": st.dictionaries(st.text(max_size=9), BLOCKS, max_size=3)}),
    st.fixed_dictionaries(
        {
            "seed": st.integers(0, 5),
            "sweeps": st.dictionaries(NAMES, BLOCKS.map(lambda block: SOUND | block), min_size=1),
        }
    ),
    st.recursive(VALUES, lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(max_size=5), inner))),
).map(lambda value: yaml.safe_dump(value, allow_unicode=True))
EDITS = st.lists(st.tuples(st.integers(0, 1800), st.integers(0, 40), st.text(max_size=6)), max_size=4)


def edited(edits) -> str:
    """The shipped config with a few passages replaced by something else."""
    text = (ROOT / "config.yaml").read_text()
    for place, length, new in edits:
        text = text[:place] + new + text[place + length :]
    return text


def read_or_refused(text: str, path: Path) -> None:
    """A config is read, or refused with lines that name a place; nothing else comes out."""
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    said = ""
    try:
        load_config(path)
    except ConfigError as error:
        said = str(error)
    assert all(re.match(rf"{re.escape(str(path))}:\d+:\d+: .", line) for line in said.splitlines())


def any_config(examples: int):
    return lambda test: settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )(given(text=st.one_of(CONFIGS, EDITS.map(edited)))(test))


@any_config(100)
def test_any_config_is_read_or_refused(tmp_path_factory, text):
    read_or_refused(text, tmp_path_factory.getbasetemp() / "any.yaml")


@pytest.mark.faults
@any_config(1000)
def test_any_of_1000_configs_is_read_or_refused(tmp_path_factory, text):
    read_or_refused(text, tmp_path_factory.getbasetemp() / "any1000.yaml")
