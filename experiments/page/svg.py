"""Several drawings in one page: without prologues, with unique ids, and with each glyph once.

Matplotlib writes each letter as a path. Drawings on one page share these paths, and other ids get a prefix, because ids
must be unique in an HTML document.
"""

import re
import xml.etree.ElementTree as ET

_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_REFERENCE = re.compile(r"#([^)\"]+)")
_GLYPH = re.compile(r"DejaVu|Cmsy|Cmmi|Cmr|STIX")
_ALONG = re.compile(r"translate\((\S+) 0\)")
_DROPPED = {"metadata", "style"}
_ROOM = 1_550_000  # characters for all drawings, so that a page stays below 2 MB


class Drawings:
    """Adapts SVG files to one page, and collects the glyphs that they share.

    The constructor takes the number of characters that all drawings of the page may have together.
    """

    def __init__(self, room: int = _ROOM) -> None:
        self._glyphs: dict[str, str] = {}
        self._room = room

    def inline(self, svg: str, prefix: str) -> str:
        """An SVG file as an element of a page, with prefixed ids; empty if there is no room left.

        It contains its title for screen readers.

        Args:
            svg: the text of a file that Matplotlib wrote.
            prefix: unique among the drawings of the page.

        Raises:
            ValueError: a glyph has another shape than in an earlier drawing.
        """
        root = ET.fromstring(svg)
        _clean(root)
        for parent, glyph in [(p, c) for p in root.iter() for c in p if _GLYPH.match(c.get("id", ""))]:
            self._keep(glyph)
            parent.remove(glyph)
        for element in root.iter():
            _shorten(element, prefix)
        for parent in list(root.iter()):
            for child in [c for c in parent if c.tag == "defs" and not len(c)]:
                parent.remove(child)
        view = _rounded(root.get("viewBox", ""))
        root.attrib.clear()
        # The file's style sheet applies to all its elements; on the page it would apply to the whole page.
        root.attrib |= {"viewBox": view, "stroke-linejoin": "round", "role": "img"}
        drawing = ET.tostring(root, encoding="unicode")
        if len(drawing) > self._room:
            return ""
        self._room -= len(drawing)
        return drawing

    def glyphs(self) -> str:
        """The element with the glyphs of all drawings."""
        shapes = "".join(self._glyphs[name] for name in sorted(self._glyphs))
        return f'<svg class="glyphs" width="0" height="0" aria-hidden="true"><defs>{shapes}</defs></svg>'

    def _keep(self, glyph: ET.Element) -> None:
        """Collect a glyph under its id, which names font and character."""
        name = glyph.attrib["id"]
        glyph.set("d", " ".join(glyph.get("d", "").split()))  # a space has no path
        glyph.tail = None
        shape = ET.tostring(glyph, encoding="unicode")
        if self._glyphs.setdefault(name, shape) != shape:
            raise ValueError(f"expected one shape of the glyph {name}, got two")


def _clean(root: ET.Element) -> None:
    """Remove metadata, style sheets, namespaces and the space between elements."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.split("}")[-1] in _DROPPED:
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.split("}")[-1]
        attributes = {name.split("}")[-1]: value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib |= attributes
        element.text = element.text if element.tag == "title" else None
        element.tail = None


def _shorten(element: ET.Element, prefix: str) -> None:
    """Prefix ids and references to them, round numbers to hundredths, and turn a shift along a line into an x."""
    attributes = dict(element.attrib)
    element.attrib.clear()
    for name, value in attributes.items():
        if name == "id":
            # Groups have ids too, but nothing refers to them.
            element.attrib |= {} if element.tag == "g" else {"id": f"{prefix}{value}"}
        elif name == "transform" and element.tag == "use" and (along := _ALONG.fullmatch(value)):
            element.set("x", _rounded(along[1]))
        elif name in ("href", "clip-path") or "url(" in value:
            element.set(name, _REFERENCE.sub(lambda m: m[0] if _GLYPH.match(m[1]) else f"#{prefix}{m[1]}", value))
        elif not (name == "style" and value == ""):
            element.set(name, value if name == "id" else " ".join(_rounded(value).split()))


def _rounded(text: str) -> str:
    """A text with every decimal number in it rounded as by `_plain`."""
    return _NUMBER.sub(lambda match: _plain(float(match[0])), text)


def _plain(value: float) -> str:
    """A number to hundredths; small numbers, which are scales, to four digits.

    >>> _plain(12.3456), _plain(12.0), _plain(0.015625)
    ('12.35', '12', '0.01562')
    """
    return f"{value:.4g}" if abs(value) < 0.1 else f"{value:.2f}".rstrip("0").rstrip(".")
