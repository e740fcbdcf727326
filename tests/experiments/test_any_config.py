"""Generated sweeps of every experiment: tables, figures and a page come out."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from experiments.commands.check import check
from experiments.commands.measure import measure
from experiments.config.kinds import config_names, kinds_of
from experiments.config.loader import load_config
from experiments.declarations import figures_of
from experiments.figures.draw import draw
from experiments.kinds import experiment_names
from experiments.measuring.columns import cell_fields, defaults
from experiments.measuring.experiment import load_experiment
from experiments.output.reporter import Reporter
from experiments.output.study import Study
from experiments.pages.index import write_page
from experiments.paths import figure_path
from experiments.running.workers import LocalWorkers
from sdpa import LAWS
from sdpa.initialisation import SCHEMES

RULES = (
    "unscaled",
    "d_k^1/2",
    "d_k^0.9",
    "d_k^3/2",
    8,
    "d_k^1/2/ln(n_keys)",
)


def axis(*values: object) -> st.SearchStrategy:
    """A single value or a list of different ones."""
    one = st.sampled_from(values)
    return one | st.lists(one, min_size=1, max_size=2, unique=True)


# Extreme values of the keys of all experiments; a key that must fit others keeps its default.
KEYS = {
    "d_k": axis(1, 2, 3, 8, 64),
    "n_keys": axis(2, 3, 7, 40),
    "n_queries": axis(1, 2),  # a mask wants at most n_keys
    "scaling": axis(*RULES) | st.just(RULES).map(list),
    "inputs": axis(*LAWS),
    "query_std": axis(0.1, 1, 3, 30),
    "key_std": axis(0.1, 30),
    "query_mean": st.sampled_from([0, -10]),
    "key_mean": st.sampled_from([0, -10]),
    "spectrum": st.sampled_from([0, 0.5, 2]),
    "normalize": st.sampled_from(["none", "l2", "rms"]),
    "mask": axis("none", "causal"),
    "softcap": axis(5, 50),
    "sink": axis(-4, 4),
    "scheme": axis(*SCHEMES),
    "d_model": axis(8, 64),
    "n_heads": axis(1, 2),
    "learning_rate": axis(1e-9, 0.01, 1, 1e6),
    "layers": axis(1, 3),
    "width": st.sampled_from([4, 8]),
    "steps": st.sampled_from([25, 40]),
    "optimizer": axis("adam", "momentum"),
    "initial": axis("unit", "small"),
    "n_sequences": st.sampled_from([2, 5]),
    "warmup": st.sampled_from([0, 7]),
    "clip": st.sampled_from([0, 1]),
    "initial_divisor": axis("unscaled", "d_k^1/4"),
    "rate_divisor": axis("unscaled", "d_k^1/4"),
    "token_cosine": axis(0.2, 0.999),
    "residual": axis(0.5, 1000),
    "output_scale": axis("none", "depth"),
    "norm": axis("pre", "post"),
    "mlp": axis("none", "relu", "swiglu"),
}
OF_ONE = {
    "mechanisms": {"mask": axis("none", "causal", "window-2", "local-1")},
    "language": {"d_k": axis(2, 8, 64), "n_keys": axis(2, 7), "layers": st.sampled_from([1, 2])},
    "network": {"n_heads": axis(2, 3)},
}
LEFT_OUT = {"correlation", "alibi", "normalizer", "position"}  # keep their defaults
# Beside those without a default: what does not fit others or takes minutes, or a key of the kind.
ALWAYS = {"n_queries", "layers", "width", "steps", "softcap"}


@pytest.mark.parametrize("name", experiment_names())
def test_every_key_is_generated_or_left_out_on_purpose(name):
    known = KEYS.keys() | OF_ONE.get(name, {}).keys() | LEFT_OUT
    assert cell_fields(load_experiment(name).cell).keys() <= known


def sweep_of(name: str) -> st.SearchStrategy:
    experiment = load_experiment(name)
    keys = KEYS | OF_ONE.get(name, {})
    keys = {key: keys[key] for key in cell_fields(experiment.cell) if key in keys}
    optional = {key: keys[key] for key in defaults(experiment.cell) if key in keys.keys() - ALWAYS}
    if names := figures_of(name):
        optional["figures"] = axis(*names)
    needed = {key: values for key, values in keys.items() if key not in optional}
    trials = [each for each in (2, 3, 19, 20) if each >= experiment.min_trials]
    needed["trials"] = st.sampled_from(trials)
    asked = next(each for each in config_names() if experiment in kinds_of(each))
    needed["experiment"] = st.just(asked)
    return st.fixed_dictionaries(needed, optional=optional)


SWEEP = st.one_of([sweep_of(name) for name in experiment_names()])
CONFIG = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 3),
        "sweeps": st.dictionaries(st.sampled_from("abc"), SWEEP, min_size=1, max_size=2),
    }
)


def run_whole(config: dict, folder: Path) -> None:
    """Measure, check, draw and write the page, and find a file for everything that the config asks
    for.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "any.yaml"
    path.write_text(yaml.safe_dump(config))
    loaded = load_config(path)
    report = Reporter(verbose=True)
    measure(loaded, loaded.sweeps, folder, LocalWorkers(1), report=report)
    study = Study(loaded, folder)
    check(study, loaded.sweeps, report=report)
    draw(study, loaded.sweeps, jobs=1, report=report)
    write_page(study, path, report=report)
    page = (folder / "index.html").read_text(encoding="utf-8")
    for sweep in loaded.sweeps:
        assert (folder / f"{sweep.name}.csv").exists()
        for figure in sweep.figures:
            assert f'id="{sweep.name}-{figure}"' in page
            caption = figure_path(folder, sweep.name, figure, ".txt").read_text()
            assert "nan" not in caption
            assert "inf" not in caption.split()


@pytest.mark.usefixtures("in_this_process", "quick_slider")
def test_equal_scores_have_no_kurtosis(tmp_path):
    sizes = {"d_k": [1, 2], "n_keys": 4, "scaling": 8, "trials": 20, "experiment": "saturation"}
    one_sign = {"normalize": "l2", "query_mean": 10, "key_mean": 10}  # all entries are 1 at d_k = 1
    run_whole({"seed": 0, "sweeps": {"mine": sizes | one_sign}}, tmp_path / "any")
    table = pd.read_csv(tmp_path / "any" / "mine.csv")
    assert table["score_kurtosis"].isna().tolist() == [True, False]


# A run takes seconds, so that a failing config is shown as it is instead of shrunk.
@pytest.mark.edits
@pytest.mark.usefixtures("in_this_process", "quick_slider")
@pytest.mark.parametrize("name", experiment_names())
@settings(
    max_examples=2,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],
)
@given(data=st.data())
def test_generated_sweeps_of_every_experiment_run(tmp_path_factory, name, data):
    config = {"seed": 0, "sweeps": {"mine": data.draw(sweep_of(name))}}
    run_whole(config, tmp_path_factory.getbasetemp() / "any")
