"""The experiment `network`: its rows and gradients against the one-layer kernels, and its law."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

from experiments.config.sweep import Sweep
from experiments.kinds.network.cell import EXPERIMENT, LAYERS, Cell, measure, tabulate
from experiments.kinds.network.layer import LAYER_VALUES
from experiments.kinds.network.tables import BY_LAYER, law_of, with_law
from experiments.measuring.experiment import MEASURED
from experiments.tables.analyse import agreement
from experiments.tables.results import Results
from experiments.tables.rows import tabulated
from sdpa import Scaling
from sdpa.initialisation import Scheme
from sdpa.theory import attention_expectations
from tests.plain_layers import values_of_layers
from tests.plain_rows import RULES

SMALL = Cell(d_k=4, n_keys=7, scaling=RULES, n_heads=3, layers=2)
STACKS = {
    "attention alone": replace(SMALL, token_cosine=0.4),
    "causal, relu, RoPE": replace(SMALL, mask="causal", mlp="relu", position="rope"),
    "swiglu, post-norm": replace(SMALL, mlp="swiglu", norm="post"),
    "relu, post-norm, weak stream": replace(SMALL, mlp="relu", norm="post", residual=0.5),
    "swiglu, no stream": replace(SMALL, mlp="swiglu", residual=0.0),
}


@pytest.mark.parametrize("name", STACKS)
def test_every_value_of_a_layer_is_that_of_its_definition(name):
    cell = STACKS[name]
    rng = default_rng(3)
    one, other = (measure(cell, 1, rng) for _ in range(2))
    table = tabulate(cell, one.merge(other))[LAYERS]
    rng = default_rng(3)
    drawn = []
    for _ in range(2):
        shared, own = rng.standard_normal(cell.width), rng.standard_normal((7, cell.width))
        x = cell.token_cosine**0.5 * shared + (1 - cell.token_cosine) ** 0.5 * own
        drawn.append((x, [cell.block(rng) for _ in range(2)], rng.standard_normal(x.shape)))
    pairs = []
    for design in cell.designs():
        pairs += zip(*(values_of_layers(*one, design) for one in drawn), strict=True)
    for row, (one, other) in zip(table, pairs, strict=True):
        assert {column.name for column in LAYER_VALUES} == {*one}
        for name in one:
            value, error = (one[name] + other[name]) / 2, abs(one[name] - other[name]) / 2
            assert row[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
            assert row[f"{name}_se"] == pytest.approx(error, rel=1e-6, abs=1e-9), name


def test_rope_has_the_base_10_000():
    assert {one.rope_base for one in STACKS["causal, relu, RoPE"].designs()} == {10_000}


def test_the_main_table_is_the_ends_of_the_table_of_layers():
    tables = tabulate(SMALL, measure(SMALL, 5, default_rng(1)))
    layers = tables[LAYERS]
    for row, first, last in zip(tables[MEASURED], layers[::2], layers[1::2], strict=True):
        expected = {"stream_gradient_growth": first["stream_gradient"] ** 0.5}
        for end, layer in (("first", first), ("last", last)):
            expected[f"{end}_query_gradient_norm"] = layer["query_gradient"] ** 0.5
            expected[f"{end}_query_gradient_norm_median"] = layer["query_gradient_median"]
            expected |= {f"{end}_{name}": layer[name] for name in ("entropy", "row_variance")}
        assert {name: row[name] for name in expected} == pytest.approx(expected)


WIDE = Cell(d_k=32, n_keys=12, scaling=RULES, n_heads=12, layers=3)
LAWS = {
    "pre-norm, weak stream": replace(WIDE, residual=0.5),
    "post-norm, alike tokens": replace(WIDE, norm="post", token_cosine=0.4),
    "output over sqrt(2 layers)": replace(WIDE, output_scale="depth"),
    "small start": replace(WIDE, scheme=Scheme.parse("xavier_packed")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_the_law_holds_for_many_heads(name):
    """20 stacks of 12 heads: within six standard errors, and 5% of squares or .01 of cosines for
    the finite width (12 tokens in a stream of 384).

    By chance alone (Student's t, 19 degrees of freedom), one of all 108 values is beyond six
    standard errors with a probability of 0.2%.
    """
    cell = LAWS[name]
    layers = tabulate(cell, measure(cell, 20, default_rng(6)))[LAYERS]
    laws = [layer for of_rule in cell.by_rule() for layer in law_of(of_rule)]
    names = ("stream", "cosine", "collision", "stream_gradient", "gradient_cosine")
    for row, law in zip(layers, laws, strict=True):
        for value in (*names, "query_gradient"):
            expected = getattr(law, value)
            slack = 0.01 if "cosine" in value else 0.05 * expected
            assert abs(row[value] - expected) <= 6 * row[f"{value}_se"] + slack, value


def test_matrices_have_the_variance_1_over_their_rows():
    """W_O and the last matrix of an MLP also over 2 layers: what the check cannot tell within 5%."""
    cell = replace(WIDE, output_scale="depth", mlp="swiglu")
    matrices = vars(cell.block(default_rng(2)))
    actual = {name: w.var() * len(w) for name, w in matrices.items() if w is not None}
    expected = dict.fromkeys(actual, 1.0) | dict.fromkeys(["output", "down"], 1 / 6)
    assert actual == pytest.approx(expected, rel=0.02)


def test_the_law_of_one_layer_is_the_sum_of_its_exact_squares():
    """Past it, and through values, keys and queries of independent tokens."""
    (layer,) = law_of(replace(WIDE, layers=1, scaling=(Scaling.parse("2"),)))
    exact = attention_expectations(32, 12, 2.0)
    ways = exact.output_std, exact.key_gradient_norm, exact.query_gradient_norm
    assert layer.stream_gradient == pytest.approx(1 + sum(way**2 for way in ways), rel=1e-5)


FAULTS = {
    "none": lambda block: block,
    "growth times 1.1": lambda block: block,
    "W_V times 1.1": lambda block: replace(block, value=1.1 * block.value),
    "W_K = W_Q": lambda block: replace(block, key=block.query),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_check_finds_what_is_beyond_the_law(fault, monkeypatch):
    drawn = Cell.block
    monkeypatch.setattr(Cell, "block", lambda *of: FAULTS[fault](drawn(*of)))
    cell = Cell(d_k=32, n_keys=16, scaling=RULES, layers=2)
    measured = measure(cell, 40, default_rng(5))
    tables = tabulated(EXPERIMENT, [cell], [measured])
    if "growth" in fault:
        tables[MEASURED]["stream_gradient_growth"] *= 1.1
    values = {name: (value,) for name, value in vars(cell).items()} | {"scaling": RULES}
    results = Results(Sweep("mine", EXPERIMENT, values, 40, (), 0), tables)
    results[BY_LAYER] = with_law(results)
    actual = agreement([results])
    assert len(actual.values) == 10  # growth, streams and collisions
    assert bool(actual.alarm()) == (fault != "none"), actual.alarm()


def test_other_networks_have_no_law():
    causal = replace(WIDE, mask="causal")
    assert np.isnan([*law_of(causal.by_rule()[0])]).all()
    assert len([*law_of(causal.by_rule()[0])]) == causal.layers
