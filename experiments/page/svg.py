"""Several drawings in one page: without prologues, and with fonts, styles and shapes that they share.

The page contains each font, each style and each shape once, whatever their number of drawings, and names them briefly.
"""

import copy
import itertools
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

from experiments.page.coordinates import rounded, short_path
from experiments.page.lettering import Lettering

_URL = re.compile(r"url\(#([^)]+)\)")
_TAG = re.compile(r"<\w+")
_DROPPED = {"metadata", "style"}
_NEVER_REFERRED_TO = {"g", "image"}
_LENGTHS = ("x", "y", "width", "height")
_SHAPE_DECIMALS = 2  # of the drawing, and of shapes such as markers, which are small
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # of classes; those of page.css are in lower case
ROOM = 1_250_000  # characters for all drawings with their styles and shapes, so that a page stays below 2 MB


@dataclass
class Drawings:
    """Adapts SVG files to one page, and collects what they share.

    Attributes:
        room: the number of characters that further drawings may have, with their styles and shapes.
    """

    room: int = ROOM
    _lettering: Lettering = field(default_factory=Lettering)
    _shapes: dict[str, str] = field(default_factory=dict)  # names by element without id
    _classes: dict[str, str] = field(default_factory=dict)  # names by style

    def inline(self, svg: str) -> str:
        """An SVG file as an element of a page; empty if there is no room left.

        It contains its title for screen readers.

        Args:
            svg: the text of a file that Matplotlib wrote.
        """
        shapes, classes, size = dict(self._shapes), dict(self._classes), self._size()
        root = ET.fromstring(svg)
        _clean(root)
        view = rounded(root.get("viewBox", ""), _SHAPE_DECIMALS)
        self._lettering.replace_in(root)
        self._share_shapes(root)
        _flatten(root)
        _gather_clipped(root)
        for element in root.iter():
            self._shorten(element)
        root.attrib.clear()
        root.attrib |= {"viewBox": view, "role": "img"}
        drawing = _text(root)
        needed = len(drawing) + self._size() - size
        if needed > self.room:
            self._shapes, self._classes = shapes, classes
            return ""
        self.room -= needed
        return drawing

    def shapes(self) -> str:
        """The element with the shapes of all drawings."""
        shapes = "".join(_TAG.sub(rf'\g<0> id="{name}"', shape, count=1) for shape, name in self._shapes.items())
        return f'<svg class="shapes" width="0" height="0" aria-hidden="true"><defs>{shapes}</defs></svg>'

    def css(self) -> str:
        """The style sheet of all drawings: their fonts and styles."""
        rules = (f".{name}{{{style}}}" for style, name in self._classes.items())
        return "\n".join([self._lettering.css(), *rules])

    def _size(self) -> int:
        """The number of characters of what the drawings share, apart from fonts and brackets."""
        return sum(len(text) + len(name) for named in (self._shapes, self._classes) for text, name in named.items())

    def _share_shapes(self, root: ET.Element) -> None:
        """Move the definitions in use out of a drawing, and refer to them by their names on the page."""
        shapes = {}
        for parent in [element for element in root.iter() if element.tag == "defs"]:
            for shape in list(parent):
                shapes[shape.attrib.pop("id", "")] = shape
                parent.remove(shape)
        for element in root.iter():
            for key, value in element.attrib.items():
                if key == "href" and value.startswith("#"):
                    element.set(key, f"#{self._name(shapes[value[1:]], element.attrib.pop('style', ''))}")
                    break
                element.set(key, _URL.sub(lambda match: f"url(#{self._name(shapes[match[1]])})", value))

    def _name(self, shape: ET.Element, style: str = "") -> str:
        """The name on the page of a shape, whose own style prevails over another one."""
        shape = copy.deepcopy(shape)
        whole = _rules(style) | _rules(shape.get("style", ""))
        shape.set("style", "; ".join(": ".join(rule) for rule in whole.items()))
        for element in shape.iter():
            self._shorten(element, _SHAPE_DECIMALS)
        return self._shapes.setdefault(_text(shape), f"s{len(self._shapes)}")

    def _shorten(self, element: ET.Element, decimals: int = 1) -> None:
        """Round lengths, shorten paths, and turn a style into a class."""
        for name, value in list(element.attrib.items()):
            if name == "d":
                element.set(name, short_path(value, decimals))
            elif name in _LENGTHS or name == "transform":
                element.set(name, rounded(value, decimals))
            elif name == "style":
                del element.attrib[name]
                if style := rounded(value, _SHAPE_DECIMALS).replace(": ", ":").replace("; ", ";"):
                    element.set("class", self._classes.setdefault(style, _word(len(self._classes))))


def _word(number: int) -> str:
    """A class name for a number.

    >>> _word(0), _word(25), _word(26), _word(27)
    ('A', 'Z', 'AA', 'AB')
    """
    rest, last = divmod(number, len(_LETTERS))
    return (_word(rest - 1) if rest else "") + _LETTERS[last]


def _clean(root: ET.Element) -> None:
    """Remove metadata, style sheets, namespaces and the space between elements; drop ids without use."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.split("}")[-1] in _DROPPED:
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.split("}")[-1]
        attributes = {name.split("}")[-1]: value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib |= {
            name: value for name, value in attributes.items() if name != "id" or element.tag not in _NEVER_REFERRED_TO
        }
        element.text = element.text if element.tag == "title" else None
        element.tail = None


def _flatten(root: ET.Element) -> None:
    """Replace groups without attributes by their content, and remove empty groups and definitions."""
    for child in list(root):
        _flatten(child)
        if child.tag in ("g", "defs") and not (len(child) and child.attrib):
            at = list(root).index(child)
            root[at : at + 1] = list(child)


def _gather_clipped(root: ET.Element) -> None:
    """Put elements that follow one another and are clipped by one path into one group."""
    for parent in list(root.iter()):
        gathered: list[ET.Element] = []
        for clip, run in itertools.groupby(parent, lambda element: _clip_of(element)):
            elements = list(run)
            if clip and len(elements) > 1:
                group = ET.Element("g", {"clip-path": clip})
                for element in elements:
                    del element.attrib["clip-path"]
                    group.extend([element] if element.attrib else list(element))
                elements = [group]
            gathered += elements
        parent[:] = gathered


def _clip_of(element: ET.Element) -> str:
    """The clip path of an element in the coordinates of the drawing; empty if it has none."""
    return "" if "transform" in element.attrib else element.get("clip-path", "")


def _rules(style: str) -> dict[str, str]:
    """The properties of a style."""
    return dict(rule.split(": ") for rule in style.split("; ") if rule)


def _text(element: ET.Element) -> str:
    return ET.tostring(element, encoding="unicode").replace(" />", "/>")
