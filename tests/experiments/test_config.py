"""Configs: what is read, and what is refused, with its line and column, before anything is measured."""

import re
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.config.loader import ConfigError, load_config
from experiments.config.yaml_text import with_range
from sdpa import Scaling

GOOD = """\
seed: 0
sweeps:
  one:
    experiment: saturation
    d_k: [4, 8]
    n_keys: 16
    scaling: [unscaled, d_k^1/2]
    trials: 10
"""


@pytest.fixture
def load(tmp_path):
    def loaded(text: str | bytes):
        path = tmp_path / "config.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(path)

    return loaded


def faults(load, text) -> list[str]:
    """The messages of a refused config, each as LINE:COLUMN: message."""
    with pytest.raises(ConfigError) as refused:
        load(text)
    lines = str(refused.value).splitlines()
    assert all(re.match(r".*config\.yaml:\d+:\d+: ", line) for line in lines), lines
    return [re.sub(r"^.*?config\.yaml:", "", line) for line in lines]


def test_a_sweep_is_read_with_its_defaults(load):
    config = load(GOOD)
    (sweep,) = config.sweeps
    assert config.seed == 0
    assert (sweep.name, sweep.experiment.name, sweep.trials) == ("one", "saturation", 10)
    assert [(cell.d_k, cell.n_keys, cell.n_queries, str(cell.inputs), cell.key_std) for cell in sweep.cells()] == [
        (4, 16, 64, "gaussian", 1.0),
        (8, 16, 64, "gaussian", 1.0),
    ]
    assert sweep.cells()[0].scaling == (Scaling.parse("unscaled"), Scaling.parse("d_k^1/2"))


@pytest.mark.parametrize(
    ("written", "value"), [("1e-3", 1e-3), ("1/3", 1 / 3), (".5", 0.5), ("5.", None), ("1/0", None)]
)
def test_fractions_may_be_written_so(load, written, value):
    text = f"{GOOD}    key_std: {written}\n"
    if value is None:
        assert faults(load, text) == [f"9:14: sweeps.one.key_std: got {written}, expected a valid number"]
    else:
        assert load(text).sweeps[0].cells()[0].key_std == value


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("2^6", (64,)),
        ("4..32*2", (4, 8, 16, 32)),
        ("[4..16*2, 100, 2^5]", (4, 8, 16, 100, 32)),
        ("'8..24+8'", (8, 16, 24)),
    ],
)
def test_whole_numbers_have_short_forms(load, written, values):
    plain = load(GOOD.replace("[4, 8]", f"{list(values)}"))
    short = load(GOOD.replace("[4, 8]", written))
    assert short.sweeps[0].values["d_k"] == values
    assert short.digest == plain.digest
    assert load(GOOD.replace("trials: 10", "trials: 10^3")).sweeps[0].trials == 1000


@pytest.mark.parametrize(
    "written", ["010", "0x10", "1_000", "no", "1:30", "2026-01-01", "'8'", ".inf", "~", "1e999", "8 9"]
)
def test_yaml_traps_do_not_change_meaning_silently(load, written):
    expected = f"5:10: sweeps.one.d_k: got {written}, expected a valid whole number"
    assert faults(load, GOOD.replace("[4, 8]", written)) == [expected.replace("valid whole", "whole")]


# One edit of the good config each, with the place and the words of the fault that it must give.
PLANTED = {
    "missing trials": ("    trials: 10\n", "", "3:3: sweeps.one.trials: missing key"),
    "misspelt key": ("n_keys", "n_key", "6:5: sweeps.one.n_key: got an unknown key, .*did you mean n_keys"),
    "zero d_k": ("[4, 8]", "[4, 0]", r"5:14: sweeps.one.d_k\[1\]: got 0, expected at least 1"),
    "duplicate value": ("[4, 8]", "[4, 8, 4.0]", r"5:17: sweeps.one.d_k\[2\]: got 4.0, expected each value once"),
    "duplicate key": ("d_k: [4, 8]", "d_k: 4\n    d_k: 8", "6:5: sweeps.one.d_k: got a duplicate key, .*line 5"),
    "unknown scaling": (
        "unscaled",
        "none",
        r"7:15: sweeps.one.scaling\[0\]: got none, expected 'unscaled' or a product .*; did you mean unscaled\?$",
    ),
    "range that misses its end": (
        "[4, 8]",
        "[4, 8..500*2]",
        r"5:14: sweeps.one.d_k\[1\]: got 8..500\*2, expected a range that ends at one of its values, such as 256$",
    ),
    **{
        f"{word} elsewhere": ("trials: 10", f"trials: 10\n    {word}: 1", f"got an unknown key, .*; {hint}")
        for word, hint in {
            "softcap": "mechanisms has this key$",
            "softcapping": "did you mean softcap in experiment: mechanisms.$",
            "rope": "did you mean position: rope in experiment: mechanisms.$",
            "window": "did you mean mask: window-512 in experiment: mechanisms.$",
            "sparsemax": "did you mean normalizer: sparsemax in experiment: mechanisms.$",
            "temperature": "did you mean scaling.$",
            "alibi": "mechanisms has this key$",
            "bias": r"no key adds another bias than alibi; row_diagnostics\(scores \+ bias, divisor\)",
            "flash": "FlashAttention has the same weights",
            "mla": "DeepSeek's MLA is a rule of scaling",
        }.items()
    },
    "window elsewhere as a value": (
        "trials: 10",
        "trials: 10\n    mask: window-8",
        "sweeps.one.mask: got window-8, expected one of none, causal; did you mean mask: window-512 in experiment",
    ),
    "misspelt experiment": (
        "saturation",
        "saturaton",
        "4:17: sweeps.one.experiment: got saturaton, expected one of .*; did you mean saturation.$",
    ),
    "trials and a precision": (
        "trials: 10",
        "trials: 10\n    precision: 0.01",
        "9:5: sweeps.one.precision: got both precision and trials, expected one of them",
    ),
    "name with a slash": ("one:", "../one:", "3:3: sweeps.../one: got the sweep name '../one', expected a letter"),
    "anchor": ("[4, 8]", "&a [4, 8]", "5:10: got an anchor or alias"),
    "second document": ("seed: 0", "seed: 0\n---\nseed: 1", "2:1: not YAML: found another document"),
    "tab": ("    d_k", "\td_k", "not YAML"),
    "too long a table": (
        "saturation",
        "rows",
        "3:3: sweeps.one: got a table of 4096000 rows, expected at most 200000$",
    ),
    "absurd size": ("[4, 8]", "1e9", "3:3: sweeps.one: got the cell d_k=1000000000, .*which needs .* GiB per worker"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_refused_at_its_place(load, name):
    old, new, expected = PLANTED[name]
    assert GOOD.count(old) >= 1
    text = GOOD.replace("trials: 10", "trials: 1000") if "long a table" in name else GOOD
    found = faults(load, text.replace(old, new, 1))
    assert any(re.search(expected if expected[0].isdigit() is False else f"^{expected}", fault) for fault in found), (
        found
    )


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_is_refused_before_the_rest_is_read(load, opening):
    """PyYAML takes time in proportion to the square of the depth of brackets: half a minute for 10,000 of them."""
    started = time.process_time()
    (fault,) = faults(load, f"seed: 0\nsweeps:\n  {opening * 10_000}")
    assert "got more than 10 levels" in fault
    assert time.process_time() - started < 5


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"[1, 2]", b"seed", b"\xff\xfe\x00", b"- seed: 0"])
def test_what_is_no_config_at_all_is_refused(load, content):
    assert faults(load, content)


