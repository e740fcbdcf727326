"""Every picture against the rows that it shows, and its caption against both: drawn once of tables of
random numbers, so that no two columns, rules or cases agree by chance; and on small grids of every
experiment that have every value of each key, and together every pair of values of two keys.
"""

import functools
import itertools
import re
from math import isnan, log, nan

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib.colors import same_color
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text
from numpy.testing import assert_allclose
from PIL import Image

from experiments.commands.check import check
from experiments.commands.job import Job
from experiments.commands.measure import measure
from experiments.config.paths import figure_path
from experiments.figures.captions import plain_caption
from experiments.figures.draw import pictures_of
from experiments.figures.formulas import latex
from experiments.figures.rendering import draw
from experiments.figures.shown import Shown, shown
from experiments.figures.style import Drawing, colours_of
from experiments.figures.words import divided, is_number, listed, short, values_of
from experiments.kinds import experiment_names
from experiments.kinds.declarations import HOLLOW, READING
from experiments.kinds.figures import FIGURES, default_figures
from experiments.kinds.language import cell as language
from experiments.kinds.network import tables as network
from experiments.kinds.network.layer import LAYER_VALUES
from experiments.kinds.saturation import drawing as drawing_of_saturation
from experiments.kinds.support import has_few, rows_of, significant
from experiments.page.index import make_page
from experiments.running import workers
from experiments.tables import analyse
from experiments.tables.all_results import AllResults
from experiments.tables.reporter import Reporter
from experiments.tables.results import Results
from sdpa.theory.special.gradient_growth import StackLayer
from tests.command_line import SMALL
from tests.examples import EDITS, EXAMPLES, load_sweeps, with_common
from tests.shipped import OF_CONFIG

BOTH = "scaling: [unscaled, d_k^1/2]"
ONE = f"d_k: 4, n_keys: 8, {BOTH}"
WIDTHS = "experiment: saturation, n_queries: 4, d_k: [4, 16, 64, 256]"
LONG = "experiment: saturation, n_queries: 4, d_k: 16, n_keys: [8, 32, 128]"


@pytest.fixture
def made(tmp_path):
    """The results of the example of a figure, or of another sweep, with random numbers in all tables."""

    def of(name: str, text: str = "") -> Results:
        kind = FIGURES[name].of
        example = {"experiment": kind} | EXAMPLES[kind]["figures"][name]["sweep"]
        body = yaml.safe_load(f"{{{text}}}") or example
        (sweep,) = load_sweeps(tmp_path, {"some": body | {"trials": 20}}).sweeps
        rng = np.random.default_rng(5)
        cells = [
            of_rule.row_head() | {"trials": 20}
            for cell in sweep.cells
            for of_rule in cell.by_rule()
        ]
        table = filled(
            pd.DataFrame(cells), [metric.name for metric in sweep.experiment.metrics], rng
        )
        tables = {"measured": table}
        if name == "rows":
            places = crossed(table, trial=range(2), query=range(2), key=range(5))
            seen = places.query("key < n_keys")
            tables["measured"] = seen.assign(weight=rng.random(len(seen)))
        if name in ("growth", "propagation"):
            layers = crossed(table, layer=range(1, 10)).query("layer <= layers")
            tables["by_layer"] = with_law(layers[[*sweep.values, "trials", "layer"]], rng)
        if name == "distribution":
            bins = crossed(table[["d_k"]], low=[-2.0, 0.0, 1.0])
            bins = bins.assign(high=bins["low"] + [1, 0.5, 3] * 3, count=[1, 50, 900] * 3)
            tables["histogram"] = filled(bins, ["density"], rng)
        if name == "map":
            norms = {
                "norm": ["jacobian", "query_gradient", "undivided_query_gradient"],
                "statistic": ["median", "r.m.s."],
            }
            points = table.query("scaling == 'unscaled'")[["d_k", "n_keys", "query_std"]]
            ratios = crossed(points, **norms)
            tables["ratios"] = ratios.assign(ratio=8 * rng.random(len(ratios)))
            rows = crossed(points.query("d_k == 4"), **norms, level=[1, 0.1]).drop(columns="d_k")
            at = 8 + 100 * rng.random(len(rows))
            tables["crossings"] = rows.assign(
                crossing=at, crossing_low=0.9 * at, crossing_high=1.3 * at, crossing_exact=1.1 * at
            )
        return Results(sweep, tables)

    return of


