"""Configs: what is read, and what is refused, with its line and column."""

import re
import sys
import time

import pytest

from experiments.claims.table import CONFIG as CLAIMS_CONFIG
from experiments.harness.config import ConfigError, load_config
from experiments.harness.files import STORED_CONFIG
from sdpa import Scaling
from tests.shipped import RESULTS, ROOT

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
    ("written", "value"),
    [
        ("1e-3", 1e-3),
        ("1/3", 1 / 3),
        (".5", 0.5),
        ("2", 2.0),
        ("1.5e2", 150.0),
        ("5.", None),
        ("1.5/2", None),
        ("1/2e1", None),
        ("1/0", None),
    ],
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
        ("8..24+8", (8, 16, 24)),
        ("[8..24+8]", (8, 16, 24)),
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
    ("written", "names"),
    [
        ("[8, 0.5, 1]", ["8", "0.5", "unscaled"]),
        ("8", ["8"]),
        ("[1/3, 1e-3, 1e-7]", ["1/3", "0.001", "0.0000001"]),
        ("'8'", ["8"]),
        ("[sqrt(d_k), 2*d_k**0.5, d_k]", ["d_k^1/2", "2*d_k^1/2", "d_k^1"]),
        ("d_k^1/2/0.43/ln(n_keys)", ["d_k^1/2/0.43/ln(n_keys)"]),
    ],
)
def test_rules_may_be_written_so(load, written, names):
    (sweep,) = load(GOOD.replace("[unscaled, d_k^1/2]", written)).sweeps
    assert sweep.parameters()["scaling"] == names


@pytest.mark.parametrize(
    "written", ["010", "0x10", "1_000", "no", "1:30", "2026-01-01", "'8'", ".inf", "~", "1e999", "8 9"]
)
def test_yaml_traps_do_not_change_meaning_silently(load, written):
    expected = f"5:10: sweeps.one.d_k: got {written}, expected a valid whole number"
    assert faults(load, GOOD.replace("[4, 8]", written)) == [expected.replace("valid whole", "whole")]


