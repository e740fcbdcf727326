"""A tiny config of every experiment, measured and drawn once for all tests that only read it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.harness import run
from experiments.harness.columns import axis_names, defaults, treatment_names
from experiments.harness.config import Config, load_config
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.figures import figures_of
from experiments.harness.store import measure_record
from experiments.page import strip
from experiments.steps.sweeps import draw, measure


def _every(experiment: str) -> str:
    """Every figure of an experiment, as a config lists them."""
    return f"[{', '.join(figures_of(experiment))}]"


# A single cell draws fastest, and has every figure; others have those that show what it has not.
_FEW_DRAWN = {"scaling": ("variance",), "many": ("phase",), "map": ("map",)}
TINY = f"""\
seed: 0
sweeps:
  scaling:
    experiment: saturation
    d_k: [4, 64]
    n_keys: 8
    n_queries: 5
    scaling: [unscaled, d_k^1/3, d_k^1/2]
    trials: 60
    figures: {_every("saturation")}
  single:
    experiment: saturation
    d_k: 16
    n_keys: 8
    scaling: d_k^1/2
    trials: 20
    figures: {_every("saturation")}
  many:
    experiment: saturation
    d_k: [4, 16]
    n_keys: [8, 16]
    inputs: [gaussian, uniform]
    scaling: [unscaled, d_k^1/2]
    trials: 20
    figures: {_every("saturation")}
  laws:
    experiment: saturation
    d_k: 4
    n_keys: 8
    inputs: [gaussian, uniform]
    scaling: [unscaled, d_k^1/2]
    trials: 20
  rows:
    experiment: rows
    d_k: [4, 64]
    n_keys: 8
    n_queries: 3
    scaling: [unscaled, d_k^1/2]
    trials: 2
    figures: {_every("rows")}
  distribution:
    experiment: distribution
    d_k: [1, 16]
    trials: 3000
    figures: {_every("distribution")}
  map:
    experiment: saturation
    d_k: [2, 8, 24, 64]
    n_keys: [3, 8, 20]
    scaling: [unscaled, d_k^1/3, d_k^1/2]
    trials: 20
    figures: [map, phase]
"""


def _of_other_experiments() -> str:
    """A sweep of one cell for every experiment that TINY does not name."""
    lines = []
    for name in experiment_names():
        if f"experiment: {name}\n" not in TINY:
            experiment = load_experiment(name)
            needed = [axis for axis in axis_names(experiment.cell) if axis not in defaults(experiment.cell)]
            lines += [f"  {name}:", f"    experiment: {name}", *(f"    {axis}: 4" for axis in needed)]
            lines += [f"    {rules}: unscaled" for rules in treatment_names(experiment.cell)]
            lines += [f"    trials: {max(20, experiment.min_trials)}", f"    figures: {_every(name)}"]
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> tuple[Config, Path]:
    """The tiny config and the folder of its tables."""
    folder = tmp_path_factory.mktemp("tiny")
    path = folder / "tiny.yaml"
    path.write_text(TINY + _of_other_experiments())
    config = load_config(path)
    measure(config, config.sweeps, folder, jobs=2)
    return config, folder


@pytest.fixture(scope="session")
def drawn(tiny, tmp_path_factory) -> tuple[Config, Path]:
    """The tiny config with every figure of a single cell and few of the others, and the folder of its drawn results."""
    config, source = tiny
    sweeps = [replace(sweep, figures=_FEW_DRAWN.get(sweep.name, sweep.figures)) for sweep in config.sweeps]
    config, folder = replace(config, sweeps=tuple(sweeps)), tmp_path_factory.mktemp("drawn") / "tiny"
    shutil.copytree(source, folder)
    draw(config, config.sweeps, folder)
    return config, folder


@pytest.fixture
def in_this_process(monkeypatch):
    """Chunks measured one after the other in this process, since a worker takes longer to start than they take."""

    def measured(_pool, store, work, _jobs):
        for chunk, names in work.todo:
            yield chunk, names, measure_record(chunk, store.seed, store.stamp(chunk))

    monkeypatch.setattr(run, "_measured", measured)


@pytest.fixture
def quick_strip(monkeypatch):
    """The page without the seconds that the expectations of its strip take."""
    errors = dict.fromkeys((*strip.QUANTITIES, "effective_keys"), 1e-9)
    monkeypatch.setattr(strip, "expectations", lambda: {"exponents": [0.0, 1.0], "errors": errors})