def crossed(table: pd.DataFrame, **values) -> pd.DataFrame:
    """Each row with each combination of the values of further columns."""
    further = pd.DataFrame([*itertools.product(*values.values())], columns=[*values])
    return table.drop(columns=[*values], errors="ignore").merge(further, how="cross")


def filled(table: pd.DataFrame, metrics: list[str], rng) -> pd.DataFrame:
    """A table with a random value, interval and exact value of each metric, some unknown, and with
    too few draws for some.
    """
    columns = {}
    for metric in metrics:
        value, below, above, exact = rng.uniform(0.1, 6, (4, len(table)))
        columns |= {
            metric: value,
            f"{metric}_low": value - below / 9,
            f"{metric}_high": value + above,
            f"{metric}_se": below,
            f"{metric}_exact": np.where(exact < 0.5, nan, exact),
        }
    flags = rng.random((len(table), len(metrics))) < 0.3
    few = [" ".join(itertools.compress(metrics, flagged)) for flagged in flags]
    table = table.reset_index(drop=True)
    return table.join(pd.DataFrame({**columns, "few_draws": few}))


def with_law(table: pd.DataFrame, rng) -> pd.DataFrame:
    """A table of layers with random means, standard errors and laws."""
    names = [f"{column.name}{end}" for column in LAYER_VALUES for end in ("", "_se", "_law")]
    values = rng.uniform(0.1, 6, (len(table), len(names)))
    return table.join(pd.DataFrame(values, table.index, names))


# The layout of a formula, once for all texts with it.
typeset = functools.cache(MathTextParser("path").parse)


def assert_true(what: Shown, drawing: Drawing, caption: str) -> None:
    """Sizes in a caption are those of the rows; each value of an axis is in the drawing: on an axis or in
    a text; of a range, both ends. An unusual value of one axis may stand without the usual ones of
    others. Formulas can be typeset.
    """
    axes = what.results.axes
    assert caption.endswith(".")
    assert not re.search(r"\bnan\b|\binf\b|\{|  ", caption), caption
    texts = {" ".join(text.get_text().split()) for text in drawing.findobj(Text)}
    plain = latex(" ".join(texts))
    for formula in re.findall(r"\$[^$]+\$", plain):
        typeset(formula)
    plain = plain.replace(" = ", " ")  # as in titles of panels
    xs = (x for ax in drawing.axes for line in ax.lines for x in line.get_xdata())
    places = {f"{x:g}" for x in xs if not isinstance(x, str)}
    sizes, *_ = caption.split("Not drawn")
    for name in axes.among(what.rows):
        if re.search(rf"\b{name} = ", sizes):
            values = listed(what.rows[name].unique())
            assert f"{name} = {values}" in sizes
            several = {*re.split(" and | to |, ", values)}
            for value in several - {short(axes.usual[name])} if len(several) > 1 else ():
                said = latex(values_of(pd.Series({name: value}), [name]))
                is_named = said.replace(" = ", " ") in plain
                assert is_named or value in places | texts, f"{said}: {caption}"


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_shows_its_rows_and_its_caption_names_them(name, made):
    figure, results = FIGURES[name], made(name)
    given = EXAMPLES[figure.of]["figures"][name]
    what = shown(figure, results)
    drawing, caption = draw(what), plain_caption(figure, what)
    left_out = given.get("left_out", "")
    assert (len(what.rows), what.left_out) == (given["rows"], left_out)
    assert ("Not drawn" in caption) == bool(left_out)
    assert f"Not drawn: {left_out}." in caption or not left_out
    assert "20 trials." in caption or name == "rows"
    assert len(caption.split()) <= 45
    assert_true(what, drawing, caption)
    if figure.lines:
        # A misspelt metric would be left out, as one is that an older table lacks.
        assert {panel.metric for panel in figure.lines.panels} <= {*what.rows}
        assert_lines(what, drawing, caption)
    else:
        OWN[name](what, drawing)


