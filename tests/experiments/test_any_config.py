"""Generated configs: whatever is swept, tables and figures come out, and in the slow test files and a page too."""

import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from experiments.figures.declared import FIGURES, figures_of
from experiments.figures.rendering import draw
from experiments.figures.words import plain_caption
from experiments.folders import figure_path
from experiments.harness.config import Config, load_config
from experiments.harness.local import LocalWorkers
from experiments.harness.tables import read_sweep
from experiments.steps import sweeps as steps
from experiments.steps.measuring import measure
from sdpa import LAWS
from sdpa.arithmetic import FORMATS
from sdpa.initialisation import SCHEMES

RULES = ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3", "d_k^1", "d_k^0.9", "d_k^3/2", 8, "d_k^1/2/ln(n_keys)")


def axis(values: st.SearchStrategy, most: int = 3) -> st.SearchStrategy:
    """A single value or a list of different ones."""
    return values | st.lists(values, min_size=1, max_size=most, unique=True)


SIZES = {
    "d_k": axis(st.sampled_from([1, 2, 3, 8, 64, 300])),
    "n_keys": axis(st.sampled_from([2, 3, 7, 40])),
    "scaling": axis(st.sampled_from(RULES), most=len(RULES)),
}
INPUTS = {
    "n_queries": axis(st.sampled_from([1, 2, 5]), most=2),
    "inputs": axis(st.sampled_from(list(LAWS)), most=2),
    "query_std": axis(st.sampled_from([0.1, 1, 3, 30]), most=2),
    "key_std": axis(st.sampled_from([0.1, 30]), most=2),
    "query_mean": st.sampled_from([0, 0.5, -10]),
    "key_mean": st.sampled_from([0, 0.5, -10]),
    "spectrum": st.sampled_from([0, 0.5, 2]),
    "normalize": st.sampled_from(["none", "l2", "rms"]),
}


def figures(experiment: str) -> st.SearchStrategy:
    names = figures_of(experiment)
    return axis(st.sampled_from(names), most=2) if names else st.nothing()


SATURATION = st.fixed_dictionaries(
    {"experiment": st.just("saturation"), **SIZES, "trials": st.sampled_from([2, 3, 19, 20, 60])},
    optional={**INPUTS, "figures": figures("saturation")},
)
ROWS = st.fixed_dictionaries(
    {"experiment": st.just("rows"), **SIZES, "trials": st.integers(1, 3)},
    optional={**INPUTS, "figures": figures("rows")},
)
DISTRIBUTION = st.fixed_dictionaries(
    {"experiment": st.just("distribution"), "d_k": SIZES["d_k"], "trials": st.sampled_from([20, 21, 3000])}
)
INITIALISATION = st.fixed_dictionaries(
    {
        "experiment": st.just("initialisation"),
        "d_model": axis(st.sampled_from([8, 64]), most=2),
        "n_heads": axis(st.sampled_from([1, 2, 8]), most=2),
        "n_keys": axis(st.sampled_from([5, 40]), most=2),
        "n_queries": st.sampled_from([1, 5]),
        "scheme": axis(st.sampled_from(list(SCHEMES)), most=2),
        "scaling": SIZES["scaling"],
        "trials": st.sampled_from([2, 20, 60]),
    },
    optional={"figures": figures("initialisation")},
)
ROUNDING = st.fixed_dictionaries(
    {
        "experiment": st.just("rounding"),
        **SIZES,
        "arithmetic": axis(st.sampled_from(list(FORMATS)), most=4),
        "trials": st.sampled_from([2, 20]),
    },
    optional={**INPUTS, "figures": figures("rounding")},
)
TRAINING = st.fixed_dictionaries(
    {
        "experiment": st.just("training"),
        "task": axis(st.sampled_from(["recall", "pair"]), most=2),
        "d_k": axis(st.sampled_from([1, 2, 8, 300]), most=2),
        "n_keys": axis(st.sampled_from([2, 7]), most=2),
        "learning_rate": axis(st.sampled_from([1e-9, 0.01, 1, 1e6])),
        "scaling": SIZES["scaling"],
        "steps": st.sampled_from([10, 13, 40]),
        "trials": st.sampled_from([2, 3, 20]),
    },
    optional={
        "optimizer": axis(st.sampled_from(["adam", "sgd"]), most=2),
        "initial": axis(st.sampled_from(["unit", "small"]), most=2),
        "n_sequences": st.sampled_from([2, 5]),
        "figures": figures("training"),
    },
)
SWEEP = st.one_of(SATURATION, ROWS, DISTRIBUTION, INITIALISATION, ROUNDING, TRAINING)


def configs(sweeps: st.SearchStrategy) -> st.SearchStrategy:
    named = st.dictionaries(st.sampled_from("abc"), sweeps, min_size=1, max_size=2)
    return st.fixed_dictionaries({"seed": st.integers(0, 3), "sweeps": named})


def measured(config: dict, folder: Path) -> Config:
    """Measure and check a config in an empty folder, and find a table for every sweep."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "any.yaml"
    path.write_text(yaml.safe_dump(config))
    loaded = load_config(path)
    measure(loaded, loaded.sweeps, folder, LocalWorkers(1))
    steps.check(loaded, loaded.sweeps, folder)
    assert all((folder / f"{sweep.name}.csv").exists() for sweep in loaded.sweeps)
    return loaded


def assert_sound(caption: str) -> None:
    assert "nan" not in caption
    assert "inf" not in caption.split()


def run_tables(config: dict, folder: Path) -> None:
    """Measure and check, and make every figure without the second that its layout and its files take."""
    loaded = measured(config, folder)
    for sweep in loaded.sweeps:
        tables = read_sweep(folder, loaded, sweep)
        for figure in map(FIGURES.get, sweep.figures):
            assert_sound(plain_caption(figure, tables))
        for figure in map(FIGURES.get, sweep.figures[:1]):
            draw(figure, tables)


def run_whole(config: dict, folder: Path) -> None:
    """Measure, check, draw and write the page, and find a file for everything that the config asks for."""
    loaded = measured(config, folder)
    steps.draw(loaded, loaded.sweeps, folder, jobs=1)
    steps.write_page(loaded, folder, folder / "any.yaml")
    page = (folder / "index.html").read_text(encoding="utf-8")
    for sweep in loaded.sweeps:
        for figure in sweep.figures:
            assert f'id="{sweep.name}-{figure}"' in page
            assert_sound(figure_path(folder, sweep.name, figure, ".txt").read_text())


def any_config(examples: int, of: st.SearchStrategy = SWEEP):
    # A run takes seconds, so that a failing config is shown as it is instead of shrunk.
    phases = (Phase.explicit, Phase.generate)
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    options = {"deadline": None, "derandomize": True, "suppress_health_check": checks, "phases": phases}
    return lambda test: settings(max_examples=examples, **options)(given(config=configs(of))(test))


@pytest.mark.usefixtures("in_this_process")
@any_config(2)
def test_a_generated_config_has_its_tables_and_figures(tmp_path_factory, config):
    run_tables(config, tmp_path_factory.getbasetemp() / "any")


@pytest.mark.edits
@pytest.mark.usefixtures("in_this_process", "quick_slider")
@any_config(60)
def test_any_of_60_generated_configs_runs(tmp_path_factory, config):
    run_whole(config, tmp_path_factory.getbasetemp() / "any60")
