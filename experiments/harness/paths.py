"""Paths of results, defined in one place so that no user's sweep overwrites the shipped tables."""

from pathlib import Path

SHIPPED_CONFIG = Path("config.yaml")
STORE = ".cells"  # in a results folder: the records of finished chunks
FIGURE_SUFFIXES = (".png", ".svg", ".txt")  # two drawings and the caption
STORED_CONFIG = "config.yaml"  # in a results folder: the text of the config of its tables
BENCHMARKS = "benchmarks"  # its table, its figure, and its folder in place of a sweep's name
SUITE = "suite"  # in place of a sweep's name: figures of all sweeps together
_FOLDERS = ("figures", "statements", "examples", "walk")  # folders of `results` that hold no config's results


def default_results(config: Path) -> Path:
    """`results` for the config.yaml of this folder, `results/NAME` for a config called NAME.yaml.

    Raises:
        ValueError: another folder in `results` has the name.
    """
    if config.resolve() == SHIPPED_CONFIG.resolve():
        return Path("results")
    if config.stem.lower() in _FOLDERS or config.stem.startswith("."):
        raise ValueError(f"{config}: expected --results, or a name other than {', '.join(_FOLDERS)} and no leading dot")
    return Path("results") / config.stem


def figure_path(results: Path, sweep: str, figure: str, suffix: str) -> Path:
    """The file of a sweep's figure: .png and .svg, and .txt for its caption."""
    return results / "figures" / sweep / f"{figure}{suffix}"
