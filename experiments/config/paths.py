"""Files and folders of results: who writes where, in one place, so that nobody overwrites another's
results.
"""

from pathlib import Path

from experiments.config.errors import UsageError

SHIPPED_CONFIG = Path("config.yaml")
_ROOT = Path(__file__).resolve().parents[2]
FULL_CONFIG = _ROOT / "config.full.yaml"
# Those of this repository, whose sweeps findings are about.
SHIPPED_CONFIGS = [_ROOT / "config.yaml", FULL_CONFIG, _ROOT / "quick.yaml"]
# The results of this repository: beside its tables they have statements, examples, benchmarks.
SHIPPED_RESULTS = Path("results")
FULL = "config.full"  # the folder in it for sweeps of config.full.yaml
STORE = ".cells"  # the folder of finished chunks
STORED_CONFIG = "config.yaml"  # the text of the config that the tables are of
COLUMN_FILE = "columns.csv"  # the meaning of every column
SUMMARY = "summary"  # the kind of SWEEP.csv, which people read
ALL_METRICS = "all_metrics"  # the file of the main table, which the suite reads
DERIVED = "derived"  # the folder of the main tables, and of those that follow from them
FIGURE_FOLDER = "figures"  # a folder for each sweep
STATEMENTS = "statements"
EXAMPLE_FOLDER = "examples"
BENCHMARKS = "benchmarks"
MODELS = "models"  # of pretrained models
PYTHON = "python"  # of mappings that `experiments.run` gets
ERRORS = "errors.txt"  # tracebacks of the last command that met one
_TAKEN = (
    DERIVED,
    FIGURE_FOLDER,
    STATEMENTS,
    EXAMPLE_FOLDER,
    BENCHMARKS,
    MODELS,
    PYTHON,
    "walk",
)
DRAWN = (".png", ".txt")  # the files of a figure: the drawing; title and caption
DRAWN_ROWS = "Rows"  # a text in a PNG: its first row below the title, and that of the caption
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
    if config.stem.lower() in _TAKEN or config.stem.startswith("."):
        raise UsageError(
            f"{config}: {SHIPPED_RESULTS / config.stem} has other results; choose a folder by "
            "RESULTS=DIR (--results DIR)"
        )
    return SHIPPED_RESULTS / config.stem


def model_path(results: Path, name: str) -> Path:
    """A file of the pretrained model: a table, or a figure with its suffix.

    >>> model_path(SHIPPED_RESULTS, "by-head.csv").as_posix()
    'results/models/smollm2/by-head.csv'
    """
    return results / MODELS / "smollm2" / name


def figure_path(results: Path, sweep: str, figure: str, suffix: str) -> Path:
    """The file of a sweep's figure: .png, and .txt for its title and caption.

    >>> figure_path(SHIPPED_RESULTS, "dimension", "variance", ".png").as_posix()
    'results/figures/dimension/variance.png'
    """
    return results / FIGURE_FOLDER / sweep / f"{figure}{suffix}"


def drawn_texts(drawing: Path) -> tuple[str, str]:
    """Title and caption of a figure, the first line of its .txt file and the others."""
    text = drawing.with_suffix(".txt").read_text(encoding="utf-8")
    title, _, caption = text.removesuffix("\n").partition("\n")
    return title, caption
