"""Slides: their titles, their size, and tables that do not support them."""

import io
import re

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from experiments.config.loader import load_config
from experiments.figures.findings import FindingError
from experiments.figures.slides import SLIDES, slide_files, write_slides
from experiments.output.reporter import Reporter
from experiments.output.study import Study
from tests.shipped import ROOT


@pytest.fixture(scope="module")
def tables():
    return Study(load_config(ROOT / "config.yaml"), ROOT / "results")


def test_slides_are_few_and_titles_are_short_and_without_numbers():
    assert len(SLIDES) <= 10
    assert all(
        len(slide.title.split()) <= 10 and not re.search(r"\d", slide.title)
        for slide in SLIDES.values()
    )


@pytest.mark.parametrize("name", SLIDES)
def test_a_title_holds_for_the_shipped_table_and_not_for_its_values_in_another_order(name, tables):
    slide = SLIDES[name]
    results = tables[slide.sweep]
    assert slide.holds(results)
    measured, metric = results.measured, slide.panel.metric
    shown = [column for column in measured if column.startswith(metric)]
    order = np.random.default_rng(0).permutation(len(measured))
    other = measured.assign(**{name: measured[name].to_numpy()[order] for name in shown})
    assert not slide.holds({**results, "measured": other})


def test_a_slide_is_16_to_9_and_the_same_every_time(tables):
    png, pdf = files = slide_files(SLIDES["longer-rows"], tables["length"])
    assert Image.open(io.BytesIO(png)).size == (1920, 1080)
    assert pdf.startswith(b"%PDF")
    assert slide_files(SLIDES["longer-rows"], tables["length"]) == files


def test_a_slide_names_its_sizes(tables, monkeypatch):
    written = []
    monkeypatch.setattr(Figure, "text", lambda *args, **_: written.append(args[3]))
    slide_files(SLIDES["longer-rows"], tables["length"])
    _, small = written
    assert small.startswith("d_k = 64, n_keys = 16 to 4096")
    slide_files(SLIDES["saturated-rows"], tables["dimension"])
    assert written[-1].endswith("Hollow points: too few draws for a reliable interval.")


def test_without_a_table_there_is_no_slide(tmp_path):
    with pytest.raises(FindingError, match=r"variance \(no table of a sweep dimension\)"):
        write_slides(Study(load_config(ROOT / "quick.yaml"), tmp_path), Reporter(verbose=True))
