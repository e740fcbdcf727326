"""The drawings of a figure as artifacts: their files, and the inputs that determine them."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from experiments.harness.artifacts import Artifact, Ledger

SUFFIXES = (".png", ".txt")  # the drawing; title and caption
FURTHER = ("pdf", "svg")  # formats on request
LIBRARIES = ("matplotlib", "seaborn", "pandas", "numpy")


def drawing(
    stem: Path,
    figure: str,
    inputs: Iterable[Path] = (),
    *code: str,
    formats: Collection[str] = (),
    parameters: Any = None,
) -> Artifact:
    """STEM.png and STEM.txt, drawn by a figure from input files; `code` names other modules that count.

    A PDF or SVG from an earlier run belongs to the drawing, so that it does not go out of date beside the other files.

    Args:
        stem: path of the files without their suffix.
        figure: name of the figure.
        inputs: files that determine the drawing.
        code: full names of further modules that determine it.
        formats: further formats to draw, whether their files exist or not.
        parameters: further JSON values that determine it.

    >>> [path.as_posix() for path in drawing(Path("figures/map"), "map", formats=["pdf"]).files]
    ['figures/map.png', 'figures/map.txt', 'figures/map.pdf']
    """
    files = [stem.with_name(f"{stem.name}{suffix}") for suffix in SUFFIXES]
    further = {name: stem.with_name(f"{stem.name}.{name}") for name in FURTHER}
    files += [path for name, path in further.items() if name in formats or path.exists()]
    own = (f"experiments.figures.{figure}",) if "." in figure else ()  # of an example or a diagnosis
    modules = (*own, "experiments.figures.rendering", *code)
    return Artifact(tuple(files), modules, LIBRARIES, tuple(inputs), parameters)


def is_untouched(ledger: Ledger, drawn: Artifact) -> bool:
    """True if the files of a drawing are as the suite wrote them.

    A folder that has not drawn the figure, such as a fresh clone, has no record; but its PNG contains title and
    caption. Such a drawing counts as untouched if these are still the texts in STEM.txt.
    """
    known = ledger.is_untouched(drawn)
    if known is not None:
        return known
    png, text, *further = drawn.files
    if further or not (png.exists() and text.exists()):
        return False
    content, lines = png.read_bytes(), text.read_bytes().splitlines()
    return bool(lines) and all(line in content for line in lines)
