"""The figure of a diagnosis for any number of layers and heads, and its exact curves."""

import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import seaborn as sns

from experiments.diagnosis.table import gaussian_curves
from experiments.figures.diagnosis import heads as figure
from experiments.figures.style import STYLE
from sdpa.theory import attention_expectations
from tests.kinds_of_heads import KINDS, normal, table_of

LAYOUTS = [(1, 1), (1, 12), (2, 8), (12, 1), (12, 12), (32, 32), (48, 96)]


def many(layers: int, heads: int) -> pd.DataFrame:
    """A table of made-up heads, of which one has no variance ratio."""
    count = layers * heads
    rng = np.random.default_rng(count)
    spread = np.exp(rng.normal(0, 1, count))
    share = np.exp(-(spread**2) / 4)
    ratio = np.exp(rng.normal(0, 1, count))
    ratio[count // 2 :][:1] = np.nan if count > 1 else 1.0
    return pd.DataFrame(
        {
            "layer": np.repeat(np.arange(layers), heads),
            "head": np.tile(np.arange(heads), layers),
            "d_k": 16,
            "n_queries": 8,
            "n_keys": 8,
            "mask": "none",
            "sequences": 4,
            "row_variance": spread**2,
            "row_variance_se": 0.1 * spread**2,
            "entropy_share": share,
            "entropy_share_se": 0.02,
            "entropy_share_exact": share,
            "max_weight": 1 - share,
            "variance_ratio": ratio,
        }
    )


def drawn(table: pd.DataFrame):
    """The figure of a table after its layout, its panels with a title, and its tables."""
    tables = {"heads": table, "curves": gaussian_curves(table)}
    with mpl.rc_context({**sns.axes_style("ticks"), **STYLE}):
        drawing = figure.plot(tables)
        drawing.draw_without_rendering()
    return drawing, {ax.get_title(loc="left"): ax for ax in drawing.axes if ax.get_title(loc="left")}, tables


def boxes(drawing, axes):
    """The corners of axes with their labels, in shares of the drawing."""
    width, height = drawing.get_size_inches() * drawing.dpi
    found = [ax.get_tightbbox() for ax in axes]
    return [(box.x0 / width, box.y0 / height, box.x1 / width, box.y1 / height) for box in found]


@pytest.mark.parametrize(("layers", "heads"), LAYOUTS)
def test_panels_lie_side_by_side_and_within_the_drawing(layers, heads):
    drawing, panels, _ = drawn(many(layers, heads))
    assert list(panels) == ["entropy share", "mean largest weight", "variance ratio"][: 3 if layers * heads > 1 else 1]
    corners = boxes(drawing, panels.values())
    for x0, y0, x1, y1 in corners:
        assert x0 >= 0
        assert y0 >= 0
        assert x1 <= 1.001
        assert y1 <= 1.001
    for i, (x0, y0, x1, y1) in enumerate(corners):
        for a0, b0, a1, b1 in corners[i + 1 :]:
            assert x1 <= a0 + 1e-6 or a1 <= x0 + 1e-6 or y1 <= b0 + 1e-6 or b1 <= y0 + 1e-6, (i, corners)
    assert len(panels["entropy share"].collections[-1].get_offsets()) == layers * heads
    widths = [x1 - x0 for x0, _, x1, _ in corners]
    assert min(widths) > 0.25
    assert max(widths) < 0.6 or layers * heads == 1


@pytest.mark.parametrize(("layers", "heads"), LAYOUTS[1:])
def test_a_map_has_each_head_in_its_place_and_numbers_where_they_fit(layers, heads):
    table = many(layers, heads)
    _, panels, _ = drawn(table)
    for title, metric in (("mean largest weight", "max_weight"), ("variance ratio", "variance_ratio")):
        ax = panels[title]
        shown = ax.images[0].get_array()
        expected = table[metric].to_numpy().reshape(layers, heads)
        assert shown.shape == expected.shape
        if metric == "variance_ratio":
            low, high = ax.images[0].get_clim()
            assert low == -high
            expected = np.clip(np.log(expected), low, high)
        np.testing.assert_allclose(np.ma.filled(shown, np.nan), expected)
        texts = [text for text in ax.texts if text.get_text()]
        assert len(texts) in (0, np.isfinite(expected).sum())
        assert bool(texts) == ((layers, heads) in [(1, 12), (2, 8), (12, 1)])
        cell = ax.get_window_extent().width / heads
        assert all(text.get_window_extent().width < cell for text in texts)


def test_the_scale_of_ratios_ends_beyond_all_of_them_or_says_so():
    for furthest, factor, labels in (
        (1.1, 4, ("1/4", "4")),
        (1 / 10, 16, ("1/16", "16")),
        (1e5, 64, ("≤ 1/64", "≥ 64")),
    ):
        shades = figure._shades_of_ratios(np.array([[furthest, 1.0]]))
        assert shades.limits == pytest.approx((-np.log(factor), np.log(factor)))
        assert (shades.ticks[min(shades.ticks)], shades.ticks[max(shades.ticks)]) == labels
        assert shades.ticks[0.0] == "1"
        np.testing.assert_allclose(shades.values, [[np.clip(np.log(furthest), *shades.limits), 0]])


def test_points_lie_at_spread_and_entropy_share_with_their_intervals():
    table = many(2, 8)
    _, panels, _ = drawn(table)
    ax = panels["entropy share"]
    (points,) = [c for c in ax.collections if len(c.get_offsets()) == 16]
    np.testing.assert_allclose(points.get_offsets(), np.sqrt(table[["row_variance"]]).join(table["entropy_share"]))
    bars = {frozenset(map(tuple, path.vertices)) for c in ax.collections if c is not points for path in c.get_paths()}
    row, t = table.iloc[5], 3.182446  # of 95% with three degrees of freedom
    spread, share = row["row_variance"] ** 0.5, row["entropy_share"]
    upright, flat = ([bar for bar in bars if {end[i] for end in bar} == {at}] for i, at in enumerate((spread, share)))
    assert any(sorted(y for _, y in bar) == pytest.approx([share - 0.02 * t, share + 0.02 * t]) for bar in upright)
    reach = 0.1 * spread**2 * t / (2 * spread)  # a root has half of the relative error
    assert any(sorted(x for x, _ in bar) == pytest.approx([spread - reach, spread + reach]) for bar in flat)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["layer 0", "layer 1"]
    one = table.assign(sequences=1).drop(columns=["row_variance_se", "entropy_share_se"])
    drawing, panels, _ = drawn(one)
    assert len(panels["entropy share"].collections) == 1
    assert "intervals" not in drawing._supxlabel.get_text()


@pytest.mark.parametrize(
    ("mask", "queries", "lengths"), [(None, 12, [12]), ("causal", 12, range(2, 13)), ("causal", 3, [10, 11, 12])]
)
def test_the_curve_is_the_exact_entropy_of_gaussian_rows(mask, queries, lengths):
    q, k = normal(2, 1)
    table = table_of((q[:, :, :queries], k), **({"mask": mask} if mask else {}))
    curves = gaussian_curves(table)
    for _, point in curves.iloc[[0, 17, -1]].iterrows():
        sigma = point["spread"] / np.sqrt(np.mean([1 - 1 / n for n in lengths]))
        # Rows of a very wide query under the divisor d_k^1/2 / sigma are nearly Gaussian with the deviation sigma.
        exact = np.mean([attention_expectations(10**7, n, 10**3.5 / sigma).entropy / np.log(n) for n in lengths])
        assert point["entropy_share"] == pytest.approx(exact, abs=2e-4)
    spread = np.sqrt(table["row_variance"])
    assert curves["spread"].min() < spread.min() / 3
    assert curves["spread"].max() > spread.max() * 3


def test_normal_heads_lie_on_the_curve():
    table = table_of(normal(60, 3))
    curves = gaussian_curves(table)
    on_curve = np.interp(np.sqrt(table["row_variance"]), curves["spread"], curves["entropy_share"])
    np.testing.assert_allclose(table["entropy_share"], on_curve, atol=0.02)


def test_each_size_has_a_curve_and_without_a_mask_queries_do_not_matter():
    q, k = normal(2, 1)
    tables = [table_of((q[:, :, :rows], k[:, :, :keys])) for rows in (3, 6) for keys in (4, 8, 12)]
    curves = gaussian_curves(pd.concat(tables, ignore_index=True))
    assert curves["n_keys"].drop_duplicates().tolist() == [4, 8, 12]
    assert len(curves) == 3 * 40
    drawing, _, _ = drawn(pd.concat(tables, ignore_index=True).assign(head=range(6)))
    assert "Gaussian rows of 4 keys, 8 keys and 12 keys and equal variances." in " ".join(
        drawing._supxlabel.get_text().split()
    )


def test_equal_scores_stand_at_the_left_end_and_have_no_ratio():
    q, k = normal(2, 2)
    q[:, 0] = 0
    table = table_of((q, k))
    _, panels, tables = drawn(table)
    (points,) = [c for c in panels["entropy share"].collections if len(c.get_offsets()) == 2]
    assert points.get_offsets()[0, 0] == tables["curves"]["spread"].min()
    assert np.ma.getmaskarray(panels["variance ratio"].images[0].get_array()).tolist() == [[True, False]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_caption_names_the_ends_and_their_gaussian_values(kind):
    table = table_of(KINDS[kind]())
    caption = figure.caption({"heads": table})
    low, high = table["entropy_share"].idxmin(), table["entropy_share"].idxmax()
    shares, exact = table["entropy_share"].map("{:.2f}".format), table["entropy_share_exact"].map("{:.2f}".format)
    if shares[low] == shares[high]:
        expected = f"The entropy share of 3 heads is {shares[low]}, where .* have {exact[low]}; "
    else:
        ends = rf"from {shares[low]} \(head {low}\) to {shares[high]} \(head {high}\)"
        expected = f"The entropy shares of 3 heads go {ends}, where .* have {exact[low]} and {exact[high]}; "
    assert re.match(expected, caption)
    assert caption.endswith(" times that of independent entries.")


def test_a_caption_of_one_head_without_a_ratio_leaves_it_out():
    q, k = normal(2, 1)
    caption = figure.caption({"heads": table_of((0 * q[:, 0], k[:, 0]), axes="batch")})
    assert caption == "The entropy share of 1 head is 1.00, where Gaussian rows of the same variance have 1.00."
