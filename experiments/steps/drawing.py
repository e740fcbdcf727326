"""The drawings of a figure as artifacts: their files, and the inputs that determine them."""

from collections.abc import Iterable
from pathlib import Path

from experiments.harness.artifacts import Artifact, Ledger

SUFFIXES = (".png", ".svg", ".txt")  # two drawings and the caption
LIBRARIES = ("matplotlib", "seaborn", "pandas", "numpy")


def drawing(stem: Path, figure: str, inputs: Iterable[Path] = (), *code: str) -> Artifact:
    """STEM.png, STEM.svg and STEM.txt, drawn by a figure from input files; `code` names other modules that count.

    Args:
        stem: path of the files without their suffix.
        figure: name of the figure's module below `experiments.figures`.
        inputs: files that determine the drawing.
        code: full names of further modules that determine it.

    >>> drawing(Path("figures/map"), "map").files[0].as_posix()
    'figures/map.png'
    """
    files = tuple(stem.with_name(f"{stem.name}{suffix}") for suffix in SUFFIXES)
    modules = (f"experiments.figures.{figure}", "experiments.figures.rendering", *code)
    return Artifact(files, modules, LIBRARIES, tuple(inputs))


def is_untouched(ledger: Ledger, drawn: Artifact) -> bool:
    """True if the files of a drawing are as the suite wrote them.

    A folder that has not drawn the figure, such as a fresh clone, has no SVG; its PNG contains the caption. Such a
    drawing counts as untouched if that is still the caption in STEM.txt.
    """
    known = ledger.is_untouched(drawn)
    if known is not None:
        return known
    png, svg, text = drawn.files
    caption = text.read_bytes().strip() if text.exists() else b""
    return bool(caption) and png.exists() and caption in png.read_bytes() and not svg.exists()
