"""Configs that are read, and faults that are refused with their line and column."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.config.loader import ConfigError, load_config
from tests.shipped import ROOT

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
    def loaded(text):
        path = tmp_path / "config.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(path)

    return loaded


def faults(load, text):
    """The messages of a refused config, each as LINE:COLUMN: message."""
    with pytest.raises(ConfigError) as refused:
        load(text)
    lines = str(refused.value).splitlines()
    assert all(re.match(r".*config\.yaml:\d+:\d+: .", line) for line in lines)
    return [re.sub(r"^.*?config\.yaml:", "", line) for line in lines]


def test_numbers_have_short_forms(load):
    text = GOOD.replace("[4, 8]", "[4..16*2, 100, 2^5, 40..60+10, 24/2, +7]")
    text = text.replace("n_keys: 16", "n_keys: 4.0")
    (sweep,) = load(f"{text}    key_std: [1e-3, 1/3, .5]\n").sweeps
    assert sweep.values["d_k"] == (4, 8, 16, 100, 32, 40, 50, 60, 12, 7)
    assert sweep.values["n_keys"] == (4,)
    assert sweep.values["key_std"] == (1e-3, 1 / 3, 0.5)


# One edit of the good config each, with the place and the words of the fault that it must give.
PLANTED = [
    ("experiment: saturation", "n_queries: 1", "3:3: .*experiment: missing key; expect"),
    ("n_keys", "n_key", "6:5: .*n_key: got an unknown key; did you mean n_keys"),
    ("n_keys", "n_keys: 16\n    n_kv_heads", "7:5: .*n_kv_heads: got an unknown key; .* n_queries"),
    ("n_keys", "n_keys: 16\n    num_key_value_heads", "7:5: .*errors come from trials: leave it"),
    (
        "saturation",
        "network\n    n_kv_heads: 2",
        "5:5: .*key, expected none: every head has keys of",
    ),
    ("[4, 8]", "[4, 0]", r"5:14: sweeps.one.d_k\[1\]: got 0, expected at least 1$"),
    ("[4, 8]", "[4, 8, 4.0]", r"5:17: .*d_k\[2\]: got 4.0, expected each value once; \[0\] is 4$"),
    ("d_k: [4, 8]", "d_k: 4\n    d_k: 8", "6:5: .*d_k: got a duplicate key, .*line 5$"),
    ("saturation", "saturaton", "4:17: .*got saturaton, .*mean saturation.$"),
    (
        "trials: 10",
        "trials: 10\n    precision: 0.01",
        "9:5: sweeps.one.precision: got both precision and trials, expected one of them$",
    ),
    ("10\n", "10\n    max_trials: 20\n", "9:5: .*got max_trials without precision"),
    ("trials", "variants: [{scaling: 8}]\n    trials", "8:17: .*got an unknown key, [^;]*$"),
    # YAML 1.1 reads this as false
    ("[4, 8]", "no", "5:10: .*d_k: got no, expected a whole number such as"),
    ("[4, 8]", "'8k'", "5:10: .*d_k: got '8k', expected a whole number such as"),
    ("[4, 8]", "1/0", "5:10: .*d_k: got 1/0, expected a whole number such as"),
    ("[4, 8]", "2^2..500*2", "5:10: .*range that ends at one of its values, such as 256$"),
    ("[4, 8]", "512..4+2", r"5:10: .*or 16\.\.64\+16, which grows from its start to its end$"),
    ("[4, 8]", "1..100001+1", "5:10: .*range of at most 100000 values$"),
    ("[4, 8]", "range(4, 8)", r"5:10: .*, expected a whole number .* 2\^6, or a range [^;]*$"),
    ("[4, 8]", "4, 8", r"5:10: .*got 4, 8, .*; a list stands in \[ \]$"),
    (
        "d_k^1/2]",
        "max(8, d_k^1/2)]",
        "7:25: .*got max.8, .*; in a list, a rule with a comma stands in",
    ),
    ("    n_keys", "   n_keys", "6:4: not YAML: wrong indentation, expected all keys"),
    ("[4, 8]", "[]", "5:10: .*d_k: got an empty list, expected at least one value$"),
    ("[unscaled, d_k^1/2]", "{a: 1}", "7:5: .*scaling: got a mapping, expected (?!.*got)"),
    ("one:", "../one:", "3:3: .*got the sweep name '../one', expected a letter"),
    (
        "one:",
        "models:",
        "3:3: .*got the sweep name 'models', .* none of columns, examples, models, arms, .*$",
    ),
    (
        "trials",
        "query_std: [1.00000000001, 1.00000000002]\n    trials",
        ".*query_std=1.00000000001 twice, to ten digits, expected each cell once$",
    ),
    ("trials", "variants: [{mask: causal}]\n    trials", "8:5: .*got a mask without n_queries"),
    ("seed: 0", "seed: 0\n---\nseed: 1", "2:1: not YAML: found another"),
    ("[4, 8]", "1..60000+1", "3:3: .*got a grid of 120000 cells and scalings"),
    ("10\n", "1e12\n", "3:3: .*got 1000000000000 trials in .* chunks of work"),
    (
        "trials",
        "mask: causal\n    n_queries: 99\n    trials",
        "9:16: .*n_queries: got 99, expected at most n_keys = 16 beside a mask",
    ),
]


@pytest.mark.parametrize("old, new, expected", PLANTED)
def test_a_planted_fault_is_refused_at_its_place(load, old, new, expected):
    assert old in GOOD
    (actual,) = faults(load, GOOD.replace(old, new, 1))
    assert re.match(expected, actual)


def test_all_faults_are_reported_at_once(load):
    text = (
        GOOD.replace("seed: 0", "seed: -1").replace("n_keys", "n_key").replace("[4, 8]", "[0, x]")
    )
    places = [fault.split(" ")[0] for fault in faults(load, text)]
    assert places == ["1:7:", "5:11:", "5:14:", "6:5:"]


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"\xff\xfe\x00"])
def test_what_is_no_config_at_all_is_refused(load, content):
    assert faults(load, content)


def test_variants_have_grids_of_their_own(load):
    variants = "[{}, {key_std: [2, 3], n_keys: 5}, {correlation: 0.5, n_queries: 4}]"
    (sweep,) = load(f"{GOOD}    variants: {variants}\n").sweeps
    actual = [(cell.d_k, cell.n_keys, cell.key_std, cell.correlation) for cell in sweep.cells]
    assert actual == [
        *((d_k, 16, 1, 0) for d_k in (4, 8)),
        *((d_k, 5, key_std, 0) for d_k in (4, 8) for key_std in (2, 3)),
        *((d_k, 16, 1, 0.5) for d_k in (4, 8)),
    ]
    assert sweep.parameters()["variants"][1] == {"n_keys": [5], "key_std": [2.0, 3.0]}
    assert "variants" not in load(GOOD).sweeps[0].parameters()
    assert sweep.trials == 10


NEW = st.text(max_size=8) | st.sampled_from(["[", "{", "- ", ": ", "\n", "2^3", "4..15*2"])
EDITS = st.lists(st.tuples(st.integers(0, 800), st.integers(0, 40), NEW), min_size=1, max_size=4)


@settings(max_examples=50, suppress_health_check=[*HealthCheck])
@given(edits=EDITS)
def test_any_edit_of_a_config_is_read_or_refused(load, edits):
    text = (ROOT / "quick.yaml").read_text()
    for place, length, new in edits:
        text = text[:place] + new + text[place + length :]
    try:
        load(text.encode(errors="surrogatepass"))
    except ConfigError:
        assert faults(load, text.encode(errors="surrogatepass"))