def test_a_grey_line_is_short_whatever_the_sweep(made):
    grid = "n_keys: [8, 9, 32], mask: [none, causal], query_std: [1, 2], key_mean: [0, 1]"
    many = made("metrics", f"{WIDTHS}, {grid}, inputs: [gaussian, uniform], {BOTH}")
    for name in ("metrics", "length", "rules", "causal"):
        caption = plain_caption(FIGURES[name], shown(FIGURES[name], many))
        assert len(caption.split()) <= 45
        assert "and more axes; 20 trials." in caption


def points_of(bars) -> np.ndarray:
    """x, y and both ends of each interval, along the axis of the interval."""
    line, _, (ends,) = bars
    spread = [segment for segment in ends.get_segments() if len(segment)]
    along = int(not spread or np.ptp(spread[0][:, 0]) == 0)
    reach = {segment[0, 1 - along]: segment[:, along] for segment in spread}
    unknown = np.full(2, nan)
    return np.array([[*xy, *reach.get(xy[1 - along], unknown)] for xy in line.get_xydata()])


def rounded(x: float, y: float) -> tuple[float, float]:
    return round(x, 6), round(y, 6)


def others_of(ax) -> dict[str, set]:
    """The points of an axes that are hollow, or exact or of a law."""
    parts = {each for bars in ax.containers for each in (bars[0], *bars[1])}
    points = {"hollow": set(), "exact": set()}
    for line in {*ax.lines} - parts:
        if line.get_zorder():  # that of dotted marks is 0
            kind = "hollow" if line.get_markerfacecolor() == "white" else "exact"
            xy = zip(line.get_xdata(orig=False), line.get_ydata(), strict=True)
            points[kind] |= {rounded(x, y) for x, y in xy if not isnan(y)}
    return points


def expected_points(panel, rows: pd.DataFrame, x: str) -> tuple[list, dict[str, set]]:
    """The points of all panels of a declaration, and its other points, from their definitions."""
    if panel.only:
        axis, choose = panel.only
        rows = rows[rows[axis].abs() == choose(rows[axis].abs())]
    if panel.over == "exact":
        rows = rows[rows["scaling"] == rows["scaling"].iloc[0]]
    names = [*dict.fromkeys(rows[x])]
    points, others = [], {"hollow": set(), "exact": set()}
    for _, row in rows.iterrows():
        at = names.index(row[x]) if isinstance(row[x], str) else row[x]
        y, low, high, exact, law = (
            row.get(f"{panel.metric}{end}", nan) for end in ("", "_low", "_high", "_exact", "_law")
        )
        if "layer" in row:
            error = row[f"{panel.metric}_se"]
            if panel.root:
                y, law, error = y**0.5, law**0.5, error / y**0.5 / 2
            low, high = y - 2 * error, y + 2 * error
        per = {"exact": exact, "high": log(row["n_keys"]), "": 1}[panel.over]
        y, low, high = (min(value / per, panel.top) for value in (y, low, high))
        if not isnan(y):
            points.append((at, y, low, high))
        is_few = panel.metric in row.get("few_draws", "").split()
        for kind, height in (
            ("hollow", y if is_few else nan),
            ("exact", exact / per),
            ("exact", law),
        ):
            if not isnan(height):
                others[kind].add(rounded(at, height))
    return sorted(points), others


def keys_of(drawing: Drawing) -> dict[str, object]:
    """The colour of each label of a legend, or at the end of a line."""
    keys = {
        text.get_text().removeprefix("÷ "): text.get_color()
        for ax in drawing.axes
        for text in ax.texts
    }
    for legend in drawing.legends:
        colours = [handle.get_color() for handle in legend.legend_handles]
        keys |= zip([text.get_text() for text in legend.texts], colours, strict=True)
    return keys


