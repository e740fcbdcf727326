"""The common way to draw and save figures: the rows shown become a picture, and a picture with its
words becomes files.
"""

import io
from collections.abc import Callable, Iterable
from textwrap import wrap

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from experiments.config.paths import DRAWN_ROWS
from experiments.figures import curves, maps
from experiments.figures.formulas import latex
from experiments.figures.lines import draw_lines
from experiments.figures.shown import Shown
from experiments.figures.style import DPI, GREY, INK, STYLE, Drawing

_TITLE_POINTS = 13
_CAPTION_POINTS = 9.5
_LINE_POINTS = 8
_WIDTH_OF_LETTER = 0.55  # of the size of the font, on average
_LINE = 1.35  # height of a line over the size of the font
_MARGIN_INCHES = 0.07
_JOINED = "\u00a0=\u00a0"

# Of figures that are not lines, by name.
OWN_DRAWINGS: dict[str, Callable[[Shown], Drawing]] = {
    "assumptions": curves.assumptions,
    "distribution": curves.distribution,
    "map": maps.ratio_map,
    "phase": maps.phase,
    "rows": maps.rows,
}


def draw(what: Shown) -> Drawing:
    """The picture of the rows that a figure shows, without title and caption, in the style that is
    set.
    """
    return draw_lines(what.lines, what) if what.lines else OWN_DRAWINGS[what.name](what)


def picture(what: Shown) -> Drawing:
    """The picture with its formulas typeset, in the style of all figures."""
    with mpl.rc_context(STYLE):
        return typeset_drawing(draw(what))


def render(
    plot: Callable[[], Drawing],
    title: str,
    caption: str,
    *,
    formats: Iterable[str] = (),
) -> dict[str, bytes]:
    """The files of a picture, by suffix: `.png` with title and caption, `.txt` with both, one after
    the other, and others.

    The files contain nothing that varies between equal runs, such as dates or random ids.

    Args:
        plot: draws the picture; called in the style of all figures.
        title, caption: plain text with formulas; the last line of a caption is small and grey.
        formats: suffixes of further files, `.svg` or `.pdf`, with neither title nor caption in the
            picture.
    """
    with mpl.rc_context(STYLE):
        drawing = typeset_drawing(plot())
        files = {
            ".png": _png(drawing, title, caption),
            ".txt": f"{title}\n{caption}\n".encode(),
        }
        drawing.set_layout_engine("none")  # the PNG has settled it
        drawing.dpi = DPI  # of points drawn as an image; canvases change it
        about = {
            ".svg": {"Title": title, "Description": caption, "Date": None},
            ".pdf": {"Title": title, "Subject": caption, "CreationDate": None},
        }
        for suffix in formats:
            drawn = io.BytesIO()
            drawing.savefig(drawn, format=suffix[1:], metadata=about[suffix])
            files[suffix] = drawn.getvalue()
    return files


def typeset_drawing(drawing: Drawing) -> Drawing:
    """The drawing with the formulas of all its texts typeset, in place; tick labels typeset
    themselves.
    """
    for text in drawing.findobj(Text):
        text.set_text(latex(text.get_text()))
    return drawing


def _png(drawing: Drawing, title: str, caption: str) -> bytes:
    """A PNG with the title above the drawing and the caption below it."""
    # Not by `savefig`, which draws everything twice: the layout settles at the start of each
    # drawing.
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    inner = np.asarray(canvas.buffer_rgba())
    width = inner.shape[1]
    *sentences, line = caption.splitlines()
    above = _strip(title, width, drawing.dpi, _TITLE_POINTS)
    below = [_strip(sentence, width, drawing.dpi, _CAPTION_POINTS) for sentence in sentences]
    below.append(_strip(line, width, drawing.dpi, _LINE_POINTS, GREY))
    info = PngInfo()
    for key, value in (("Title", title), ("Description", caption)):
        # as UTF-8 always; Matplotlib chooses the encoding by the characters
        info.add_itxt(key, value)
    # The page, which has both in words, shows these rows alone.
    info.add_text(DRAWN_ROWS, f"{len(above)} {len(above) + len(inner)}")
    whole = Image.fromarray(np.vstack([above, inner, *below])).convert("RGB")
    # A third of the bytes: surfaces keep their colours, and only some pixels at edges change.
    image = whole.quantize(method=Image.Quantize.MAXCOVERAGE)
    dpi = drawing.dpi, drawing.dpi
    png = io.BytesIO()
    image.save(png, "png", dpi=dpi, pnginfo=info)
    return png.getvalue()


def _strip(
    text: str, width: int, dpi: float, points: float, colour: str = INK
) -> npt.NDArray[np.uint8]:
    """A text on white, over a width in pixels, as RGBA, (height, width, 4); its height follows from
    its lines.
    """
    inches = width / dpi
    letters = (inches - 2 * _MARGIN_INCHES) * 72 / (points * _WIDTH_OF_LETTER)
    # No break between a name and its value.
    lines = [
        latex(line.replace(_JOINED, " = "))
        for line in wrap(text.replace(" = ", _JOINED), int(letters))
    ]
    height = 2 * _MARGIN_INCHES + len(lines) * points * _LINE / 72
    strip = mpl.figure.Figure(figsize=(inches, height), dpi=dpi)
    at = {"x": _MARGIN_INCHES / inches, "y": 1 - _MARGIN_INCHES / height, "va": "top"}
    strip.text(s="\n".join(lines), fontsize=points, linespacing=_LINE, color=colour, **at)
    canvas = FigureCanvasAgg(strip)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[:, :width]
