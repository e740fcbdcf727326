"""The page as an artifact: its file, and everything that determines it."""

from collections.abc import Iterator
from pathlib import Path

from experiments.claims.table import table_path
from experiments.examples import example_names
from experiments.folders import ALL_SWEEPS, DIAGNOSIS_FIGURE, DIAGNOSIS_TABLE, diagnosis_path, example_path, figure_path
from experiments.harness.artifacts import Artifact
from experiments.harness.config import Config
from experiments.harness.figures import declarations, figures_of
from experiments.harness.paths import DERIVED

FOLDER = Path(__file__).parent
TEMPLATE = "index.html.j2"
SCRIPTS = ("attention", "state", "words", "bars", "map", "inverse", "explorer")  # of the explorer, in the order of use
_TEMPLATES = (TEMPLATE, "page.css", "page.js", *(f"{name}.js" for name in SCRIPTS))
MADE_WITH = ("Jinja2", "matplotlib", "numpy", "pandas", "scipy", "seaborn")


def page_path(results: Path) -> Path:
    """The page of a results folder."""
    return results / "index.html"


def page(config: Config, results: Path, *options: object) -> Artifact:
    """The page of a config's results, with everything that determines it.

    Args:
        config: the config of the results.
        results: the folder of the results.
        options: further values that determine the page; they count by their text.
    """
    modules = ("experiments.page.index", *(f"experiments.figures.{name}" for name in declarations()))
    templates = [FOLDER / name for name in _TEMPLATES]
    parameters = [config.digest, *map(str, options)]
    return Artifact((page_path(results),), modules, MADE_WITH, (*templates, *_shown(config, results)), parameters)


def _shown(config: Config, results: Path) -> Iterator[Path]:
    """Every file whose content appears on the page."""
    yield table_path(results)
    yield from (
        diagnosis_path(results, name)
        for name in (DIAGNOSIS_TABLE, f"{DIAGNOSIS_FIGURE}.svg", f"{DIAGNOSIS_FIGURE}.txt")
    )
    for sweep in config.sweeps:
        yield from (results / f"{sweep.name}.{suffix}" for suffix in ("json", "csv"))
        yield from sorted((results / DERIVED / sweep.name).glob("*.csv"))
    drawn = [(sweep.name, figure) for sweep in config.sweeps for figure in sweep.figures]
    drawn += [(ALL_SWEEPS, figure) for figure in figures_of(ALL_SWEEPS)]
    for suffix in (".svg", ".txt"):
        yield from (figure_path(results, sweep_name, figure, suffix) for sweep_name, figure in drawn)
        yield from (example_path(results, name, suffix) for name in example_names())