def assert_lines(what: Shown, drawing: Drawing, caption: str) -> None:
    """Points, intervals, hollow points, exact values and laws, under the title of their metric; and
    each line has the colour and the rows of its label.
    """
    picture = what.lines
    is_hollow = False
    for place, panel in enumerate(picture.panels):
        title = panel.title or what.results.metrics[panel.metric].title
        assert ("median" in (panel.title or panel.metric)) == panel.metric.endswith("_median")
        axes = [ax for ax in drawing.axes if title in ax.get_title().replace("\n", " ")]
        axes = drawing.axes if len(picture.panels) == 1 else axes
        assert picture.facet_by or axes == [drawing.axes[place]]
        points, others = expected_points(panel, what.rows, what.x)
        bars = [bars for ax in axes for bars in ax.containers]
        actual = np.concatenate([points_of(each) for each in bars])
        actual = sorted(map(tuple, actual[~np.isnan(actual[:, 1])]))
        assert_allclose(actual, points, rtol=1e-9)
        joined = {"hollow": set(), "exact": set()}
        if is_number(what.rows[what.x]):  # lines go through points where no exact value is known
            joined["exact"] = {rounded(at, y) for at, y, *_ in points}
        seen = [others_of(ax) for ax in axes]
        for kind, expected in others.items():
            told = set().union(*(each[kind] for each in seen))
            assert told - joined[kind] == expected - joined[kind], (panel.metric, kind)
        is_hollow |= bool(others["hollow"])
    assert (HOLLOW in caption) == is_hollow
    if READING in FIGURES[what.name].note:
        assert ("strokes: exact" in caption) != is_number(what.rows[what.x])
    keys = keys_of(drawing)
    is_whole = picture.by == "scaling" and not (picture.facet_by or picture.panels[0].over)
    for place, ax in enumerate(drawing.axes):
        for bars in ax.containers:
            rule, _, others = bars.get_label().partition(", ")
            label = bars.get_label() if bars.get_label() in keys else rule
            assert same_color(keys[label], bars[0].get_color())
            assert label == bars.get_label() or others in keys
            if is_whole and not place:
                of_rule = what.rows.query("scaling == @rule")
                assert {*bars[0].get_ydata()} <= {*of_rule[picture.panels[0].metric]}


def assert_ratios_to_the_first_row(what, drawing):
    cells = [text.get_text() for text in drawing.axes[0].get_yticklabels()]
    assert len(cells) == 9
    for ax, metric in zip(drawing.axes, FIGURES["assumptions"].metrics, strict=True):
        title = what.results.metrics[metric].title
        assert ax.get_title().replace("\n", " ") == title
        groups = what.rows.groupby("scaling", sort=False)
        assert (len(others_of(ax)["hollow"]) > 0) == has_few(metric)(what.tables)
        for bars, (rule, rows) in zip(ax.containers, groups, strict=True):
            assert bars.get_label() == divided(rule)
            x, y, *reach = points_of(bars).T
            ratios = rows[[metric, f"{metric}_low", f"{metric}_high"]] / rows[metric].iloc[0]
            ratios = ratios.where(ratios[metric] >= drawing_of_saturation._LEAST_RATIO)
            assert_allclose([x, *reach], ratios.T)
            for place, (_, row) in zip(y, rows.iterrows(), strict=True):
                others = {"key_mean": 0, "inputs": "gaussian"}
                named = ["n_keys", *(name for name in others if row[name] != others[name])]
                assert cells[round(place)] == values_of(row, named)


def assert_densities_and_kurtosis(what, drawing):
    *densities, right = drawing.axes
    histogram = what.results["histogram"]
    middle = (histogram["low"] + histogram["high"]) / 2
    reach = 1.96 * histogram["density_se"].where(histogram["count"] >= 10, 0)
    density = histogram["density"]
    points = np.transpose([middle, density, density - reach, density + reach])
    kurtosis = ("d_k", *(f"score_kurtosis{end}" for end in ("", "_low", "_high")))
    for ax, expected in (
        *((ax, points) for ax in densities),
        (right, what.rows[[*kurtosis]].to_numpy(float)),
    ):
        assert_allclose(np.concatenate([points_of(bars) for bars in ax.containers]), expected)
    exact = zip(middle, histogram["density_exact"], strict=True)
    known = {rounded(x, y) for x, y in exact if not isnan(y)}
    assert others_of(densities[0])["exact"] == known


