"""Drawings on a page: what Matplotlib draws stays as it is, and fonts, styles and shapes are shared."""

import base64
import io
import re
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from fontTools.ttLib import TTFont
from matplotlib.figure import Figure

from experiments.page.coordinates import short_path
from experiments.page.svg import Drawings

SVG = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 100 80.126">
<title>it shows "this" &amp; that</title>
<metadata>who</metadata><defs><style>*{fill: red}</style><clipPath id="p1"><rect x="1.23456" y="2"/></clipPath></defs>
<g id="text_1"><g transform="translate(1 20) scale(0.1 -0.1)"><defs><path id="Own-1" d="M 0 0
L 1 1"/></defs><use xlink:href="#Own-1"/></g></g>
<g id="axes"><path clip-path="url(#p1)" style="fill: none" d="M 1 2 L 3 4"/><path clip-path="url(#p1)" d="M 1 2 L 3 5"/>
<defs><path id="m1" d="M 0 0 L 0 3.567" style="stroke: #111111"/></defs>
<use xlink:href="#m1" x="12.345" y="7" style="stroke: #222222; fill: #333333"/></g></svg>"""


def drawn(write, **size) -> str:
    """The SVG of a figure."""
    figure = Figure(**size)
    with mpl.rc_context({"svg.hashsalt": "same"}):
        write(figure)
        figure.savefig(svg := io.BytesIO(), format="svg", metadata={"Date": None})
    return svg.getvalue().decode()


def test_drawings_share_shapes_and_styles():
    drawings = Drawings()
    first, second = (drawings.inline(SVG) for _ in range(2))
    assert first == second
    title = '<title>it shows "this" &amp; that</title>'
    assert first.startswith(f'<svg viewBox="0 0 100 80.13" role="img">{title}')
    for gone in ("metadata", "style", "xmlns", "text_1", "defs", "#Own", "#m1", "#p1"):
        assert gone not in first
    shapes, css = drawings.shapes(), drawings.css()
    tick = re.search(r'<path id="(s\d)" d="m0 0v3.57"', shapes)[1]
    clip = re.search(r'<clipPath id="(s\d)"><rect x="1.23" y="2"/>', shapes)[1]
    assert f'<use href="#{tick}" x="12.3" y="7"/>' in first
    assert f'<g clip-path="url(#{clip})"><path d="m1 2 2 2" class="B"/><path d="m1 2 2 3"/></g>' in first
    assert first.count("clip-path") == 1
    assert ".A{" in css
    assert "{stroke:#111111;fill:#333333}" in css  # the style of a shape prevails
    ids = re.findall(r'id="(.*?)"', shapes)
    assert len(ids) == len(set(ids)) == 3


def test_a_drawing_without_room_leaves_no_trace():
    drawings = Drawings()
    drawings.inline(SVG)
    needed = 1_250_000 - drawings.room
    assert Drawings(room=needed).inline(SVG) != ""
    short = Drawings(room=needed - 1)
    assert short.inline(SVG) == ""
    assert short.room == needed - 1
    assert short.shapes() == Drawings().shapes()
    assert short.css() == Drawings().css()


def texts(drawing: str) -> dict[str, ET.Element]:
    """The text elements of a drawing by their whole text."""
    return {"".join(text.itertext()): text for text in ET.fromstring(drawing).iter("text")}


def test_letters_become_text_where_they_were():
    """The text starts at its position; a run of letters ends where the font says."""
    drawings = Drawings()

    def write(figure):
        figure.text(0.5, 0.5, "Affine fit: 3 − 1", fontsize=12, color="#ff0000")
        figure.text(0.5, 0.25, r"$d_k^{1/2}$ large", fontsize=10)
        figure.text(0.25, 0.25, "turned", rotation=90, weight="bold")

    drawing = drawings.inline(drawn(write, figsize=(4, 2)))
    found = texts(drawing)
    assert list(found) == ["Affine fit: 3 − 1", "d1/2k large", "turned"]
    plain, formula, turned = found.values()
    assert (plain.get("x"), plain.get("y"), plain.get("font-size")) == ("144", "72", "12")
    assert "{fill:#ff0000}" in drawings.css()
    runs = [formula, *formula]
    assert runs[0].get("font-style") == "italic"
    assert {run.get("font-size") for run in runs} == {None, "7"}
    by_text = {run.text: run for run in runs}
    assert float(by_text["1/2"].get("y")) < float(formula.get("y")) < float(by_text["k"].get("y"))
    assert turned.get("font-weight") == "bold"
    assert re.fullmatch(r"translate\(\S+ \S+\) rotate\(-90\)", turned.get("transform"))
    assert "<use" not in drawing


def test_fonts_contain_the_letters_in_use_with_their_widths():
    drawings = Drawings()
    drawings.inline(drawn(lambda figure: figure.text(0, 0.5, "softmax"), figsize=(4, 2)))
    (data,) = re.findall(r"@font-face{font-family:DejaVuSans;src:url\(data:font/woff;base64,(.*?)\)}", drawings.css())
    font = TTFont(io.BytesIO(base64.b64decode(data)))
    assert {chr(code) for code in font.getBestCmap()} == set("softmax")
    whole = TTFont(f"{mpl.get_data_path()}/fonts/ttf/DejaVuSans.ttf")
    for letter in "softmax":
        widths = [one["hmtx"][one.getBestCmap()[ord(letter)]][0] for one in (font, whole)]
        assert widths[0] == widths[1]
    assert "GPOS" not in font
    again = Drawings()
    again.inline(drawn(lambda figure: figure.text(0, 0.5, "softmax"), figsize=(4, 2)))
    assert again.css() == drawings.css()


def test_glyphs_without_text_stay_paths():
    """The bar of a root, and letters of fonts that do not come with Matplotlib."""
    drawings = Drawings()
    drawing = drawings.inline(drawn(lambda figure: figure.text(0, 0.5, r"$\sqrt{d}$"), figsize=(4, 2)))
    assert "<path" in drawing.split("<g")[-1]
    assert "<use" in drawings.inline(SVG)
    assert "<text" not in drawings.inline(SVG)


def points(data: str) -> list[complex]:
    """The ends of the lines and curves of relative path data."""
    pen, start, found = 0j, 0j, []
    for letter, numbers in re.findall(r"([a-z])([^a-z]*)", data):
        values = [float(text) for text in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", numbers)]
        size = {"m": 2, "l": 2, "h": 1, "v": 1, "q": 4, "c": 6, "z": 1}[letter]
        if letter == "z":
            pen = start
        for at in range(0, len(values), size):
            part = values[at : at + size]
            pen += part[0] if letter == "h" else 1j * part[0] if letter == "v" else complex(*part[-2:])
            start = pen if letter == "m" and at == 0 else start
            found.append(pen)
    return found


def test_short_paths_keep_their_points_without_drift():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(scale=0.13, size=(2000, 2)), axis=0) + 100
    data = "M " + " L ".join(f"{x:.6f} {y:.6f}" for x, y in walk)
    got = np.array(points(short_path(data)))
    assert abs(got[-1] - complex(*walk[-1])) < 0.08
    apart = np.abs(got[:, None] - (walk[:, 0] + 1j * walk[:, 1])[None])
    assert apart.min(axis=0).max() < 0.08
    assert len(short_path(data)) < len(data) / 2


def test_other_path_commands_are_refused():
    with pytest.raises(ValueError, match=r"expected a command of M, L, Q, C, z in path data, got .*'A'"):
        short_path("M 0 0 A 1 1 0 0 0 5 5")