# One edit of the good config each, with the place and the words of the fault that it must give.
PLANTED = {
    "unknown key at the top": ("seed: 0", "seed: 0\nsede: 1", "2:1: got the unknown key 'sede'"),
    "missing trials": ("    trials: 10\n", "", "3:3: sweeps.one.trials: missing key"),
    "misspelt key": ("n_keys", "n_key", "6:5: sweeps.one: got the unknown key 'n_key', .*did you mean n_keys"),
    "zero d_k": ("[4, 8]", "[4, 0]", r"5:14: sweeps.one.d_k\[1\]: got 0, expected at least 1"),
    "d_k that is text": ("[4, 8]", "[4, many]", r"5:14: sweeps.one.d_k\[1\]: got many, expected a whole number"),
    "empty axis": ("[4, 8]", "[]", "5:10: sweeps.one.d_k: got an empty list, expected at least one value"),
    "duplicate value": ("[4, 8]", "[4, 8, 4.0]", r"5:17: sweeps.one.d_k\[2\]: got 4.0, expected each value once"),
    "duplicate key": ("d_k: [4, 8]", "d_k: 4\n    d_k: 8", "6:5: sweeps.one.d_k: got a duplicate key, .*line 5"),
    "unknown scaling": (
        "unscaled",
        "none",
        r"7:15: sweeps.one.scaling\[0\]: got none, expected 'unscaled' or a product .*; did you mean unscaled\?$",
    ),
    "rule that multiplies": (
        "d_k^1/2",
        "1/sqrt(d_k)",
        r"7:25: sweeps.one.scaling\[1\]: got 1/sqrt\(d_k\), expected no negative power of d_k, because the rule "
        r"divides the scores; did you mean d_k\^1/2\?$",
    ),
    "range that misses its end": (
        "[4, 8]",
        "[4, 8..500*2]",
        r"5:14: sweeps.one.d_k\[1\]: got 8..500\*2, expected a range that ends at .*, such as 256$",
    ),
    "misspelt experiment": (
        "saturation",
        "saturaton",
        "4:17: sweeps.one.experiment: got 'saturaton', expected one of .*; did you mean saturation.$",
    ),
    "number format as a precision": (
        "trials: 10",
        "precision: float32",
        r"8:16: sweeps.one.precision: got float32, expected a valid number; did you mean arithmetic: float32\?$",
    ),
    "key of another experiment": (
        "trials: 10",
        "trials: 10\n    n_heads: 8",
        r"9:5: sweeps.one: got the unknown key 'n_heads', .*; initialisation has this key$",
    ),
    "no trials but a most": (
        "trials: 10",
        "max_trials: 100",
        "8:5: sweeps.one.max_trials: got max_trials without precision, expected both",
    ),
    "trials and a precision": (
        "trials: 10",
        "trials: 10\n    precision: 0.01",
        "9:5: sweeps.one.precision: got both precision and trials, expected one of them",
    ),
    "name with a slash": ("one:", "../one:", "3:3: sweeps.../one: got the sweep name '../one', expected a letter"),
    "reserved name": ("one:", "columns:", "3:3: sweeps.columns: got the sweep name 'columns', expected a name that"),
    "anchor": ("[4, 8]", "&a [4, 8]", "5:10: got an anchor or alias"),
    "alias": ("[4, 8]", "*a", "5:10: got an anchor or alias"),
    "merge key": ("n_keys", "<<", "6:5: sweeps.one: got the unknown key '<<'"),
    "second document": ("seed: 0", "seed: 0\n---\nseed: 1", "2:1: got a second document"),
    "control character": ("one:", "o\x00ne:", "3:4: got the character U\\+0000"),
    "tag": ("16", "!!python/object:os.system 16", "6:13: got the tag tag:yaml.org,2002:python/object:os.system"),
    "tab": ("    d_k", "\td_k", "not YAML"),
    "a list as a key": ("n_keys: 16", "? [a]\n    : 16", "6:7: got a list or mapping as a key"),
    "too long a table": (
        "saturation",
        "rows",
        "3:3: sweeps.one: got a table of 4096000 rows, expected at most 200000$",
    ),
    "too many chunks": (
        "trials: 10",
        "trials: 1e12",
        "3:3: sweeps.one: got 1000000000000 trials in .* chunks of work, expected at most 500000 chunks$",
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


ROUNDING = GOOD.replace("saturation", "rounding")


def test_saturation_takes_two_formats_and_refuses_others_at_their_place(load):
    (found,) = faults(load, f"{GOOD}    arithmetic: bfloat16\n")
    assert re.match(
        r"9:17: sweeps\.one\.arithmetic: expected float64 or float32 \(the experiment rounding takes all formats\), "
        r"got bfloat16",
        found,
    )
    assert len(load(f"{GOOD}    arithmetic: [float64, float32]\n").sweeps[0].cells()) == 4


def test_bfloat16_without_its_package_is_refused_at_its_place(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    (found,) = faults(load, f"{ROUNDING}    arithmetic: [float16, bfloat16]\n")
    assert found == (
        "9:27: sweeps.one.arithmetic[1]: got bfloat16, expected the package ml_dtypes beside bfloat16; "
        "install it with: pip install ml_dtypes"
    )
    others = load(f"{ROUNDING}    arithmetic: [float64, float32, float16]\n")
    assert len(others.sweeps[0].cells()) == 6


def test_every_fault_is_said_at_once(load):
    text = """\
sede: 0
sweeps:
  one:
    experiment: saturation
    d_k: [4, 0, x]
    n_keys: 16
    scaling: [d_k^2/4, d_k^1/2]
    trials: 1
    trails: 10
  Two:
    experiment: saturation
    scaling: nothing
  two:
    experiment: rows
    d_k: 4
    n_keys: 4
    scaling: unscaled
    trials: 1
    figures: [variance, variance]
"""
    places = [fault.split(" ")[0] for fault in faults(load, text)]
    assert places == [
        "1:1:", "1:1:", "5:14:", "5:17:", "7:24:", "8:13:", "9:5:",
        "10:3:", "10:3:", "10:3:", "10:3:", "12:14:", "13:3:", "19:15:", "19:25:",
    ]  # fmt: skip


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


def test_a_config_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot read: No such file"):
        load_config(tmp_path / "none.yaml")


@pytest.mark.parametrize("path", [ROOT / "quick.yaml", RESULTS / STORED_CONFIG, CLAIMS_CONFIG], ids=str)
def test_the_shipped_configs_are_good(path):
    assert load_config(path).sweeps


@pytest.mark.parametrize(
    ("axes", "drawn", "not_drawn"),
    [
        ({}, {"metrics"}, {"variance", "length", "map"}),
        ({"key_std": "[1, 2]"}, {"metrics"}, {"variance", "length", "map"}),
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


def test_a_digest_is_of_what_is_swept_and_drawn(load):
    digest = load(GOOD).digest
    assert load(f"# a remark\n{GOOD}").digest == load(GOOD.replace("[4, 8]", "[4,  8]")).digest == digest
    changes = [("seed: 0", "seed: 1"), ("one:", "two:"), ("trials: 10", "trials: 11"), ("[4, 8]", "[8, 4]")]
    others = [load(GOOD.replace(old, new)).digest for old, new in changes]
    others.append(load(f"{GOOD}    figures: metrics\n").digest)
    assert len({digest, *others}) == 6


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


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("{}\n", "{key_std: x}\n", "sweeps.one.variants[0].key_std: got x, expected a valid number"),
        ("{}\n", "{key_sdt: 2}\n", "sweeps.one.variants[0]: got the unknown key 'key_sdt'"),
        ("{}\n", "{scaling: unscaled}\n", "sweeps.one.variants[0]: got the unknown key 'scaling'"),
        ("{}\n", "{correlation: 0.5, n_queries: 4}\n", "sweeps.one.variants: got the cell d_k=4"),
        (
            "correlation: 0.5, n",
            "correlation: 0.5, normalize: l2, n",
            "sweeps.one.correlation: expected normalize none",
        ),
    ],
)
def test_faults_in_variants_are_named(load, old, new, expected):
    assert any(expected in fault for fault in faults(load, VARIANTS.replace(old, new)))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("correlation: 0.5\n    normalize: l2", "sweeps.one.correlation: expected normalize none beside it, got l2"),
        (
            "correlation: 0.5\n    n_queries: 17",
            "one.correlation: expected n_queries (64 by default) of at most n_keys",
        ),
        (
            "mask: causal\n    n_queries: 17",
            "one.mask: expected n_queries (64 by default) of at most n_keys beside it, got n_queries = 17",
        ),
        ("correlation: 1.5", "sweeps.one.correlation: got 1.5, expected at most 1"),
        ("normalize: L2", "sweeps.one.normalize: got L2, expected one of none, l2, rms; did you mean l2?"),
        ("mask: casual", "sweeps.one.mask: got casual, expected one of none, causal; did you mean causal?"),
    ],
)
def test_keys_that_exclude_each_other_are_refused(load, keys, expected):
    assert any(expected in fault for fault in faults(load, f"{GOOD}    {keys}\n"))
