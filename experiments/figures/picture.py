"""A picture as a value: for its files, the page and tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from experiments.config.errors import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawing: TypeAlias = "Figure"  # its module takes a second to load
DPI = 150
_TITLE_POINTS = 13
_CAPTION_POINTS = 9.5
_LINE_POINTS = 8
_WIDTH_OF_LETTER = 0.55  # of the size of the font, on average
_JOINED = "\u00a0=\u00a0"
LINE = 1.35  # height of a line over the size of the font
MARGIN_INCHES = 0.07


class Words(NamedTuple):
    """Title and caption of a picture, as plain text with formulas.

    Attributes:
        title: of the finding, or the plain one.
        caption: the sentence of the finding, if any; and the grey line.
        is_found: True if they have the finding.
        lost: the title of the finding, if a shipped sweep has lost it; else empty.
        reason: why it has.
    """

    title: str
    caption: str
    is_found: bool = False
    lost: str = ""
    reason: str = ""


def supported(title: str, is_shown: bool) -> str:
    """The title of a finding; `Problem` unless the tables show it."""
    if not is_shown:
        raise Problem(f"the tables do not support: {title}")
    return title


class Strip(NamedTuple):
    """A text over the width of a picture: its lines, and the size of its letters in points."""

    lines: list[str]
    points: float

    @property
    def inches(self) -> float:
        """Its height."""
        return 2 * MARGIN_INCHES + len(self.lines) * self.points * LINE / 72

    @property
    def rows(self) -> int:
        """Its height in pixels."""
        return int(self.inches * DPI)


@dataclass(frozen=True)
class Picture:
    """A picture with its words. Its PNG has the title above the drawing and the caption below it.

    Attributes:
        path: of the PNG.
        words: title and caption.
        plot: draws it, without both, in the style that is set. It may run in another process.
    """

    path: Path
    words: Words
    plot: Callable[[], Drawing]

    def strips(self, width: int) -> list[Strip]:
        """The texts of its PNG, of that width in pixels: title, sentences and grey line."""
        title, caption = self.words[:2]
        texts = [title, *caption.splitlines()]
        sizes = [_TITLE_POINTS, *[_CAPTION_POINTS] * (len(texts) - 2), _LINE_POINTS]
        return [_strip(*pair, width) for pair in zip(texts, sizes, strict=True)]

    def render(self, formats: Sequence[str] = ()) -> list[bytes]:
        """The PNG, and files of further formats, `.svg` or `.pdf`."""
        from experiments.figures.rendering import render  # takes a second to load

        return render(self, formats)


def _strip(text: str, points: float, width: int) -> Strip:
    letters = 72 * (width / DPI - 2 * MARGIN_INCHES) / (points * _WIDTH_OF_LETTER)
    # No break between a name and its value.
    lines = wrap(text.replace(" = ", _JOINED), int(letters))
    return Strip([line.replace(_JOINED, " = ") for line in lines], points)
