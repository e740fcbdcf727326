"""Folders of results: who writes where, in one place, so that nobody overwrites another's results."""

from pathlib import Path

from experiments.harness.paths import DERIVED

SHIPPED_CONFIG = Path("config.yaml")
HOME = Path("results")  # the results of this repository: beside its tables they have statements, examples, benchmarks
FIGURES = "figures"  # a folder for each sweep
ALL_SWEEPS = "all-sweeps"  # in place of a sweep's name, which has no hyphen: figures of all sweeps together
STATEMENTS = "statements"
EXAMPLES = "examples"
BENCHMARKS = "benchmarks"
WALK = "walk"  # a user's own matrices
_TAKEN = (DERIVED, FIGURES, STATEMENTS, EXAMPLES, BENCHMARKS, WALK)


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


def benchmark_path(results: Path, name: str) -> Path:
    """A table of benchmarks: speed, cost, calibration, calibration-coverage or calibration-faults."""
    return results / BENCHMARKS / f"{name}.csv"


def figure_path(results: Path, sweep: str, figure: str, suffix: str) -> Path:
    """The file of a sweep's figure: .png and .svg, and .txt for its caption.

    >>> figure_path(HOME, "dimension", "variance", ".png").as_posix()
    'results/figures/dimension/variance.png'
    """
    return results / FIGURES / sweep / f"{figure}{suffix}"
