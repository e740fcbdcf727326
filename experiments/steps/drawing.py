"""The drawings of a figure as artifacts: their files, and the inputs that determine them."""

from collections.abc import Iterable
from pathlib import Path

from experiments.harness.artifacts import Artifact, Ledger

SUFFIXES = (".png", ".svg", ".txt")  # two drawings; title and caption
PDF = ".pdf"
LIBRARIES = ("matplotlib", "seaborn", "pandas", "numpy")


def drawing(stem: Path, figure: str, inputs: Iterable[Path] = (), *code: str, pdf: bool = False) -> Artifact:
    """STEM.png, STEM.svg and STEM.txt, drawn by a figure from input files; `code` names other modules that count.

    A PDF from an earlier run belongs to the drawing, so that it does not go out of date beside the other files.

    Args:
        stem: path of the files without their suffix.
        figure: name of the figure.
        inputs: files that determine the drawing.
        code: full names of further modules that determine it.
        pdf: True for a drawing with STEM.pdf, whether it exists or not.

    >>> drawing(Path("figures/map"), "map").files[0].as_posix()
    'figures/map.png'
    """
    portable = stem.with_name(f"{stem.name}{PDF}")
    files = tuple(stem.with_name(f"{stem.name}{suffix}") for suffix in SUFFIXES)
    files += (portable,) if pdf or portable.exists() else ()
    own = (f"experiments.figures.{figure}",) if "." in figure else ()  # of an example or a diagnosis
    modules = (*own, "experiments.figures.rendering", *code)
    return Artifact(files, modules, LIBRARIES, tuple(inputs))


def is_untouched(ledger: Ledger, drawn: Artifact) -> bool:
    """True if the files of a drawing are as the suite wrote them.

    A folder that has not drawn the figure, such as a fresh clone, has no SVG; its PNG contains title and caption. Such
    a drawing counts as untouched if these are still the texts in STEM.txt.
    """
    known = ledger.is_untouched(drawn)
    if known is not None:
        return known
    png, svg, text, *pdf = drawn.files
    if svg.exists() or pdf or not (png.exists() and text.exists()):
        return False
    content, lines = png.read_bytes(), text.read_bytes().splitlines()
    return bool(lines) and all(line in content for line in lines)
