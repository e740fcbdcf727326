"""The files of the page: its own, and those that it shows."""

from collections.abc import Iterator
from pathlib import Path

from experiments.folders import (
    ALL_SWEEPS,
    DIAGNOSIS_FIGURE,
    DIAGNOSIS_TABLE,
    EXAMPLES,
    FIGURES,
    STATEMENTS,
    diagnosis_path,
    figure_path,
)
from experiments.harness.config import Config
from experiments.harness.files import DERIVED

FOLDER = Path(__file__).parent
MADE_WITH = ("Jinja2", "matplotlib", "numpy", "pandas", "pillow", "scipy", "seaborn")
STATEMENTS_CSV = f"{STATEMENTS}/statements.csv"


def page_path(results: Path) -> Path:
    """The page of a results folder."""
    return results / "index.html"


def pictures(config: Config, results: Path) -> dict[str, list[Path]]:
    """The PNG files of the page by sweep, and of `all-sweeps`, the diagnosis and the examples by these names.

    Only files with a text beside them count: a figure that could not be drawn is not on the page.
    """
    found = {
        sweep.name: [figure_path(results, sweep.name, name, ".png") for name in sweep.figures]
        for sweep in config.sweeps
    }
    found[ALL_SWEEPS] = sorted((results / FIGURES / ALL_SWEEPS).glob("*.png"))
    found[DIAGNOSIS_FIGURE] = [diagnosis_path(results, f"{DIAGNOSIS_FIGURE}.png")]
    found[EXAMPLES] = sorted((results / EXAMPLES).glob("*.png"))
    return {name: [path for path in paths if path.with_suffix(".txt").exists()] for name, paths in found.items()}


def shown(config: Config, results: Path) -> Iterator[Path]:
    """Every file whose content appears on the page."""
    yield results / STATEMENTS_CSV
    yield diagnosis_path(results, DIAGNOSIS_TABLE)
    for sweep in config.sweeps:
        yield from (results / f"{sweep.name}.{suffix}" for suffix in ("json", "csv"))
        yield from sorted((results / DERIVED / sweep.name).glob("*.csv"))
    for paths in pictures(config, results).values():
        yield from (path.with_suffix(suffix) for path in paths for suffix in (".png", ".txt"))
