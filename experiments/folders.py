"""Folders of results: who writes where, in one place, so that nobody overwrites another's results."""

from pathlib import Path
from typing import NamedTuple

from experiments.harness.files import DERIVED

SHIPPED_CONFIG = Path("config.yaml")
HOME = Path("results")  # the results of this repository: beside its tables they have statements, examples, benchmarks
FIGURES = "figures"  # a folder for each sweep
ALL_SWEEPS = "all-sweeps"  # in place of a sweep's name, which has no hyphen: figures of all sweeps together
STATEMENTS = "statements"
EXAMPLES = "examples"
BENCHMARKS = "benchmarks"
WALK = "walk"  # a user's own matrices
DIAGNOSIS = "diagnosis"  # a folder for each diagnosed file, and one for the shipped example
SHIPPED_DIAGNOSIS = "training"
DIAGNOSIS_TABLE, DIAGNOSIS_FIGURE = "diagnosis.csv", "heads"  # the names of its files
_TAKEN = (DERIVED, FIGURES, STATEMENTS, EXAMPLES, BENCHMARKS, WALK, DIAGNOSIS)


def default_results(config: Path) -> Path:
    """`results` for the config.yaml of this folder, `results/NAME` for a config called NAME.yaml.

    Raises:
        ValueError: the name belongs to something else in `results`.

    >>> default_results(Path("mine.yaml")).as_posix()
    'results/mine'
    """
    if config.resolve() == SHIPPED_CONFIG.resolve():
        return HOME
    if config.stem.lower() in _TAKEN or config.stem.startswith("."):
        raise ValueError(
            f"{config}: {HOME / config.stem} is reserved for other results; rename the file, or choose another folder "
            "with RESULTS=DIR (--results DIR)"
        )
    return HOME / config.stem


def example_path(results: Path, name: str, suffix: str) -> Path:
    """A file of a worked example's figure; of the name `examples`, the table of all."""
    return results / EXAMPLES / f"{name}{suffix}"


def diagnosis_path(results: Path, name: str) -> Path:
    """A file of the shipped diagnosis: diagnosis.csv, its input qk.npz, or heads with the suffix of a drawing."""
    return results / DIAGNOSIS / SHIPPED_DIAGNOSIS / name


def benchmark_path(results: Path, name: str) -> Path:
    """A table of benchmarks: speed, cost, calibration, calibration-coverage or calibration-faults."""
    return results / BENCHMARKS / f"{name}.csv"


def figure_path(results: Path, sweep: str, figure: str, suffix: str) -> Path:
    """The file of a sweep's figure: .png, and .txt for its title and caption.

    >>> figure_path(HOME, "dimension", "variance", ".png").as_posix()
    'results/figures/dimension/variance.png'
    """
    return results / FIGURES / sweep / f"{figure}{suffix}"


class DrawnTexts(NamedTuple):
    """The texts of a drawn figure: the finding, and a sentence with its numbers."""

    title: str
    caption: str


def drawn_texts(drawing: Path) -> DrawnTexts:
    """The texts of a figure from its .txt file, whose lines they are."""
    return DrawnTexts(*drawing.with_suffix(".txt").read_text(encoding="utf-8").splitlines())