def assert_ratios_and_crossings_of_the_first_combination(what, drawing):
    names = {"softmax Jacobian": "jacobian", "gradient at a query": "query_gradient"}
    for ax in drawing.axes[:6]:
        norm, statistic = ax.get_title().split(", ")
        one = {"norm": names.get(norm, "undivided_query_gradient"), "statistic": statistic}
        ratios, crossings = (
            rows_of(what.results, kind, query_std=1, **one) for kind in ("ratios", "crossings")
        )
        plane = ratios.pivot_table(index="n_keys", columns="d_k", values="ratio").to_numpy()
        assert_allclose(np.exp(ax.images[0].get_array()), plane)
        for text in ax.texts:
            column, row = text.xy
            ratio = plane[round(row), round(column)]
            assert float(text.get_text().strip("<")) == pytest.approx(ratio, rel=0.05, abs=0.005)
        equal = crossings[crossings["level"] == 1].sort_values("n_keys")
        x, y, *reach = points_of(ax.containers[0]).T
        assert y.tolist() == [0, 1, 2]
        (dashed,) = [line for line in ax.lines if line.get_linestyle() == "--"]
        ends = equal[["crossing", "crossing_low", "crossing_high", "crossing_exact"]]
        assert_allclose(4 * 4 ** np.array([x, *reach, dashed.get_xdata()]), ends.T)


def assert_shares_and_lines_of_freezing(what, drawing):
    groups = what.rows.groupby(["query_std", "scaling"], sort=False)
    for ax, ((spread, rule), rows) in zip(drawing.axes[:-1], groups, strict=True):
        title, *dashed = ax.get_title().splitlines()
        assert title == f"query std = {spread:g}, {divided(rule)}"
        plane = rows.assign(share=rows["entropy"] / np.log(rows["n_keys"]))
        shares = plane.pivot_table(index="n_keys", columns="d_k", values="share")
        assert_allclose(ax.images[0].get_array(), shares)
        exponent = rows["exponent"].iloc[0]
        freezing = [line for line in ax.lines if line.get_linestyle() == "--"]
        assert bool(freezing) == (exponent < 1 / 2)
        assert bool(dashed) == any(np.isfinite(line.get_xdata()).any() for line in freezing)
        for line in freezing:
            d_k, n_keys = (first * 4 ** line.get_data()[i] for i, first in enumerate((4, 8)))
            inside = ~np.isnan(d_k)
            sigma = spread * d_k ** (1 / 2 - exponent)
            assert np.allclose(sigma[inside], np.sqrt(2 * np.log(n_keys[inside])))


def assert_weights_of_the_first_draw(what, drawing):
    first = what.results.measured.query("trial == 0 and n_keys == 3")
    groups = first.groupby(["d_k", "scaling"], sort=False)
    for ax, ((d_k, rule), rows) in zip(drawing.axes[:-1], groups, strict=True):
        weights = rows.pivot_table(index="query", columns="key", values="weight")
        assert_allclose(ax.images[0].get_array(), weights)
        mean = f"mean of largest: {weights.max(axis=1).mean():.2f}"
        assert ax.get_title() == f"d_k = {d_k}, {divided(rule)}\n{mean}"


OWN = {
    "assumptions": assert_ratios_to_the_first_row,
    "distribution": assert_densities_and_kurtosis,
    "map": assert_ratios_and_crossings_of_the_first_combination,
    "phase": assert_shares_and_lines_of_freezing,
    "rows": assert_weights_of_the_first_draw,
}


def test_labels_stand_at_the_ends_of_lines_where_they_do_not_touch(made):
    results = made("variance")
    table = results.measured
    for apart in (0, 1):
        table["score_variance"] = 1 + apart * table["scaling"].map(len)
        drawing = draw(shown(FIGURES["variance"], results))
        texts = [text.get_text() for text in drawing.axes[0].texts]
        assert texts == ["÷ d_k^1/2", "unscaled", "÷ 8"] * apart
        assert bool(drawing.legends) != apart


