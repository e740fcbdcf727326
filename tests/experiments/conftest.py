"""A tiny config of every experiment, measured once for all tests that only read it."""

from pathlib import Path

import pytest

from experiments.harness.config import Config, load_config
from experiments.steps.sweeps import measure

TINY = """\
seed: 0
sweeps:
  scaling:
    experiment: saturation
    d_k: [4, 64]
    n_keys: 8
    n_queries: 5
    scaling: [unscaled, d_k^1/3, d_k^1/2]
    trials: 60
    figures: [map, metrics, variance, saturation, gradients, powers, length, phase]
  single:
    experiment: saturation
    d_k: 16
    n_keys: 8
    scaling: d_k^1/2
    trials: 20
    figures: [map, metrics, variance, saturation, gradients, powers, length, phase]
  many:
    experiment: saturation
    d_k: [4, 16]
    n_keys: [8, 16]
    inputs: [gaussian, uniform]
    scaling: [unscaled, d_k^1/2]
    trials: 20
    figures: [map, metrics, variance, saturation, gradients, powers, length, phase]
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
  distribution:
    experiment: distribution
    d_k: [1, 16]
    trials: 3000
  map:
    experiment: saturation
    d_k: [2, 8, 24, 64]
    n_keys: [3, 8, 20]
    scaling: [unscaled, d_k^1/3, d_k^1/2]
    trials: 20
    figures: [map, phase]
"""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> tuple[Config, Path]:
    """The tiny config and the folder of its tables."""
    folder = tmp_path_factory.mktemp("tiny")
    path = folder / "tiny.yaml"
    path.write_text(TINY)
    config = load_config(path)
    measure(config, config.sweeps, folder, jobs=2)
    return config, folder
