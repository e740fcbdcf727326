"""The common way to draw and save figures.

The module of a figure makes a drawing and a caption; this module turns them into files.
"""

import io
from pathlib import Path

import matplotlib as mpl
import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG

from experiments.figures.figure import Figure, Tables
from experiments.figures.style import STYLE, wrapped
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
        # Not by `savefig`, which draws everything twice: the layout settles at the start of each drawing.
        FigureCanvasAgg(drawing).print_png(png := io.BytesIO(), metadata={"Description": caption})
        drawing.set_figheight(drawing.get_figheight() - heading.get_window_extent().height / drawing.dpi)
        heading.set(visible=False, in_layout=False)
        metadata = {"Title": figure.title, "Description": caption, "Date": None}
        FigureCanvasSVG(drawing).print_svg(svg := io.BytesIO(), metadata=metadata)
    for suffix, content in ((".png", png.getvalue()), (".svg", svg.getvalue()), (".txt", f"{caption}\n".encode())):
        write_atomically(stem.with_name(f"{stem.name}{suffix}"), content)
    return caption
