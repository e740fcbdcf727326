"""Every experiment that there is: its tables are as declared, its cells matter, and its memory is
as planned.
"""

import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest

from experiments.kinds import experiment_names
from experiments.kinds.distribution import cell as distribution
from experiments.kinds.initialisation import cell as initialisation
from experiments.kinds.language import cell as language
from experiments.kinds.mechanisms import cell as mechanisms
from experiments.kinds.network import cell as network
from experiments.kinds.saturation import cell as saturation
from experiments.measuring.columns import cell_fields
from experiments.measuring.experiment import MEASURED, load_experiment
from experiments.measuring.sampling import AttentionCell, SampledCell
from sdpa import LAWS, Scaling
from sdpa.initialisation import Scheme
from sdpa.row_maps import NORMALIZERS
from tests.plain_rows import RULES

OTHER_RULES = (Scaling.parse("d_k^1/4"), RULES[1])


SIZES = {"d_k": 5, "n_keys": 7, "n_queries": 3, "scaling": RULES}
LAW = {
    "d_k": 6,
    "n_keys": 8,
    "n_queries": 4,
    "scaling": OTHER_RULES,
    "inputs": LAWS["uniform"],
    "query_std": 1.1,
    "key_std": 1.1,
    "query_mean": 0.1,
    "key_mean": 0.1,
    "correlation": 0.1,
    "spectrum": 0.5,
    "normalize": "rms",
    "mask": "causal",
}
# A cell of each experiment, and another value of each of its fields.
CELLS = {
    "saturation": (saturation.Cell(**SIZES), LAW),
    "initialisation": (
        initialisation.Cell(12, 3, 7, Scheme.parse("t5"), RULES, n_queries=5),
        {
            "d_model": 24,
            "n_heads": 4,
            "n_keys": 8,
            "n_queries": 4,
            "scheme": Scheme.parse("kaiming"),
            "scaling": OTHER_RULES,
        },
    ),
    "language": (
        language.Cell(
            *(4, 7, 0.03, RULES), layers=2, n_heads=2, width=8, steps=6, warmup=5, n_sequences=3
        ),
        {
            "d_k": 6,
            "n_keys": 8,
            "learning_rate": 0.02,
            "scaling": OTHER_RULES,
            "initial": "small",
            "initial_divisor": Scaling.parse("d_k^1/4"),
            "rate_divisor": Scaling.parse("d_k^1/4"),
            "layers": 3,
            "n_heads": 4,
            "width": 12,
            "optimizer": "momentum",
            "warmup": 4,
            "clip": 0.1,
            "steps": 5,
            "n_sequences": 4,
            "normalize": "rms",
            "gain": "learned",
            "softcap": 2.0,
            "normalizer": NORMALIZERS["sigmoid"],
        },
    ),
    "mechanisms": (
        mechanisms.Cell(**SIZES | {"d_k": 4, "query_std": 3.0}),
        LAW
        | {
            "mask": mechanisms.MaskName("window-2"),
            "softcap": 2.0,
            "sink": mechanisms.Sink(0.0),
            "normalizer": NORMALIZERS["sigmoid"],
        },
    ),
    "distribution": (distribution.Cell(5), {"d_k": 6}),
    "network": (
        network.Cell(4, 7, RULES, n_heads=2, layers=2),
        {
            "d_k": 6,
            "n_keys": 8,
            "scaling": OTHER_RULES,
            "n_heads": 3,
            "layers": 3,
            "scheme": Scheme.parse("gpt2"),
            "output_scale": "depth",
            "norm": "post",
            "mlp": "relu",
            "residual": 0.5,
            "mask": "causal",
            "position": "rope",
            "token_cosine": 0.2,
        },
    ),
}


@pytest.mark.parametrize("name", CELLS)
def test_every_field_of_a_cell_changes_its_row(name):
    """With the random numbers of the same generator, so that no change is one of the draws."""
    cell, others = CELLS[name]
    experiment = load_experiment(name)
    assert {*others} == {field.name for field in fields(cell)}

    def row_of(one):
        measured = experiment.measure(one, 2, np.random.default_rng(0))
        return experiment.tabulate(one, measured)[MEASURED][0]

    usual = row_of(cell)
    for field, value in others.items():
        row = row_of(replace(cell, **{field: value}))
        metrics = [metric.name for metric in experiment.metrics]
        assert any(row[metric] != usual[metric] for metric in metrics), field


def test_every_experiment_is_among_these_and_names_no_metric_like_an_axis():
    experiments = {name: load_experiment(name) for name in experiment_names()}
    assert {*CELLS} == {name for name, one in experiments.items() if one.metrics}
    for one in experiments.values():
        assert not {metric.name for metric in one.metrics} & {*cell_fields(one.cell)}


def test_rows_of_a_draw_count_as_independent_only_if_the_cell_says_so():
    layer = initialisation.Cell(16, 4, 9, Scheme.parse("t5"), (), n_queries=8)
    row = SampledCell(d_k=4, n_keys=9, n_queries=8, scaling=())
    assert (layer.separate_rows, row.separate_rows) == (8, 8)
    for parallel in (
        replace(layer, n_heads=16),
        replace(row, d_k=1),
        replace(row, spectrum=9.0),
        type("Own", (AttentionCell,), {"n_keys": 9, "n_queries": 8})(),
    ):
        assert parallel.separate_rows == 1


FOUR = (*RULES, *map(Scaling.parse, ("d_k^1/3", "d_k^1")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("saturation", saturation.Cell(4, 16384, FOUR, mask="causal")),
        ("mechanisms", mechanisms.Cell(8, 2048, RULES, softcap=5.0)),
        ("language", language.Cell(16, 256, 0.01, RULES, n_heads=4, layers=2, steps=2)),
        ("distribution", distribution.Cell(1)),
        ("network", network.Cell(64, 128, FOUR, layers=6, mlp="swiglu")),
    ],
    ids=str,
)
def test_memory_stays_under_what_the_plan_says(name, cell):
    experiment = load_experiment(name)
    trials = min(cell.chunk_trials, 10**6)
    tracemalloc.start()
    try:
        experiment.measure(cell, trials, np.random.default_rng(9))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < cell.memory
