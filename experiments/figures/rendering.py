"""The common way to draw and save figures.

The module of a figure makes a drawing, a title and a caption; this module turns them into files.
"""

import io
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.text import Text
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from experiments.figures.figure import Drawing, Figure, Tables
from experiments.figures.formulas import latex
from experiments.figures.style import DPI, STYLE, wrapped
from experiments.harness.files import write_atomically

_TITLE_POINTS, _CAPTION_POINTS = 13, 9.5
_SLIDE_POINTS = 20  # of the title of a slide
_WIDTH_OF_LETTER = 0.55  # of the size of the font, on average
_LINE = 1.35  # height of a line over the size of the font
_MARGIN_INCHES = 0.09

Pixels = npt.NDArray[np.uint8]


def render(figure: Figure, tables: Tables, stem: Path, *, pdf: bool = False) -> str:
    """Draw a figure and write STEM.png with title and caption, STEM.svg with neither, and STEM.txt with both.

    The SVG is for pages, which show title and caption as text; a PDF has neither too. The first line of STEM.txt is
    the title, the second one the caption. The files contain nothing that varies between equal runs, such as dates or
    random ids.

    Args:
        figure: the declaration.
        tables: at least those that it reads, as far as they exist.
        stem: path of the files without suffix.
        pdf: True to write STEM.pdf too.

    Returns:
        The caption.
    """
    chosen = figure.chosen(tables)
    title, caption = figure.heading(chosen), figure.caption(chosen)
    with mpl.rc_context({**sns.axes_style("ticks"), **STYLE}):
        drawing = typeset(figure.plot(chosen))
        files = {".txt": f"{title}\n{caption}\n".encode(), ".png": _png(drawing, title, caption, figure.is_slide)}
        drawing.set_layout_engine("none")  # the PNG has settled it
        metadata = {"Title": title, "Description": caption, "Date": None}
        FigureCanvasSVG(drawing).print_svg(svg := io.BytesIO(), metadata=metadata)
        files[".svg"] = svg.getvalue()
        if pdf:
            files[".pdf"] = _pdf(drawing, title, caption)
    for suffix, content in files.items():
        write_atomically(stem.with_name(f"{stem.name}{suffix}"), content)
    return caption


def typeset(drawing: Drawing) -> Drawing:
    """The drawing with the formulas of all its texts typeset, in place; tick labels typeset themselves."""
    for text in drawing.findobj(Text):
        text.set_text(latex(text.get_text()))
    return drawing


def _pdf(drawing: Drawing, title: str, caption: str) -> bytes:
    """A PDF of the drawing alone, without the time of its creation."""
    drawing.dpi = DPI  # of points drawn as an image; other canvases change it
    metadata = {"Title": title, "Subject": caption, "CreationDate": None}
    FigureCanvasPdf(drawing).print_pdf(pdf := io.BytesIO(), metadata=metadata)
    return pdf.getvalue()


def _png(drawing: Drawing, title: str, caption: str, is_slide: bool) -> bytes:
    """A PNG with the title above the drawing and the caption below it; a slide has no caption."""
    # Not by `savefig`, which draws everything twice: the layout settles at the start of each drawing.
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    inner = np.asarray(canvas.buffer_rgba())
    parts = [
        _strip(title, inner.shape[1], drawing.dpi, _SLIDE_POINTS if is_slide else _TITLE_POINTS),
        inner,
        *([] if is_slide else [_strip(caption, inner.shape[1], drawing.dpi, _CAPTION_POINTS)]),
    ]
    info = PngInfo()
    for key, value in (("Title", title), ("Description", caption)):
        info.add_itxt(key, value)  # as UTF-8 always; Matplotlib chooses the encoding by the characters
    image = Image.fromarray(np.vstack(parts)).convert("RGB")
    image.save(png := io.BytesIO(), "png", dpi=(drawing.dpi, drawing.dpi), pnginfo=info)
    return png.getvalue()


def _strip(text: str, width: int, dpi: float, points: float) -> Pixels:
    """A text on white, over a width in pixels; its height follows from its lines.

    Returns:
        RGBA values, (height, width, 4).
    """
    inches = width / dpi
    letters = (inches - 2 * _MARGIN_INCHES) * 72 / (points * _WIDTH_OF_LETTER)
    lines = [latex(line) for line in wrapped(text, letters).split("\n")]
    height = 2 * _MARGIN_INCHES + len(lines) * points * _LINE / 72
    strip = Drawing(figsize=(inches, height), dpi=dpi)
    at = {"x": _MARGIN_INCHES / inches, "y": 1 - _MARGIN_INCHES / height, "va": "top"}
    strip.text(s="\n".join(lines), fontsize=points, linespacing=_LINE, **at)
    canvas = FigureCanvasAgg(strip)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[:, :width]
