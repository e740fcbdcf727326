"""The one way in which figures are drawn and saved."""

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn as sns

from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.style import DPI, STYLE, wrapped
from experiments.harness.files import write_whole

_CHARACTERS_PER_INCH = 12


def render(figure: Figure, tables: Tables, stem: Path) -> str:
    """Draw a figure and write it as STEM.png and STEM.svg, and its caption as STEM.txt.

    Nothing that varies between equal runs (dates, random ids) goes into the files.

    Returns:
        The caption.
    """
    chosen = figure.chosen(tables)
    caption = figure.caption(chosen)
    with mpl.rc_context({**sns.axes_style("ticks"), **STYLE}):
        drawing = figure.plot(chosen)
        title = wrapped(caption, drawing.get_figwidth() * _CHARACTERS_PER_INCH)
        drawing.suptitle(title, x=0.01, ha="left", fontsize=11)
        _save(drawing, stem, ".png", {"Description": caption})
        _save(drawing, stem, ".svg", {"Date": None, "Description": caption})
    write_whole(stem.with_name(f"{stem.name}.txt"), f"{caption}\n".encode())
    return caption


def _save(drawing: Drawing, stem: Path, suffix: str, metadata: dict[str, Any]) -> None:
    content = io.BytesIO()
    drawing.savefig(content, format=suffix[1:], dpi=DPI, metadata=metadata)
    write_whole(stem.with_name(f"{stem.name}{suffix}"), content.getvalue())
