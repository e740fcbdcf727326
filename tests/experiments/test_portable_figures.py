"""PDF and SVG files of figures: drawn on request, kept up to date from then on, and removed with their figure."""

import re

import pytest

from tests.command_line import SMALL

ONE = f"{SMALL}    figures: slide\n"


def test_further_formats_are_drawn_on_request_kept_up_to_date_and_pruned(suite):
    suite("run", text=ONE)
    pdf = suite.folder / "figures/mine/slide.pdf"
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
    suite("prune", text=ONE.replace("slide", "saturation"))
    assert not pdf.exists()
    assert not svg.exists()


@pytest.mark.parametrize("formats", ["jpg", "png,jpg", "", "pdf,"])
def test_an_unknown_format_is_refused_before_anything_is_drawn(suite, formats):
    bad = re.escape(repr(formats.rpartition(",")[2]))
    for command in ("draw", "all"):
        refused = suite(command, "--format", formats, text=ONE)
        assert refused.returncode == 2
        assert re.search(rf"--format: got the format {bad}, expected some of png, svg, pdf", refused.stderr)
    assert not (suite.folder / "figures").exists()