@pytest.mark.parametrize(
    ("axes", "drawn", "not_drawn"),
    [
        ({}, {"metrics"}, {"variance", "length", "map"}),
        ({"d_k": "[4, 8]"}, {"variance", "saturation", "gradients"}, {"metrics", "length", "map"}),
        ({"n_keys": "[4, 8]"}, {"length"}, {"metrics", "variance", "map"}),
        ({"d_k": "[4, 8]", "n_keys": "[4, 8]"}, {"variance", "length"}, {"metrics", "map"}),
        ({"d_k": "[4, 8]", "n_keys": "[4, 8]", "scaling": "[unscaled, d_k^1/2]"}, {"length", "map"}, {"metrics"}),
    ],
)
def test_a_sweep_that_names_no_figures_gets_those_that_ask_for_its_sizes(load, axes, drawn, not_drawn):
    body = {"experiment": "saturation", "d_k": 4, "n_keys": 16, "scaling": "d_k^1/2", "trials": 10} | axes
    text = "seed: 0\nsweeps:\n  one:\n" + "".join(f"    {key}: {value}\n" for key, value in body.items())
    figures = load(text).sweeps[0].figures
    assert drawn <= set(figures)
    assert not_drawn.isdisjoint(figures)
    assert len(set(figures)) == len(figures)


VARIANTS = f"""{GOOD}    variants:
      - {{}}
      - {{key_std: [2, 3], n_keys: 5}}
      - {{correlation: 0.5, n_queries: 4}}
"""


def test_variants_have_grids_of_their_own(load):
    (sweep,) = load(VARIANTS).sweeps
    found = [(cell.d_k, cell.n_keys, cell.key_std, cell.correlation, cell.n_queries) for cell in sweep.cells()]
    textbook = [(d_k, 16, 1.0, 0.0, 64) for d_k in (4, 8)]
    spread = [(d_k, 5, std, 0.0, 64) for d_k in (4, 8) for std in (2.0, 3.0)]
    assert found == textbook + spread + [(d_k, 16, 1.0, 0.5, 4) for d_k in (4, 8)]
    assert sweep.parameters()["variants"][1] == {"n_keys": [5], "key_std": [2.0, 3.0]}
    assert "variants" not in load(GOOD).sweeps[0].parameters()


FORM = "expected a range such as 4..512*2 or 16..64+16"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4..500*2", "expected a range that ends at one of its values, such as 256"),
        ("2^2..500*2", "expected a range that ends at one of its values, such as 256"),
        ("4..512*1", f"{FORM}, which grows from its start to its end"),
        ("4..512+0", f"{FORM}, which grows from its start to its end"),
        ("512..4*2", f"{FORM}, which grows from its start to its end"),
        ("1..999999999999+1", "expected a range of at most 100000 values"),
    ],
)
def test_another_range_is_refused_with_the_nearest_end(text, message):
    with pytest.raises(ValueError, match=r"^expected a range") as refused:
        with_range(text)
    assert str(refused.value) == message


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


def any_text(examples: int):
    return lambda test: settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )(given(text=st.one_of(CONFIGS, EDITS.map(edited)))(test))


@any_text(40)
def test_any_config_is_read_or_refused(tmp_path_factory, text):
    read_or_refused(text, tmp_path_factory.getbasetemp() / "any.yaml")


@pytest.mark.faults
@any_text(1000)
def test_any_of_1000_configs_is_read_or_refused(tmp_path_factory, text):
    read_or_refused(text, tmp_path_factory.getbasetemp() / "any1000.yaml")
