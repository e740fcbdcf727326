"""Figures are declared as data, drawn with the numbers of their tables, and written in the formats
asked for.
"""

from PIL import Image

from experiments.config.paths import figure_path
from experiments.figures.draw import figure_products
from experiments.figures.rendering import draw
from experiments.figures.shown import shown
from experiments.kinds.figures import FIGURES
from experiments.kinds.support import significant
from experiments.tables.stored import Stored
from tests.command_line import SMALL
from tests.shipped import STUDY


def test_a_panel_marks_where_its_unscaled_line_falls_through_the_scaled_one():
    ax = draw(shown(FIGURES["metrics"], STUDY["dimension"])).axes[3]
    lines = {bars.get_label(): bars[0].get_xydata() for bars in ax.containers}
    d_k, unscaled = lines["unscaled"].T
    is_above = unscaled > lines["d_k^1/2"][:, 1]
    (mark,) = [line for line in ax.lines if line.get_linestyle() == ":"]
    at = mark.get_xdata()[0]
    assert d_k[is_above].max() < at < d_k[~is_above].min()
    assert f" cross near {significant(at, 2):g}" in ax.texts[0].get_text()


def test_files_have_title_and_caption_and_come_out_byte_identical(drawn):
    config, folder = drawn
    sweeps = {sweep.name: sweep for sweep in config.sweeps}
    for where, name, axes in (("scaling", "variance", "d_k"), ("map", "map", "d_k and n_keys")):
        (again,) = figure_products(folder, [Stored(folder, sweeps[where]).read()])
        (path,) = again.files
        assert path == figure_path(folder, where, name)
        assert again.make() == [path.read_bytes()]
        with Image.open(path) as drawing:
            title, caption = (drawing.info[key] for key in ("Title", "Description"))
        assert title.lower() == f"sweep {where} over {axes}: {FIGURES[name].shows.lower()}"
        assert f"Sweep {where}: d_k = " in caption


def test_further_formats_are_drawn_on_request_and_kept_up_to_date(suite):
    suite("run", text=f"{SMALL}    figures: variance\n")
    pdf = suite.folder / "figures/mine/variance.pdf"
    png, svg = pdf.with_suffix(".png"), pdf.with_suffix(".svg")
    suite("draw")
    assert not pdf.exists()
    assert not svg.exists()
    assert f"drew {png}" in suite("draw", "-v", "--format", "pdf,svg").stdout
    assert b"<svg" in svg.read_bytes()
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    assert b"CreationDate" not in content
    assert b"/Subtype /Image" not in content
    assert f"kept {png}" in suite("draw", "-v").stdout
    pdf.write_bytes(b"changed")
    assert f"drew {png}" in suite("draw", "-v").stdout
    assert pdf.read_bytes() == content