@pytest.mark.parametrize("last", [1, np.nan])
def test_a_lone_line_has_a_label_or_a_key(last, made):
    results = made("variance", f"{WIDTHS}, n_keys: 8, scaling: d_k^1/2")
    results.measured.loc[results.measured.index[-1], "score_variance"] = last
    drawing = draw(shown(FIGURES["variance"], results))
    assert "d_k^1/2" in keys_of(drawing)
    assert bool(drawing.legends) == np.isnan(last)


def test_layers_of_few_trials_are_hollow(made):
    figure, results = FIGURES["growth"], made("growth")
    for trials in (2, 20):
        results["by_layer"]["trials"] = trials
        what = shown(figure, results)
        assert (HOLLOW in plain_caption(figure, what)) == (trials == 2)
        assert bool(others_of(draw(what).axes[0])["hollow"]) == (trials == 2)


@pytest.mark.parametrize(
    "name, sweep, x",
    [
        ("gradients", f"{LONG}, {BOTH}", "n_keys"),
        ("correlation", f"{WIDTHS}, n_keys: 8, {BOTH}", "d_k"),
        ("rules", f"experiment: saturation, {ONE}, n_queries: 4, correlation: [0, 1]", "scaling"),
        ("losses", f"experiment: language, {ONE}, learning_rate: 1, clip: [0, 1]", "clip"),
    ],
)
def test_lines_go_along_another_axis_if_theirs_does_not_vary(name, sweep, x, made):
    what = shown(FIGURES[name], made(name, sweep))
    assert what.x == x
    assert {*what.panels[0].rows[x]} == {*what.rows[x]}


@pytest.mark.parametrize("name", {"mechanisms"} & FIGURES.keys())
def test_words_name_a_lone_mechanism_and_what_changes_along_x(name, made):
    pairs = "d_k: 16, n_keys: 32, variants: [{}, {d_k: 4, n_keys: 8}]"
    sweep = f"experiment: mechanisms, softcap: 20, n_queries: 4, {pairs}, {BOTH}"
    drawing = draw(shown(FIGURES[name], made(name, sweep)))
    assert [*keys_of(drawing)] == ["soft cap 20"]
    assert not drawing.legends
    ax = drawing.axes[-1]
    assert ax.get_xlabel() == "d_k (also differing: n_keys)"
    assert (ax.get_xscale(), [*ax.get_xticks()]) == ("log", [4, 16])


def test_a_case_has_one_marker_in_all_panels(made):
    cases = "[{}, {mask: causal}, {mask: causal, correlation: 0.5}]"
    results = made("rules", f"{LONG}, variants: {cases}, scaling: d_k^1/2")
    drawing = draw(shown(FIGURES["rules"], results))
    of_causal = drawing.axes[0].containers[1]
    assert of_causal.get_label() == "d_k^1/2, causal mask"
    (alone,) = drawing.axes[-1].containers
    assert alone[0].get_marker() == of_causal[0].get_marker() != "o"


def test_without_exact_values_there_is_no_stroke(made):
    figure, results = FIGURES["length"], made("length")
    for exact in (nan, 2.0):
        table = results["measured"].assign(entropy_exact=exact, max_weight_exact=0.5)
        single, whole = (
            shown(figure, Results(results.sweep, {"measured": rows}))
            for rows in (table.query("n_keys == 8"), table)
        )
        strokes = [bool(others_of(ax)["exact"]) for ax in draw(single).axes]
        assert strokes == [exact == 2, True]
        assert "strokes: exact" in plain_caption(figure, single)
        assert ("where theory has" in plain_caption(figure, whole)) == (exact != 2)


