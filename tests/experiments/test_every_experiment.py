"""Every experiment that there is: its tables are as declared, its cells matter, and its memory is
as planned.
"""

import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest

from experiments.declarations import figures_of
from experiments.kinds import (
    distribution,
    eight_bits,
    experiment_names,
    initialisation,
    language,
    mechanisms,
    network,
    rounding,
    saturation,
)
from experiments.measuring.chunk import Chunk, measure_chunk
from experiments.measuring.columns import cell_fields
from experiments.measuring.experiment import MEASURED, load_experiment
from sdpa import LAWS, Scaling
from sdpa.arithmetic import FORMATS
from sdpa.initialisation import Scheme
from sdpa.row_maps import NORMALIZERS

RULES = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2")))
OTHER_RULES = (Scaling.parse("d_k^1/4"), RULES[1])
HALF = FORMATS["float16"]


def test_the_tiny_config_has_every_experiment_and_every_figure(tiny):
    config, _ = tiny
    assert {sweep.experiment.name for sweep in config.sweeps} == set(experiment_names())
    for name in experiment_names():
        shown = {
            figure
            for sweep in config.sweeps
            if sweep.experiment.name == name
            for figure in sweep.figures
        }
        assert shown == set(figures_of(name))


LAW = (
    {
        "d_k": 6,
        "n_keys": 8,
        "n_queries": 4,
        "inputs": LAWS["uniform"],
        "query_std": 1.1,
        "key_std": 1.1,
    }
    | {"query_mean": 0.1, "key_mean": 0.1, "correlation": 0.1, "spectrum": 0.5, "normalize": "rms"}
    | {"mask": "causal", "scaling": OTHER_RULES}
)
SIZES = {"d_k": 5, "n_keys": 7, "n_queries": 3, "scaling": RULES}
RARE = {
    "nearly_one_rows",
    "large_rows",
    "one_rows",
    "overflowing_rows",
    "zero_gradient_rows",
    "lost_rows",
}
OF_VECTORS = {"query_variance", "key_variance"}
STAY = {
    "scaling": {"score_kurtosis", *OF_VECTORS},
    "n_queries": OF_VECTORS,
    "n_keys": OF_VECTORS,
    "residual": {"collision", "overlap", "own_weight"},
}
# Scores are those before the cap, and the entropy is that of the weights over their sum.
STAY |= {
    "softcap": {"score_variance"},
    "sink": {"score_variance", "entropy"},
    "normalizer": {"score_variance"},
}
STAY |= {"alibi": {"score_variance"}}
# A cell of each experiment, another value of each of its fields, and metrics that may stay.
CELLS = {
    "saturation": (saturation.Cell(**SIZES), LAW, {"saturated_rows"}),
    "rounding": (
        rounding.Cell(**SIZES | {"query_std": 6.0}, arithmetic=FORMATS["float16"]),
        LAW | {"arithmetic": FORMATS["bfloat16"]},
        RARE | {"wrong_gradient_rows"},
    ),
    "eight_bits": (
        eight_bits.Cell(**SIZES | {"query_std": 6.0}, arithmetic=FORMATS["float8_e4m3fn"]),
        LAW | {"arithmetic": FORMATS["float8_e5m2"], "prescale": 2.0},
        RARE | {"wrong_gradient_rows"},
    ),
    "initialisation": (
        initialisation.Cell(12, 3, 7, Scheme.parse("t5"), RULES, n_queries=5),
        {"d_model": 24, "n_heads": 4, "n_keys": 8, "n_queries": 4}
        | {"scheme": Scheme.parse("kaiming"), "scaling": OTHER_RULES},
        {"saturated_rows"},
    ),
    "language": (
        language.Cell(
            *(4, 7, 0.03, RULES), layers=2, n_heads=2, width=8, steps=30, warmup=5, n_sequences=3
        ),
        {"d_k": 6, "n_keys": 8, "learning_rate": 0.02, "scaling": OTHER_RULES}
        | {"initial": "small", "layers": 3, "n_heads": 4, "width": 12, "optimizer": "momentum"}
        | {"warmup": 4, "clip": 0.1, "steps": 29, "n_sequences": 4}
        | dict.fromkeys(("initial_divisor", "rate_divisor"), Scaling.parse("d_k^1/4")),
        {metric.name for metric in language.METRICS} - {"final_loss"},
    ),
    "mechanisms": (
        mechanisms.Cell(**SIZES | {"d_k": 4, "query_std": 3.0}),
        LAW
        | {"mask": mechanisms.MaskName("window-2"), "softcap": 2.0, "sink": mechanisms.Sink(0.0)}
        | {"normalizer": NORMALIZERS["entmax"], "position": "rope", "alibi": 0.5},
        {"visible_mass", "zero_weights"},
    ),
    "distribution": (distribution.Cell(5), {"d_k": 6}, set()),
    "network": (
        network.Cell(4, 7, RULES, n_heads=2, layers=2),
        {"d_k": 6, "n_keys": 8, "scaling": OTHER_RULES, "n_heads": 3, "layers": 3}
        | {"scheme": Scheme.parse("gpt2"), "norm": "post", "mlp": "relu", "residual": 0.5}
        | {"mask": "causal", "position": "rope", "token_cosine": 0.2},
        {"first_entropy", "first_row_variance"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "field"), [(name, field) for name, (_, other, _) in CELLS.items() for field in other]
)
def test_every_field_of_a_cell_changes_its_row(name, field):
    cell, others, may_stay = CELLS[name]
    experiment, trials = load_experiment(name), 2 if name == "language" else 31
    one, other = (
        experiment.tabulate(each, measure_chunk(Chunk(experiment, each, 0, trials), seed=0))[
            MEASURED
        ][0]
        for each in (cell, replace(cell, **{field: others[field]}))
    )
    alike = {metric.name for metric in experiment.metrics if one[metric.name] == other[metric.name]}
    assert alike <= may_stay | STAY.get(field, set())


@pytest.mark.parametrize("name", experiment_names())
def test_no_metric_bears_the_name_of_an_axis_or_a_treatment(name):
    experiment = load_experiment(name)
    assert not {metric.name for metric in experiment.metrics} & {*cell_fields(experiment.cell)}


def test_every_field_is_varied_above():
    measured = {name for name in experiment_names() if load_experiment(name).metrics}
    assert {*CELLS} == measured, "add the experiment to CELLS"
    for cell, others, _ in CELLS.values():
        assert set(others) == {field.name for field in fields(cell)}


FOUR = (*RULES, *map(Scaling.parse, ("d_k^1/3", "d_k^1")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("saturation", saturation.Cell(512, 4096, FOUR, key_mean=3.0)),
        ("saturation", saturation.Cell(4, 16384, FOUR, mask="causal")),
        ("rounding", rounding.Cell(8, 2048, RULES, mask="causal", arithmetic=HALF)),
        ("mechanisms", mechanisms.Cell(8, 2048, FOUR, softcap=5.0, position="rope")),
        ("language", language.Cell(256, 64, 0.01, RULES, steps=2)),
        ("language", language.Cell(16, 256, 0.01, RULES, n_heads=4, layers=2, steps=2)),
        ("distribution", distribution.Cell(1)),
        ("network", network.Cell(64, 128, FOUR, layers=6, mlp="swiglu")),
        ("network", network.Cell(8, 256, FOUR, layers=3)),
    ],
    ids=str,
)
def test_memory_stays_under_what_the_plan_says(name, cell):
    experiment = load_experiment(name)
    trials = min(cell.chunk_trials, 10**6)
    tracemalloc.start()
    try:
        experiment.measure(
            cell,
            trials if name not in ("rounding", "eight_bits") else min(trials, 4),
            np.random.default_rng(9),
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < cell.memory
