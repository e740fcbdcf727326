"""The common way to draw and save figures: the rows shown become a picture, and a picture with its
words becomes files.
"""

import io
from collections.abc import Callable, Iterable

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from experiments.figures.formulas import latex
from experiments.figures.lines import draw_lines
from experiments.figures.picture import DPI, LINE, MARGIN_INCHES, Picture, Strip
from experiments.figures.shown import Shown
from experiments.figures.style import GREY, INK, STYLE, Drawing
from experiments.kinds import modules

# Of figures that are not lines, by name.
OWN_DRAWINGS: dict[str, Callable[[Shown], Drawing]] = {
    name: drawing for _, module in modules("drawing") for name, drawing in module.DRAWINGS.items()
}


def draw(shown: Shown) -> Drawing:
    """The picture of the rows that a figure shows, without title and caption, in the style that is
    set.
    """
    return draw_lines(shown.lines, shown) if shown.lines else OWN_DRAWINGS[shown.name](shown)


def typeset_picture(shown: Shown) -> Drawing:
    """The picture with its formulas typeset, in the style of all figures."""
    with mpl.rc_context(STYLE):
        return typeset_drawing(draw(shown))


def render(made: Picture, formats: Iterable[str] = ()) -> list[bytes]:
    """The files of a picture: the PNG, and those in further formats, `.svg` or `.pdf`, which have
    neither title nor caption in the picture.

    The files contain nothing that varies between equal runs, such as dates or random ids.
    """
    title, caption = made.words[:2]
    with mpl.rc_context(STYLE):
        drawing = typeset_drawing(made.plot())
        files = [_png(drawing, made)]
        drawing.set_layout_engine("none")  # the PNG has settled it
        drawing.dpi = DPI  # of points drawn as an image; canvases change it
        about = {
            ".svg": {"Title": title, "Description": caption, "Date": None},
            ".pdf": {"Title": title, "Subject": caption, "CreationDate": None},
        }
        for suffix in formats:
            drawn = io.BytesIO()
            drawing.savefig(drawn, format=suffix[1:], metadata=about[suffix])
            files.append(drawn.getvalue())
    return files


def typeset_drawing(drawing: Drawing) -> Drawing:
    """The drawing with the formulas of all its texts typeset, in place; tick labels typeset
    themselves.
    """
    for text in drawing.findobj(Text):
        text.set_text(latex(text.get_text()))
    return drawing


def _png(drawing: Drawing, made: Picture) -> bytes:
    """A PNG with the title above the drawing and the caption below it."""
    # Not by `savefig`, which draws everything twice: the layout settles at the start of each
    # drawing.
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    inner = np.asarray(canvas.buffer_rgba())
    width = inner.shape[1]
    title, *sentences, line = made.strips(width)
    above = _pixels(title, width)
    below = [*(_pixels(sentence, width) for sentence in sentences), _pixels(line, width, GREY)]
    info = PngInfo()
    for key, value in zip(("Title", "Description"), made.words[:2], strict=True):
        # as UTF-8 always; Matplotlib chooses the encoding by the characters
        info.add_itxt(key, value)
    # For programs that show the drawing alone: its first row, and that of the caption.
    info.add_text("Rows", f"{len(above)} {len(above) + len(inner)}")
    whole = Image.fromarray(np.vstack([above, inner, *below])).convert("RGB")
    # A third of the bytes: surfaces keep their colours, and only some pixels at edges change.
    image = whole.quantize(method=Image.Quantize.MAXCOVERAGE)
    png = io.BytesIO()
    image.save(png, "png", dpi=(DPI, DPI), pnginfo=info)
    return png.getvalue()


def _pixels(
    strip: Strip,
    width: int,
    colour: str = INK,
) -> npt.NDArray[np.uint8]:
    """A text on white, over a width in pixels, as RGBA, (rows, width, 4)."""
    inches = width / DPI
    drawn = mpl.figure.Figure(figsize=(inches, strip.inches), dpi=DPI)
    at = {"x": MARGIN_INCHES / inches, "y": 1 - MARGIN_INCHES / strip.inches, "va": "top"}
    text = "\n".join(map(latex, strip.lines))
    drawn.text(s=text, fontsize=strip.points, linespacing=LINE, color=colour, **at)
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[:, :width]