@pytest.mark.parametrize(
    "name, kind, column, shift",
    [("propagation", "by_layer", "cosine", -9), ("losses", "measured", "final_loss", 9)],
)
def test_a_bound_gives_way_to_values_beyond_it(name, kind, column, shift, made):
    results = made(name)
    results[kind][column] += shift
    what = shown(FIGURES[name], results)
    drawing = draw(what)
    low, high = drawing.axes[0].get_ylim()
    rows = what.panels[0].rows
    assert low < rows[column].min() < rows[column].max() < high
    assert "at the top" not in plain_caption(FIGURES[name], what)


def test_a_rule_keeps_its_colour_beside_others():
    rules = ["8", "unscaled", "d_k^1/2/ln(n_keys)", "d_k^1/5", "d_k^1/2", "d_k^1/6", "16", "d_k^5"]
    before, after = (colours_of(pd.Series(some, name="scaling")) for some in (rules[:3], rules))
    assert before.items() <= after.items()
    assert len({after[rule] for rule in rules}) == len(rules)


def test_ordered_values_have_ordered_colours():
    colours = [colours_of(pd.Series(some, name="layers")) for some in ([4, 16, 1], [1, 4, 16])]
    assert colours[0] == colours[1]


def test_a_panel_marks_where_its_unscaled_line_falls_through_the_scaled_one():
    ax = draw(shown(FIGURES["metrics"], OF_CONFIG["dimension"])).axes[3]
    lines = {bars.get_label(): bars[0].get_xydata() for bars in ax.containers}
    d_k, unscaled = lines["unscaled"].T
    is_above = unscaled > lines["d_k^1/2"][:, 1]
    (mark,) = [line for line in ax.lines if line.get_linestyle() == ":"]
    at = mark.get_xdata()[0]
    assert d_k[is_above].max() < at < d_k[~is_above].min()
    assert f" cross near {significant(at, 2):g}" in ax.texts[0].get_text()


def test_files_come_out_byte_identical_with_title_and_caption(drawn):
    config, folder = drawn
    all_results = AllResults(config, folder)
    for name, figure, axes in (("scaling", "variance", "d_k"), ("map", "map", "d_k and n_keys")):
        (picture,) = pictures_of(folder, all_results[name])
        assert picture.path == figure_path(folder, name, figure)
        assert picture.render() == [picture.path.read_bytes()]
        with Image.open(picture.path) as drawing:
            title, caption = (drawing.info[key] for key in ("Title", "Description"))
        assert title.lower() == f"sweep {name} over {axes}: {FIGURES[figure].shows.lower()}"
        assert f"Sweep {name}: d_k = " in caption


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


# Of b and each number but 0, in the field of four elements, where + is ^.
PRODUCTS = [[0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]]


def grids(name: str) -> list[dict[str, object]]:
    """Sweeps of an experiment with at most four values of each of at most four keys: rows of the orthogonal
    array over the field of four elements.

    All sixteen have every value of each key beside every value of any other; `saturation` has them. Others
    have either half of its last column in turn, where each value of a key stands in two.
    """
    choices = with_common(name, "edits", EDITS)
    half = experiment_names().index(name) % 2
    points = []
    for a, b in itertools.product(range(4), repeat=2):
        *places, last = a, b, *(a ^ times[b] for times in PRODUCTS)
        if name == "saturation" or last // 2 == half:
            place = iter(places)
            point = {
                key: given[next(place) % len(given) if given[1:] else 0]
                for key, given in choices.items()
            }
            grid = {"experiment": name} | point | point.get("further", {})
            grid.pop("further", None)
            points += [grid] * (grid not in points)
    return points


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
    all_results = job.all_results
    for sweep in config.sweeps:
        assert sweep.figures == default_figures(name)
        for figure in map(FIGURES.get, sweep.figures):
            what = shown(figure, all_results[sweep.name])
            # Layout and formulas take most of the time.
            with mpl.rc_context({"text.parse_math": False}):
                drawing, caption = draw(what), plain_caption(figure, what)
                drawing.set_layout_engine("none")
                drawing.draw_without_rendering()
            if drawing.axes[0].axison:  # not empty, with the reason
                assert_true(what, drawing, caption)
    page = make_page(all_results).decode()
    assert all(f'id="sweep.{sweep}"' in page for sweep in sweeps)
