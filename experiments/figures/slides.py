"""Slides for a talk: one panel and one message each, 16:9, in letters that the back row can
read.
"""

import io
from functools import partial
from typing import TYPE_CHECKING

from experiments.analysis.results import Results
from experiments.declarations import FIGURES
from experiments.declarations.figure import Lines, Slide
from experiments.declarations.tables import BOTH
from experiments.figures.findings import FindingError, mismatch
from experiments.output.products import Product, build
from experiments.output.reporter import FLAGGED, Reporter
from experiments.output.study import Study
from experiments.paths import SLIDES as FOLDER
from experiments.paths import sidecar_path

if TYPE_CHECKING:
    from experiments.figures.style import Drawing

_INCHES = (10, 5.625)
_DPI = 192  # 1920 by 1080 pixels
_BELOW_TITLE = 0.87  # of the height
_ABOVE_SIZES = 0.05
_SIZES_POINTS = 11
_TITLE_POINTS = 24
SLIDES = {slide.name: slide for figure in FIGURES.values() for slide in figure.slides}


def write_slides(study: Study, report: Reporter) -> None:
    """Draw the outdated slides as PNG and PDF into the folder `slides` of the results, and name
    those left out.

    Raises:
        FindingError: no title is about the sweeps and their tables.
    """
    results = study.folder
    products = []
    left_out = []
    for name, slide in SLIDES.items():
        if reason := _objection(slide, study.get(slide.sweep)):
            left_out.append(f"{name} ({reason})")
            continue
        files = tuple(results / FOLDER / f"{name}{suffix}" for suffix in (".png", ".pdf"))
        inputs = (sidecar_path(results, slide.sweep),)
        products.append(Product(files, partial(slide_files, slide, study[slide.sweep]), inputs))
    if not products:
        raise FindingError(
            f"{results}: expected tables that support the title of a slide; {'; '.join(left_out)}"
        )
    if left_out:
        report.verdict("left out", "; ".join(left_out), FLAGGED)
    build(results, products, report)


def _objection(slide: Slide, results: Results | None) -> str:
    """The reason why a sweep does not support the title of a slide; empty if it does."""
    if not results:
        return f"no table of a sweep {slide.sweep}"
    axes = {slide.x, slide.by} - {"scaling", "exponent"}
    if reason := mismatch(results.sweep, {**dict.fromkeys(axes, ()), "scaling": BOTH}):
        return f"sweep {results.name}: {reason}"
    return "" if slide.holds(results) else f"sweep {results.name} does not support its title"


def slide_files(slide: Slide, results: Results) -> list[bytes]:
    """A slide as PNG and as PDF, without anything that varies between equal runs."""
    import matplotlib as mpl  # takes a second to load, as all that draws

    from experiments.figures.captions import HOLLOW, hollow, sizes
    from experiments.figures.lines import draw_lines
    from experiments.figures.rendering import typeset
    from experiments.figures.shown import shown_by
    from experiments.figures.style import SLIDE, STYLE

    lines = Lines(slide.x, (slide.panel,), _INCHES, by=slide.by, rules=slide.rules)
    with mpl.rc_context(STYLE | SLIDE):
        shown = shown_by(lines, results)
        drawing = draw_lines(lines, shown)
        drawing.set_size_inches(_INCHES)
        panel = (0, _ABOVE_SIZES, 1, _BELOW_TITLE - _ABOVE_SIZES)
        drawing.set_layout_engine("constrained", rect=panel)
        for legend in drawing.legends:  # above the panel, where the title is
            legend.remove()
        drawing.axes[0].legend(loc="best")
        drawing.text(0.012, 0.97, slide.title, va="top", fontsize=_TITLE_POINTS)
        # Small: for the lecturer, and whoever opens the file later.
        note = f"{sizes(shown)} {HOLLOW if hollow(lines, shown) else ''}".strip()
        drawing.text(0.012, 0.02, note, va="bottom", fontsize=_SIZES_POINTS)
        typeset(drawing)
        return [
            _saved(drawing, "png", {"Title": slide.title, "Software": None}),
            _saved(drawing, "pdf", {"Title": slide.title, "CreationDate": None}),
        ]


def _saved(drawing: "Drawing", kind: str, about: dict[str, str | None]) -> bytes:
    file = io.BytesIO()
    drawing.savefig(file, format=kind, dpi=_DPI, metadata=about)
    return file.getvalue()
