"""Small grids of every experiment: tables, check, figures with true captions and a page come out."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from experiments.commands.check import check
from experiments.commands.measure import measure
from experiments.config.loader import load_config
from experiments.config.models import config_names, kinds_of
from experiments.figures.captions import plain_caption
from experiments.figures.rendering import draw as draw_one
from experiments.figures.rendering import typeset_drawing
from experiments.figures.shown import shown
from experiments.figures.style import Drawing
from experiments.figures.words import latex, short, values_of
from experiments.kinds import experiment_names
from experiments.kinds.figures import FIGURES, default_figures, figures_of
from experiments.measuring.columns import cell_fields, defaults, names
from experiments.measuring.experiment import load_experiment
from experiments.publication.pages.index import make_page
from experiments.running import workers
from experiments.running.workers import LocalWorkers
from experiments.tables import analyse, derived
from experiments.tables.reporter import Reporter
from experiments.tables.results import Results
from experiments.tables.study import Study

Axes = dict[str, object]
# The values of each key: one, two, three and more widths, lengths and rules.
CHOICES: dict[str, list[object]] = {
    "d_k": [16, [4, 16], [4, 16, 64], [2, 4, 8, 16, 32]],
    "n_keys": [8, [4, 8], [4, 8, 16], [2, 4, 8, 16]],
    "scaling": [
        ["d_k^1/2"],
        ["unscaled", "d_k^1/2"],
        ["unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3", "d_k^3/2"],
        [8, "d_k^0.9", "d_k^1/2/ln(n_keys)"],
    ],
    "n_queries": [2],
    "scheme": ["gpt2", ["gpt2", "xavier", "mup"]],
    "d_model": [16, [8, 16], [8, 16, 32]],
    "n_heads": [2, [1, 2]],
    "learning_rate": [0.01, [0.01, 0.1], [0.001, 0.01, 1e6]],
    "layers": [1, [1, 2, 3]],
    "steps": [25],
    "width": [8],
}
_OF_ROWS: list[Axes] = [
    {},
    {"variants": [{"query_std": [0.1, 30]}, {"mask": "causal"}]},
    {"correlation": [0, 0.2, 0.5]},
    {"inputs": ["gaussian", "lognormal"]},
    {"variants": [{}, {"normalize": "rms"}, {"spectrum": 1, "d_k": 5}]},
    {"normalize": "l2", "query_mean": 10, "key_mean": 10, "variants": [{"d_k": 1}]},
]
# Further axes of an experiment, and its own values of keys.
FURTHER: dict[str, list[Axes]] = {
    "saturation": _OF_ROWS,
    "rows": _OF_ROWS[:2],
    "mechanisms": [
        {"softcap": [0, 5]},
        {"sink": ["none", 0], "mask": ["none", "local-1"]},
        {"variants": [{"softcap": 5}, {"normalizer": "sigmoid"}]},
    ],
    "language": [{}, {"initial": ["unit", "small"]}, {"initial_divisor": ["unscaled", "d_k^1/4"]}],
    "network": [
        {},
        {"residual": [0, 1], "norm": ["pre", "post"]},
        {"mask": ["none", "causal"], "mlp": ["none", "relu", "swiglu"]},
        {"token_cosine": [0, 0.5, 0.9]},
    ],
}
FEWER: dict[str, list[object]] = {"d_k": [16, [4, 16, 64]], "n_keys": [8, [4, 8]]}
OWN_CHOICES = {
    "saturation": CHOICES,
    "distribution": CHOICES,
    "language": {
        "d_k": [4, [2, 64]],
        "n_keys": [4, [2, 7]],
        "layers": [1],
        "scaling": CHOICES["scaling"][1:],
    },
    "network": {
        "d_k": [4, [4, 8], 32],
        "n_keys": [4, [4, 8]],
        "n_heads": [1],
        "scaling": CHOICES["scaling"][1:],
    },
}
_NTH = "figure"  # the place of the drawn figure among those of the experiment


def covered(choices: dict[str, list[object]]) -> list[dict[str, object]]:
    """Points of a grid that have each value of each key, beside values of others that shift."""
    longest = max(map(len, choices.values()))
    return [
        {
            key: given[(i + i // len(given) * shift) % len(given)]
            for shift, (key, given) in enumerate(choices.items())
        }
        for i in range(2 * longest)
    ]


def grids(name: str) -> list[dict[str, object]]:
    """The sweeps of an experiment, each with the place of the figure to draw."""
    experiment = load_experiment(name)
    given = CHOICES | OWN_CHOICES.get(name, FEWER)
    needed = cell_fields(experiment.cell).keys() - defaults(experiment.cell).keys()
    extra = {"n_queries", "layers", "width", "steps"} & cell_fields(experiment.cell).keys()
    further = FURTHER.get(name, [{}])
    taken = {key for axes in further for key in axes}
    keys = [key for key in CHOICES if key in (needed | extra) - taken]
    chosen = {key: given[key] for key in keys}
    choices = {**chosen, "further": further, _NTH: [*range(len(figures_of(name)))]}
    asked = next(each for each in config_names() if experiment in kinds_of(each))
    trials = {"language": 2, "rows": 1, "network": 2}.get(name, 20)
    common = {"experiment": asked, "trials": trials}
    return [{**point.pop("further"), **common, **point} for point in covered(choices)]


def assert_true(drawing: Drawing, caption: str, results: Results) -> None:
    """Each value of an axis in the caption is in the drawing: on an axis or in a text; of a range,
    both ends. An unusual value of one axis may stand without the usual ones of others.
    """
    assert caption.endswith(".")
    assert not re.search(r"\bnan\b|\binf\b|\{|  ", caption), caption
    texts = {" ".join(text.get_text().split()) for text in drawing.findobj(Text)}
    lines = [line for ax in drawing.axes for line in ax.lines]
    places = {f"{x:g}" for line in lines for x in line.get_xdata() if not isinstance(x, str)}
    for name in results.axes.varied(results.measured):
        listed = re.search(rf"\b{name} = (.+?)(?=, \w+ = |, \d+ cases of |;|\.)", caption)
        values = re.split(" and | to |, ", listed[1]) if listed else []
        usual = short(results.axes.usual[name])
        for value in [*{*values} - {usual}] if len(values) > 1 else ():
            said = latex(values_of(pd.Series({name: value}), [name]))
            is_named = value in places | texts or any(said in latex(text) for text in texts)
            assert is_named, f"{said} is not drawn: {caption}"


@pytest.fixture
def quick_exact(monkeypatch):
    """Exact values without theory, which takes seconds: the measured ones, but for every fifth."""

    def quick(experiment, measured, _cells):
        known = np.arange(len(measured)) % 5 < 4
        exact = {
            f"{metric.name}_exact": measured[metric.name].where(known)
            for metric, _ in derived.known_metrics(experiment)
        }
        return measured.assign(**exact)[names(experiment.table_columns)]

    monkeypatch.setattr(analyse, "add_exact", quick)
    monkeypatch.setattr(workers, "_FEW", 99)  # tables, too, are made in this process


@pytest.mark.edits
@pytest.mark.usefixtures("in_this_process", "quick_slider", "quick_exact")
@pytest.mark.parametrize("name", experiment_names())
def test_every_small_grid_has_its_figures_and_its_page(tmp_path, name):
    sweeps = {f"grid{i}": grid for i, grid in enumerate(grids(name))}
    places = {sweep: grid.pop(_NTH) for sweep, grid in sweeps.items()}
    path = tmp_path / "grids.yaml"
    path.write_text(json.dumps({"seed": 0, "sweeps": sweeps}))
    config = load_config(path)
    report = Reporter(verbose=True)
    measure(config, config.sweeps, tmp_path, LocalWorkers(1), report=report)
    study = Study(config, tmp_path)
    check(study, config.sweeps, report=report)
    for sweep in config.sweeps:
        assert sweep.figures == default_figures(name)
        figure = FIGURES[figures_of(name)[places[sweep.name]]]
        drawn = shown(figure, study[sweep.name])
        drawing = draw_one(figure, drawn)
        if drawing.axes[0].axison:  # not empty, with the reason
            assert_true(drawing, plain_caption(figure, drawn), drawn.results)
        typeset_drawing(drawing)
    page = make_page(study, path).decode()
    assert all(f'id="sweep.{sweep}"' in page for sweep in sweeps)
