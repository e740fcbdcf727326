"""Generated configs, each run from measuring to the page: whatever is swept, tables, figures and page come out."""

import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from experiments.harness import run
from experiments.harness.config import load_config
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.paths import figure_path
from experiments.harness.store import measure_record
from experiments.page import strip
from experiments.steps import sweeps as steps
from sdpa import LAWS

RULES = ("unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3", "d_k^1", "d_k^0.9", "d_k^3/2")


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
    "input_std": axis(st.sampled_from([0.1, 1, 3, 30]), most=2),
}


def figures(experiment: str) -> st.SearchStrategy:
    return axis(st.sampled_from(load_experiment(experiment).figures), most=2)


SATURATION = st.fixed_dictionaries(
    {"experiment": st.just("saturation"), **SIZES, "trials": st.sampled_from([2, 3, 19, 20, 60])},
    optional={**INPUTS, "figures": figures("saturation")},
)
ROWS = st.fixed_dictionaries(
    {"experiment": st.just("rows"), **SIZES, "trials": st.integers(1, 3)},
    optional={**INPUTS, "figures": st.just("rows")},
)
DISTRIBUTION = st.fixed_dictionaries(
    {"experiment": st.just("distribution"), "d_k": SIZES["d_k"], "trials": st.sampled_from([20, 21, 3000])}
)
SWEEP = st.one_of(SATURATION, ROWS, DISTRIBUTION)
CONFIGS = st.fixed_dictionaries(
    {"seed": st.integers(0, 3), "sweeps": st.dictionaries(st.sampled_from("abc"), SWEEP, min_size=1, max_size=2)}
)
EXPECTATIONS = strip.expectations()


@pytest.fixture
def in_this_process(monkeypatch):
    """Chunks measured one after the other in this process, since a worker takes longer to start than they take."""

    def measured(_pool, store, work, _jobs):
        for chunk, names in work.todo:
            yield chunk, names, measure_record(chunk, store.seed, store.stamp(chunk))

    monkeypatch.setattr(run, "_measured", measured)
    monkeypatch.setattr(strip, "expectations", lambda: EXPECTATIONS)


def run_whole(config: dict, folder: Path) -> None:
    """Measure, draw, check and write the page, and find a file for everything that the config asks for."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "any.yaml"
    path.write_text(yaml.safe_dump(config))
    loaded = load_config(path)
    steps.measure(loaded, loaded.sweeps, folder, jobs=1)
    steps.draw(loaded, loaded.sweeps, folder)
    steps.check(loaded, loaded.sweeps, folder)
    steps.write_page(loaded, folder, path)
    page = (folder / "index.html").read_text(encoding="utf-8")
    for sweep in loaded.sweeps:
        assert all(f'id="{sweep.name}-{figure}"' in page for figure in sweep.figures)
        assert (folder / f"{sweep.name}.csv").exists()
        captions = [figure_path(folder, sweep.name, figure, ".txt").read_text() for figure in sweep.figures]
        assert not any("nan" in caption or "inf" in caption.split() for caption in captions)


def any_config(examples: int):
    # A run takes seconds, so that a failing config is shown as it is instead of shrunk.
    phases = (Phase.explicit, Phase.generate)
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    options = {"deadline": None, "derandomize": True, "suppress_health_check": checks, "phases": phases}
    return lambda test: settings(max_examples=examples, **options)(given(config=CONFIGS)(test))


def test_every_experiment_is_generated():
    assert {"saturation", "rows", "distribution"} == set(experiment_names())


@pytest.mark.usefixtures("in_this_process")
@any_config(4)
def test_a_generated_config_runs(tmp_path_factory, config):
    run_whole(config, tmp_path_factory.getbasetemp() / "any")


@pytest.mark.edits
@pytest.mark.usefixtures("in_this_process")
@any_config(60)
def test_any_of_60_generated_configs_runs(tmp_path_factory, config):
    run_whole(config, tmp_path_factory.getbasetemp() / "any60")
