"""The gallery of docs/: each figure under its title, beside the config that produces it."""

from collections.abc import Callable, Iterator
from pathlib import Path

from experiments.diagnosis.table import SHIPPED_LAYERS
from experiments.figures.formulas import latex
from experiments.folders import DIAGNOSIS_FIGURE, diagnosis_path, drawn_texts, figure_path
from experiments.harness.config import Config
from experiments.page.findings import config_block

_DIAGNOSIS = "make diagnose"


def gallery(config: Config, results: Path, link: Callable[[Path], str]) -> str:
    """The figures of the sweeps of a config and of the shipped diagnosis as Markdown.

    Args:
        config: the config of the results.
        results: the folder of the figures.
        link: from the page to a file.
    """
    return "\n".join([*_sweeps(config, results, link), *_diagnosis(results, link)])


def _sweeps(config: Config, results: Path, link: Callable[[Path], str]) -> Iterator[str]:
    """The figures of each sweep, and then its block of the config."""
    for sweep in config.sweeps:
        for figure in sweep.figures:
            yield from _drawn(figure_path(results, sweep.name, figure, ".png"), link)
        yield f"```yaml\n{config_block(config.seed, sweep)}```\n"


def _diagnosis(results: Path, link: Callable[[Path], str]) -> Iterator[str]:
    """The figure of the shipped diagnosis, its layers, and the command that draws it; nothing if there is none."""
    png = diagnosis_path(results, f"{DIAGNOSIS_FIGURE}.png")
    if png.exists():
        yield from _drawn(png, link)
        yield f"{SHIPPED_LAYERS}\n"
        yield f"```sh\n{_DIAGNOSIS}\n```"


def _drawn(png: Path, link: Callable[[Path], str]) -> Iterator[str]:
    """A figure under its title, with its caption as the text for readers who do not see it."""
    title, caption = drawn_texts(png)
    yield f"## {latex(title)}\n"
    yield f"![{caption.replace('[', '(').replace(']', ')')}]({link(png)})\n"
