"""Small grids of every experiment that have every value of each key, and together every pair of values
of two keys: tables, check, figures with true captions, and a page come out.
"""

import functools
import itertools
import re
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text

from experiments.commands.check import check
from experiments.commands.job import Job
from experiments.commands.measure import measure
from experiments.figures.captions import plain_caption
from experiments.figures.formulas import latex
from experiments.figures.rendering import draw
from experiments.figures.shown import Shown, shown
from experiments.figures.style import Drawing
from experiments.figures.words import short, values_of
from experiments.kinds import experiment_names
from experiments.kinds.figures import FIGURES, default_figures
from experiments.kinds.language import cell as language
from experiments.kinds.network import tables as network
from experiments.publication.pages.index import make_page
from experiments.running import workers
from experiments.tables import analyse
from experiments.tables.reporter import Reporter
from sdpa.theory.gradient_growth import StackLayer
from tests.examples import EDITS, load_sweeps, with_common

FURTHER = "further"  # axes beside those that every sweep of the experiment has
PRODUCTS = [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]]  # of that field, where + is ^


def covering(choices: dict[str, list], fifth: Sequence[int]) -> list[dict[str, object]]:
    """Points of a grid of at most four keys of at most four values: those of the orthogonal array over
    the field of four elements with these values in the fifth column.

    All sixteen have every value of each key beside every value of any other; of either half, `(0, 1)` and
    `(2, 3)`, each value of a key stands in two.
    """
    varied = [key for key, given in choices.items() if len(given) > 1]
    points = {}
    for a, b in itertools.product(range(4), repeat=2):
        *columns, last = [a, b, *(a ^ PRODUCTS[c][b] for c in (1, 2, 3))]
        if last in fifth:
            places = dict(zip(varied, columns[: len(varied)], strict=True))
            chosen = {key: places.get(key, 0) % len(given) for key, given in choices.items()}
            points[(*chosen.values(),)] = {
                key: choices[key][place] for key, place in chosen.items()
            }
    return [*points.values()]


def grids(name: str) -> list[dict[str, object]]:
    """The sweeps of an experiment: all points for the question itself, and of the others half of them,
    in turn.
    """
    half = 2 * (experiment_names().index(name) % 2)
    fifth = range(4) if name == "saturation" else (half, half + 1)
    points = covering(with_common(name, "edits", EDITS), fifth)
    further = [point.pop(FURTHER, {}) for point in points]
    return [
        {"experiment": name} | point | others for point, others in zip(points, further, strict=True)
    ]


# The layout of a formula, once for all texts with it.
typeset = functools.cache(MathTextParser("path").parse)


def assert_true(drawing: Drawing, texts: set[str], caption: str, drawn: Shown) -> None:
    """Each value of an axis in the caption is in the drawing: on an axis or in a text; of a range,
    both ends. An unusual value of one axis may stand without the usual ones of others.
    """
    axes = drawn.results.axes
    assert caption.endswith(".")
    assert not re.search(r"\bnan\b|\binf\b|\{|  ", caption), caption
    xs = (x for ax in drawing.axes for line in ax.lines for x in line.get_xdata())
    places = {f"{x:g}" for x in xs if not isinstance(x, str)}
    sizes, *_ = caption.split("Not drawn")
    for name in axes.varied(drawn.results.measured):
        listed = re.search(
            rf"\b{name} = (.+?)(?=, \w+ = |, \d+ cases of |, and more|;|\.\s|\.$)", sizes
        )
        values = re.split(" and | to |, ", listed[1]) if listed else []
        usual = short(axes.usual[name])
        assert {*values} <= {usual, *map(short, drawn.rows[name])}, f"{name} of no row: {caption}"
        for value in [*{*values} - {usual}] if len(values) > 1 else ():
            said = latex(values_of(pd.Series({name: value}), [name]))
            is_named = value in places | texts or any(said in latex(text) for text in texts)
            assert is_named, f"{said} is not drawn: {caption}"


@pytest.fixture
def quick(monkeypatch):
    """Without what takes seconds: exact values are the measured ones but for every fifth, laws are
    constant, decoders stay at their start, and tables are made in this process.
    """

    def with_exact(experiment, measured):
        known = np.arange(len(measured)) % 5 < 4
        exact = {
            f"{metric.name}_exact": measured[metric.name].where(known)
            for metric in experiment.metrics
            if metric.exact
        }
        return measured.assign(**exact)

    train, law = language.train, StackLayer(*[0.5] * len(StackLayer._fields))
    monkeypatch.setattr(analyse, "with_exact", with_exact)
    monkeypatch.setattr(language, "train", lambda *run: itertools.islice(train(*run), 1))
    monkeypatch.setattr(network, "attention_stack", lambda layers, *_, **__: [law] * layers)
    monkeypatch.setattr(workers, "_FEW", 99)


@pytest.mark.edits
@pytest.mark.usefixtures("in_this_process", "quick_slider", "quick")
@pytest.mark.parametrize("name", experiment_names())
def test_every_small_grid_has_its_figures_and_its_page(tmp_path, name):
    sweeps = {f"grid{i}": grid for i, grid in enumerate(grids(name))}
    config = load_sweeps(tmp_path, sweeps)
    job = Job(config, tmp_path, Reporter(verbose=True))
    measure(job)
    check(job)
    study = job.study
    for sweep in config.sweeps:
        assert sweep.figures == default_figures(name)
        for figure in map(FIGURES.get, sweep.figures):
            drawn = shown(figure, study[sweep.name])
            # Layout and formulas take most of the time.
            with mpl.rc_context({"text.parse_math": False}):
                drawing, caption = draw(drawn), plain_caption(figure, drawn)
                texts = {" ".join(text.get_text().split()) for text in drawing.findobj(Text)}
                drawing.set_layout_engine("none")
                drawing.draw_without_rendering()
            for formula in re.findall(r"\$[^$]+\$", latex(" ".join(texts))):
                typeset(formula)
            if drawing.axes[0].axison:  # not empty, with the reason
                assert_true(drawing, texts, caption, drawn)
    page = make_page(study).decode()
    assert all(f'id="sweep.{sweep}"' in page for sweep in sweeps)
