"""The common way to draw and save figures.

The module of a figure makes a drawing and a caption; this module turns them into files.
"""

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn as sns

from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import DPI, STYLE, wrapped
from experiments.harness.files import write_atomically

_CHARACTERS_PER_INCH = 12


def render(figure: Figure, tables: Tables, stem: Path) -> str:
    """Draw a figure and write STEM.png with the caption above it, STEM.svg without it, and the caption as STEM.txt.

    The SVG is for pages, which show the caption as text; its title is the figure's. The files contain nothing that
    varies between equal runs, such as dates or random ids.

    Args:
        figure: the declaration.
        tables: at least those that it reads, as far as they exist.
        stem: path of the files without suffix.

    Returns:
        The caption.
    """
    chosen = figure.chosen(tables)
    caption = figure.caption(chosen)
    with mpl.rc_context({**sns.axes_style("ticks"), **STYLE}):
        drawing = figure.plot(chosen)
        lines = wrapped(caption, drawing.get_figwidth() * _CHARACTERS_PER_INCH)
        heading = drawing.suptitle(lines, x=0.01, ha="left", fontsize=11)
        _save(drawing, stem, ".png", {"Description": caption})
        drawing.set_figheight(drawing.get_figheight() - heading.get_window_extent().height / drawing.dpi)
        heading.set(visible=False, in_layout=False)
        _save(drawing, stem, ".svg", {"Title": figure.title, "Description": caption, "Date": None})
    write_atomically(stem.with_name(f"{stem.name}.txt"), f"{caption}\n".encode())
    return caption


def _save(drawing: Drawing, stem: Path, suffix: str, metadata: dict[str, Any]) -> None:
    """Write a drawing in the format of the suffix, whole or not at all."""
    content = io.BytesIO()
    drawing.savefig(content, format=suffix[1:], dpi=DPI, metadata=metadata)
    write_atomically(stem.with_name(f"{stem.name}{suffix}"), content.getvalue())
