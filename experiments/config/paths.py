"""Files and folders of results: who writes where, in one place. Two configs of one name, in different
folders, share a folder of results; `--results` chooses another one.
"""

from pathlib import Path

from experiments.config.errors import UsageError

SHIPPED_CONFIG = Path("config.yaml")
_ROOT = Path(__file__).resolve().parents[2]
FULL_CONFIG = _ROOT / "config.full.yaml"
# The results of this repository: beside its tables they have statements, examples, benchmarks.
SHIPPED_RESULTS = Path("results")
FULL = "config.full"  # the folder in it for sweeps of config.full.yaml
STORE = ".cells"  # the folder of finished chunks
STORED_CONFIG = "config.yaml"  # the text of the config that the tables are of
# Those of this repository, whose sweeps findings are about.
SHIPPED_CONFIGS = [
    _ROOT / "config.yaml",
    FULL_CONFIG,
    _ROOT / "quick.yaml",
    _ROOT / SHIPPED_RESULTS / STORED_CONFIG,
]
COLUMN_FILE = "columns.csv"  # the meaning of every column
SUMMARY = "summary"  # the kind of SWEEP.csv, which people read
ALL_METRICS = "all_metrics"  # the file of the main table, which the suite reads
DERIVED = "derived"  # the folder of the main tables, and of those that follow from them
FIGURE_FOLDER = "figures"  # a folder for each sweep
STATEMENTS = "statements"
EXAMPLE_FOLDER = "examples"
BENCHMARKS = "benchmarks"
EXACT = "exact"  # tables and pictures without a sweep
MODELS = "models"  # of pretrained models
PYTHON = "python"  # of mappings that `experiments.run` gets
ERRORS = "errors.txt"  # tracebacks of the last command that met one
_TAKEN_FOLDERS = (
    DERIVED,
    FIGURE_FOLDER,
    STATEMENTS,
    EXAMPLE_FOLDER,
    BENCHMARKS,
    EXACT,
    MODELS,
    PYTHON,
    "walk",
)
# Names that no sweep may have, because tables and pictures of no sweep have them.
TAKEN_BY_TABLES = "columns", EXAMPLE_FOLDER, MODELS, "arms", "largest_scores", "plan_outcomes"
# one from an earlier run is drawn again, so that it does not go out of date
ON_REQUEST = (".pdf", ".svg")


def default_results(config: Path) -> Path:
    """`results` for the config.yaml of this folder, `results/NAME` for a config called NAME.yaml.

    Raises:
        UsageError: the name belongs to something else in `results`.

    >>> default_results(Path("mine.yaml")).as_posix()
    'results/mine'
    """
    if config.resolve() == SHIPPED_CONFIG.resolve():
        return SHIPPED_RESULTS
    if config.stem.lower() in _TAKEN_FOLDERS or config.stem.startswith("."):
        raise UsageError(
            f"{config}: {SHIPPED_RESULTS / config.stem} has other results; choose a folder by "
            "RESULTS=DIR (--results DIR)"
        )
    return SHIPPED_RESULTS / config.stem


def figure_path(folder: Path, sweep: str, figure: str) -> Path:
    """The file of a sweep's figure.

    >>> figure_path(SHIPPED_RESULTS, "dimension", "variance").as_posix()
    'results/figures/dimension/variance.png'
    """
    return folder / FIGURE_FOLDER / sweep / f"{figure}.png"
