"""Names of lines in figures: legends in full columns, labels without overlaps, and dashes of lines that coincide."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.legend import Legend

from experiments.figures.figure import Drawing
from experiments.figures.initialisation import FIGURE as INITIALISATION
from experiments.figures.metric_lines import label_lines, legend, plot_metric, series
from experiments.figures.rendering import typeset
from experiments.figures.style import panels


def legend_of(names: list[str], width: float) -> Legend:
    figure, [[ax]] = panels(1, 1, (width, 3))
    for name in names:
        ax.plot([0, 1], label=name)
    legend(ax, names)
    return figure.legends[0]


@pytest.mark.parametrize(("count", "width", "columns"), [(6, 9.5, 3), (4, 7.5, 2), (4, 12, 4), (1, 5, 1)])
def test_a_legend_has_full_columns(count, width, columns):
    names = [f"{rule}, d_k = {d_k}" for d_k in (64, 256, 1024) for rule in ("d_k^1/2", "d_k^1")][:count]
    assert legend_of([name.ljust(17) for name in names], width)._ncols == columns


def test_labels_of_lines_at_one_height_do_not_touch():
    names = ["unscaled", "d_k^1/3", "d_k^1/2", "d_k^2/3"]
    rows = [
        {"d_k": d_k, "scaling": name, "exponent": p, "entropy": 1.0, "entropy_low": 1.0, "entropy_high": 1.0}
        for name, p in zip(names, (0, 1 / 3, 1 / 2, 2 / 3), strict=True)
        for d_k in (4, 8)
    ]
    table = pd.DataFrame(rows).assign(few_draws="", experiment="saturation")
    figure, [[ax]] = panels(1, 1, (5, 3.6))
    lines = series(table, "d_k")
    plot_metric(ax, lines, "d_k", "entropy")
    label_lines(ax, lines, "d_k", "entropy")
    typeset(figure).draw_without_rendering()
    spans = sorted((box.y0, box.y1) for box in (text.get_window_extent() for text in ax.texts))
    assert all(lower[1] < upper[0] for lower, upper in itertools.pairwise(spans))


def labelled_lines(ends: list[float]) -> Drawing:
    figure, axes = panels(1, 2, (8, 3.6))
    rules = [f"d_k^{p}" for p in range(len(ends))]
    table = pd.DataFrame({"d_k": 4, "scaling": rules, "exponent": range(len(ends)), "entropy": ends})
    for ax in axes[0]:
        for end, rule in zip(ends, rules, strict=True):
            ax.plot(4, end, "o", label=rule)
        ax.set_ylim(0, 1)
        label_lines(ax, series(table.assign(experiment="saturation"), "d_k"), "d_k", "entropy")
    return figure


def test_labels_crowded_at_the_top_leave_one_at_the_bottom_in_its_place():
    heights = [text.get_position()[1] for text in labelled_lines([0.02, 0.97, 0.98, 0.99, 1]).axes[0].texts]
    assert heights[0] == pytest.approx(0.02)
    assert max(heights) <= 1
    assert np.diff(heights[1:]).min() > 0.05


def test_a_figure_with_a_legend_has_no_labels():
    figure = labelled_lines([0.5] * 13)
    assert len(figure.legends) == 1
    assert not any(ax.texts for ax in figure.axes)


def test_schemes_with_equal_values_both_show_and_widths_that_double_have_equal_distances():
    names = ["gpt2", "xavier", "xavier_packed", "kaiming", "t5", "mup"]
    keys = {"d_model": (256, 512, 1024, 2048), "scheme": names, "scaling": ("unscaled", "d_k^1/2")}
    table = pd.MultiIndex.from_product(keys.values(), names=list(keys)).to_frame(index=False)
    table = table.assign(n_heads=8, n_keys=64, n_queries=16, exponent=0.0, few_draws="", experiment="initialisation")
    values = {f"{metric}{end}": 1.0 for metric in ("score_variance", "max_weight") for end in ("", "_low", "_high")}
    ax = INITIALISATION.plot({"measured": table.assign(**values)}).axes[0]
    assert np.ptp(np.diff(ax.transData.transform([(width, 1) for width in keys["d_model"]])[:, 0])) < 1e-6
    dashes = {bar.get_label(): bar.lines[0]._unscaled_dash_pattern for bar in ax.containers}
    assert dashes["xavier"][1] == dashes["mup"][1]
    assert dashes["xavier"][0] != dashes["mup"][0]
