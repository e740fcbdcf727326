"""Every drawing and caption against the rows that it shows, on tables of random numbers, so that no
two columns, rules or cases agree by chance.
"""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from scipy.interpolate import RegularGridInterpolator

from experiments.analysis.results import Results
from experiments.config.loader import load_config
from experiments.declarations import FIGURES
from experiments.declarations.tables import rows_of
from experiments.figures import curves
from experiments.figures.captions import plain_caption
from experiments.figures.rendering import draw
from experiments.figures.shown import Shown, shown
from experiments.figures.style import INK
from experiments.figures.words import latex, listed, under, values_of
from experiments.kinds.network import OF_LAYER
from experiments.measuring.columns import axis_values

FIVE = "[unscaled, d_k^1/4, d_k^1/3, d_k^1/2, d_k^2/3]"
BOTH = "scaling: [unscaled, d_k^1/2]"
WIDTHS = "experiment: saturation, n_queries: 4, d_k: [4, 16, 64, 256]"
LONG = "experiment: saturation, n_queries: 4, d_k: 16, n_keys: [8, 32, 128]"
LANGUAGE = "experiment: language, d_k: 16, n_keys: 8, learning_rate: [0.002, 0.004, 0.032]"
STACKS = f"experiment: network, d_k: 4, n_keys: 8, layers: [2, 9], {BOTH}"
# By figure: a sweep, the number of rows drawn, and the words for the others.
SWEEPS = {
    "metrics": (f"{WIDTHS}, n_keys: [8, 32], mask: [none, causal], scaling: {FIVE}", 80, ""),
    "variance": (f"{WIDTHS}, n_keys: 8, scaling: [d_k^1/2, unscaled, 8]", 12, ""),
    "saturation": (f"{WIDTHS}, n_keys: 8, {BOTH}, query_std: [1, 4]", 16, ""),
    "gradients": (f"{WIDTHS}, n_keys: 8, scaling: {FIVE}", 20, ""),
    "length": (f"{LONG}, {BOTH}", 6, ""),
    "causal": (f"{LONG}, mask: [none, causal], scaling: {FIVE}", 30, ""),
    "powers": (
        f"{WIDTHS}, n_keys: 8, scaling: [unscaled, 8, d_k^1/2, d_k, d_k^1/2/ln(n_keys)]",
        12,
        "8 and d_k^1/2/ln(n_keys)",
    ),
    "rules": (f"{LONG}, correlation: [0, -0.25, 0.5], {BOTH}", 12, "correlation = -0.25"),
    "mechanisms": (
        f"{WIDTHS}, n_keys: 8, variants: [{{}}, {{softcap: 50}}, {{sink: [0, 2]}}], scaling: {FIVE}",
        32,
        "d_k^1/4, d_k^1/3 and d_k^2/3",
    ),
    "initialisation": (
        "experiment: initialisation, d_model: [16, 64], n_heads: 4, n_keys: 8, n_queries: 4, "
        f"scheme: [gpt2, xavier, t5], scaling: {FIVE}",
        24,
        "d_k^2/3",
    ),
    "losses": (
        f"{LANGUAGE}, initial: [unit, small], layers: [1, 2], clip: [0, 1, 2], {BOTH}",
        54,
        "1 case of initial and layers",
    ),
    "growth": (
        f"{STACKS}, variants: [{{}}, {{residual: [0.5, 2]}}, {{norm: post}}, {{mlp: relu}}]",
        4 * 2 * 9,
        "layers = 2; mlp = relu",
    ),
    "propagation": (
        f"{STACKS}, residual: [0.5, 1, 2, 3, 4]",
        (5 * 2 + 4 * 9) * 2,
        "1 case of layers and residual",
    ),
    "assumptions": (
        f"{LONG}, variants: [{{}}, {{key_mean: 0.5}}, {{inputs: uniform}}], scaling: {FIVE}",
        45,
        "",
    ),
    "correlation": (
        f"{WIDTHS}, n_keys: [8, 32], correlation: [0, 0.5, 1], scaling: {FIVE}",
        12,
        "n_keys = 32; unscaled, d_k^1/4, d_k^1/3 and d_k^2/3",
    ),
    "distribution": ("experiment: distribution, d_k: [1, 4, 16]", 3, ""),
    "map": (
        f"{WIDTHS}, n_keys: [8, 32, 128], query_std: [1, 4], scaling: {FIVE}",
        24,
        "query_std = 4; d_k^1/4, d_k^1/3 and d_k^2/3",
    ),
    "phase": (
        f"{WIDTHS}, n_keys: [8, 32, 128], query_std: [1, 4, 8], scaling: {FIVE}",
        144,
        "3 cases of query_std and scaling",
    ),
    "rows": (
        f"experiment: rows, d_k: [4, 64], n_keys: [3, 5], n_queries: 2, {BOTH}",
        24,
        "n_keys = 5",
    ),
}

# The colours of the rules in all figures.
COLOURS = {
    "unscaled": "#d55e00",
    "d_k^1/3": "#de8f05",
    "d_k^1/2": "#0173b2",
    "d_k^2/3": "#029e73",
}
OF_LINES = [name for name in SWEEPS if FIGURES[name].lines]
CASE_WORDS = {
    "initial = unit": "q and k start with variance 1",
    "initial = small": "W_Q, W_K",
    "norm = pre": "pre-norm",
    "norm = post": "post-norm",
    "residual = 1": "residual stream",
}


def test_every_figure_has_a_sweep():
    # The last two show what is tested with the tables of shipped sweeps.
    assert {*SWEEPS} == {*FIGURES} - {"freezing", "formats", "calibration"}


@pytest.fixture
def made(tmp_path):
    """The results of the sweep of a figure, with random numbers in all tables."""

    def of(name: str) -> Results:
        path = tmp_path / "some.yaml"
        text, *_ = SWEEPS[name]
        path.write_text(f"{{seed: 0, sweeps: {{some: {{{text}, trials: 20}}}}}}")
        (sweep,) = load_config(path).sweeps
        rng = np.random.default_rng(5)
        cells = [
            {**axis_values(cell), **rule, "trials": 20}
            for cell in sweep.cells
            for rule in (cell.treatments() if hasattr(cell, "treatments") else [{}])
        ]
        table = filled(
            pd.DataFrame(cells), [metric.name for metric in sweep.experiment.metrics], rng
        )
        tables = {"measured": table}
        if name == "rows":
            tables["measured"] = crossed(table, trial=[0, 1], query=[0, 1], key=[0, 1, 2, 3, 4])
            tables["measured"] = tables["measured"].query("key < n_keys")
            tables["measured"]["weight"] = rng.random(len(tables["measured"]))
        if name in ("growth", "propagation"):
            layers = crossed(table, layer=range(1, 10)).query("layer <= layers")
            tables["by_layer"] = with_law(layers[[*sweep.values, "trials", "layer"]], rng)
        if name == "correlation":
            pairs = table.query("d_k < 256")
            pairs = pairs.query("scaling == 'unscaled'").rename(columns={"d_k": "from_d_k"})
            pairs = pairs.assign(to_d_k=4 * pairs["from_d_k"])
            pairs = filled(pairs.drop(columns="few_draws"), ["power"], rng)
            tables["steady"] = pairs.assign(power_low=pairs["power_low"].where(pairs.index != 7))
        if name == "distribution":
            bins = crossed(table[["d_k"]], low=[-2.0, 0.0, 1.0])
            bins = bins.assign(high=bins["low"] + [1, 0.5, 3] * 3, count=[1, 50, 900] * 3)
            tables["histogram"] = filled(bins, ["density"], rng)
        if name == "map":
            norms = {"norm": ["jacobian", "query_gradient", "undivided_query_gradient"]}
            points = table.query("scaling == 'unscaled'")[["d_k", "n_keys", "query_std"]]
            ratios = crossed(points, **norms, statistic=["median", "r.m.s."])
            tables["ratios"] = ratios.assign(ratio=8 * rng.random(len(ratios)))
            rows = crossed(
                points.query("d_k == 4"), **norms, statistic=["median", "r.m.s."], level=[1, 0.1]
            )
            at = 8 + 100 * rng.random(len(rows))
            found = {
                "crossing": at,
                "crossing_low": 0.9 * at,
                "crossing_high": 1.3 * at,
                "crossing_exact": 1.1 * at,
            }
            tables["crossings"] = rows.drop(columns="d_k").assign(**found)
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
        }
        columns |= {
            f"{metric}_se": below,
            f"{metric}_exact": np.where(exact < 0.5, math.nan, exact),
        }
    flags = rng.random((len(table), len(metrics))) < 0.3
    few = [" ".join(itertools.compress(metrics, flagged)) for flagged in flags]
    table = table.reset_index(drop=True)
    return table.join(pd.DataFrame({**columns, "few_draws": few}))


def with_law(table: pd.DataFrame, rng) -> pd.DataFrame:
    """A table of layers with random means, standard errors and laws."""
    names = [f"{column.name}{end}" for column in OF_LAYER for end in ("", "_se", "_law")]
    values = rng.uniform(0.1, 6, (len(table), len(names)))
    return table.join(pd.DataFrame(values, table.index, names))


@pytest.mark.parametrize("name", SWEEPS)
def test_a_caption_names_what_is_drawn_and_what_is_not(name, made):
    results = made(name)
    _, number, left_out = SWEEPS[name]
    what = shown(FIGURES[name], results)
    assert (len(what.rows), what.left_out) == (number, left_out)
    caption = plain_caption(FIGURES[name], what)
    assert ("Not drawn" in caption) == bool(left_out)
    assert f"Not drawn: {left_out}." in caption or not left_out
    sizes, trials, _ = caption.partition("20 trials. ")
    assert trials or name == "rows"
    for axis in what.results.axes.among(what.rows):
        if f" {axis} = " in f" {sizes}":
            assert f"{axis} = {listed(what.rows[axis].unique())}" in sizes


def lines_of(ax) -> tuple[pd.DataFrame, dict[str, set]]:
    """The points of an axes by label, with their intervals; and the coordinates of its other lines,
    with their colours, by kind.
    """
    points, parts = [], set()
    for bars in ax.containers:
        line, caps, (ends,) = bars
        parts |= {line, *caps}
        x, places = line.get_xdata(), line.get_xdata(orig=False)
        reach = {segment[0, 0]: segment[:, 1] for segment in ends.get_segments() if len(segment)}
        for name, place, y in zip(x, places, line.get_ydata(), strict=True):
            found = (bars.get_label(), to_hex(line.get_color()), name, y)
            points.append((*found, *reach.get(place, (math.nan, math.nan))))
    others = {kind: set() for kind in ("hollow", "crossed", "exact", "law")}
    for line in {*ax.lines} - parts:
        if line.get_linestyle() in (":", "--"):
            continue
        kind = "exact" if line.get_alpha() else "law"
        kind = {"x": "crossed"}.get(line.get_marker(), kind)
        kind = "hollow" if line.get_markerfacecolor() == "white" else kind
        colour = to_hex(line.get_color())
        xy = zip(line.get_xdata(), line.get_ydata(), strict=True)
        others[kind] |= {(colour, x, round(y, 9)) for x, y in xy if not math.isnan(y)}
    columns = ["label", "colour", "x", "y", "low", "high"]
    table = pd.DataFrame(points, columns=columns).dropna(subset="y")
    return table.sort_values(["label", "x", "y"], ignore_index=True), others


def expected_panels(picture, what: Shown) -> list[tuple]:
    """The declaration and the rows of each panel, and the words that its names have."""
    rows, axes = what.rows, what.results.axes
    if picture.beside == "scaling":
        groups = [(under(rule), part) for rule, part in rows.groupby("scaling", sort=False)]
        return [(panel, part, latex(word)) for panel in picture.panels for word, part in groups]
    if not picture.beside:
        return [(panel, rows, "") for panel in picture.panels]
    names = [name for name in axes.among(rows) if name not in ("layers", "learning_rate")]
    if all(panel.only is None for panel in picture.panels) and "layers" in rows:
        names.append("layers")
    groups = []
    for _, part in rows.groupby(names, sort=False):
        first = {name: part[name].iloc[0] for name in names if len({*rows[name]}) > 1}
        if len(first) > 2:
            first = {name: first[name] for name in first if first[name] != axes.usual[name]}
        words = [f"{name} = {value}".removesuffix(".0") for name, value in first.items()]
        groups.append(
            (
                part,
                [CASE_WORDS.get(word, word.replace("al =", "al stream times")) for word in words],
            )
        )
    return [(panel, part, words) for part, words in groups for panel in picture.panels]


def expected_points(panel, rows: pd.DataFrame, x: str, label) -> pd.DataFrame:
    """The points of a panel, from their definitions."""
    if panel.only:
        axis, choose = panel.only
        rows = rows[rows[axis].abs() == choose(rows[axis].abs())]
    if panel.over == "exact":
        rows = rows[rows["scaling"] == rows["scaling"].iloc[0]]
    points = []
    for _, row in rows.iterrows():
        y = row[panel.metric]
        low, high, exact, law = (
            row.get(f"{panel.metric}_{end}", math.nan) for end in ("low", "high", "exact", "law")
        )
        if "layer" in row:
            error = row[f"{panel.metric}_se"]
            if panel.root:
                y, law, error = y**0.5, law**0.5, error / y**0.5 / 2
            low, high = y - 2 * error, y + 2 * error
        per = {"exact": exact, "ln n_keys": math.log(row["n_keys"]), "": 1}[panel.over]
        y, low, high = (min(value / per, panel.top) for value in (y, low, high))
        is_few = panel.metric in row.get("few_draws", "").split()
        is_crossed = bool(panel.crossed) and row[panel.crossed] > 1 / 2
        points.append((label(row), row[x], y, low, high, exact / per, law, is_few, is_crossed))
    columns = ["label", "x", "y", "low", "high", "exact", "law", "hollow", "crossed"]
    table = pd.DataFrame(points, columns=columns).dropna(subset="y")
    return table.sort_values(["label", "x", "y"], ignore_index=True)


def labels(picture, what: Shown):
    """The function that names a row in the legend."""
    axes = what.results.axes

    def label(row) -> str:
        if picture.beside == picture.by:
            return values_of(row, axes.changed(row)) or "softmax"
        varied = axes.varied(what.rows, *fixed)
        first = row["scaling"] if picture.by == "scaling" else values_of(row, [picture.by])
        return ", ".join(filter(None, [first, values_of(row, varied)]))

    fixed = {
        picture.x or "d_k",
        picture.by,
        *(panel.only[0] for panel in picture.panels if panel.only),
    }
    if picture.beside == "cases":
        fixed |= {*axes.usual}
    return label


@pytest.mark.parametrize("name", OF_LINES)
def test_lines_are_the_rows_shown(name, made):
    """Points, intervals, hollow points, crosses, exact values, laws, labels, colours and titles."""
    picture, what = FIGURES[name].lines, shown(FIGURES[name], made(name))
    drawing = draw(FIGURES[name], what)
    colours = {}
    panels = expected_panels(picture, what)
    assert len(drawing.axes) == len(panels)
    for ax, (panel, rows, words) in zip(drawing.axes, panels, strict=True):
        expected = expected_points(panel, rows, picture.x or "d_k", labels(picture, what))
        found, others = lines_of(ax)
        shared = ["label", "x", "y", "low", "high"]
        pd.testing.assert_frame_equal(found[shared], expected[shared], check_dtype=False)
        expected["colour"] = found["colour"]
        for kind, seen in others.items():
            is_there = expected[kind].notna() if kind in ("exact", "law") else expected[kind]
            height = kind if kind in ("exact", "law") else "y"
            at = expected[is_there][["colour", "x", height]].itertuples(index=False)
            assert seen == {(colour, x, round(y, 9)) for colour, x, y in at}, kind
        for label, colour in found[["label", "colour"]].itertuples(index=False):
            assert colours.setdefault(label, colour) == colour
        title = panel.title or what.results.metrics[panel.metric].title
        assert title in (ax.get_title() + drawing.axes[0].get_ylabel())
        assert all(word in ax.get_title().replace("\n", " ") for word in words)
    for label, colour in colours.items():
        rule = label.partition(",")[0]
        assert COLOURS.get(rule, colour) == colour
    if picture.by != "scaling":
        in_order = sorted(colours, key=lambda label: float(label.partition(" = ")[2]))
        brightness = [sum(to_rgb(colours[label])) for label in in_order]
        assert brightness == sorted(brightness, reverse=True)
    assert len({*colours.values()}) == len({label.partition(",")[0] for label in colours})
    assert {
        text.get_text(): to_hex(handle[0].get_color())
        for text, handle in zip(drawing.legends[0].texts, drawing.axes[0].containers, strict=True)
    } == colours


def points_of(bars) -> np.ndarray:
    """x, y and both ends of each interval, along the axis of the interval."""
    line, _, (ends,) = bars
    spread = [segment for segment in ends.get_segments() if len(segment)]
    along = int(np.ptp(spread[0][:, 0]) == 0)
    reach = {segment[0, 1 - along]: segment[:, along] for segment in spread}
    unknown = np.full(2, math.nan)
    return np.array([[*xy, *reach.get(xy[1 - along], unknown)] for xy in line.get_xydata()])


def pale(ax, colour) -> np.ndarray:
    """The coordinates of exact values in a colour."""
    lines = [line for line in ax.lines if line.get_alpha()]
    (line,) = [line for line in lines if to_hex(line.get_color()) == to_hex(colour)]
    return line.get_xydata()


def numbers(rows: pd.DataFrame, x: str, metric: str) -> np.ndarray:
    """The columns that `points_of` reads."""
    rows = rows.sort_values(x)
    return rows[[x, metric, f"{metric}_low", f"{metric}_high"]].to_numpy(dtype=float)


def assert_curve(ax, bars, rows: pd.DataFrame, x: str, metric: str) -> None:
    """Points, intervals and exact values of a line are those of rows."""
    assert np.allclose(points_of(bars), numbers(rows, x, metric), equal_nan=True)
    exact = rows.sort_values(x)[[x, f"{metric}_exact"]]
    assert np.allclose(pale(ax, bars[0].get_color()), exact, equal_nan=True)


def test_assumptions_are_ratios_to_the_first_row(made):
    what = shown(FIGURES["assumptions"], made("assumptions"))
    drawing = draw(FIGURES["assumptions"], what)
    titles = [what.results.metrics[name].title for name in curves._CHANGED]
    cells = [text.get_text() for text in drawing.axes[0].get_yticklabels()]
    assert [ax.get_title() for ax in drawing.axes] == titles
    assert len(cells) == 9
    for ax, metric in zip(drawing.axes, curves._CHANGED, strict=True):
        for bars, (rule, rows) in zip(
            ax.containers, what.rows.groupby("scaling", sort=False), strict=True
        ):
            assert bars.get_label() == under(rule)
            colour = to_hex(bars[0].get_color())
            assert COLOURS.get(rule, colour) == colour
            x, y, low, high = points_of(bars).T
            first = rows.iloc[0]
            for end, found in (("", x), ("_low", low), ("_high", high)):
                assert np.allclose(found, rows[f"{metric}{end}"] / first[metric])
            exact = rows[f"{metric}_exact"]
            assert np.allclose(pale(ax, colour)[:, 0], exact / exact.iloc[0], equal_nan=True)
            for place, (_, row) in zip(y, rows.iterrows(), strict=True):
                named = ["n_keys", *what.results.axes.changed(row)]
                assert cells[round(place)] == values_of(row, named)


def test_a_correlation_has_the_own_weight_and_the_steady_power(made):
    results = made("correlation")
    what = shown(FIGURES["correlation"], results)
    left, right = draw(FIGURES["correlation"], what).axes
    assert left.get_title().endswith("under d_k^1/2")
    widths = what.rows.groupby("d_k")
    for bars, (d_k, rows) in zip(left.containers, widths, strict=True):
        assert bars.get_label() == f"d_k = {d_k}"
        assert_curve(left, bars, rows, "correlation", "own_weight")
    _, others = lines_of(left)
    few = what.rows[["own_weight" in flagged.split() for flagged in what.rows["few_draws"]]]
    assert {(x, y) for _, x, y in others["hollow"]} == {
        (x, round(y, 9)) for x, y in few[["correlation", "own_weight"]].itertuples(index=False)
    }
    steady = results["steady"].query("n_keys == 8").groupby("from_d_k")
    for bars, (d_k, rows) in zip(right.containers, steady, strict=True):
        assert bars.get_label() == f"d_k = {d_k} to {4 * d_k}"
        known = rows.assign(power_low=rows["power_low"].fillna(rows["power"]))
        assert_curve(right, bars, known, "correlation", "power")


def test_a_distribution_has_the_densities_and_the_kurtosis(made):
    results = made("distribution")
    what = shown(FIGURES["distribution"], results)
    *densities, right = draw(FIGURES["distribution"], what).axes
    histogram = results["histogram"]
    middle = (histogram["low"] + histogram["high"]) / 2
    reach = 1.96 * histogram["density_se"].where(histogram["count"] >= 10, 0)
    ends = {
        "density_low": histogram["density"] - reach,
        "density_high": histogram["density"] + reach,
    }
    groups = histogram.assign(middle=middle, **ends).groupby("d_k")
    for ax in densities:
        for bars, (d_k, rows) in zip(ax.containers, groups, strict=True):
            assert bars.get_label() == f"d_k = {d_k}"
            assert_curve(ax, bars, rows, "middle", "density")
    rows = what.rows
    found = np.concatenate([points_of(bars) for bars in right.containers])
    assert np.allclose(found, numbers(rows, "d_k", "score_kurtosis"))
    exact = rows[["d_k", "score_kurtosis_exact"]]
    assert np.allclose(pale(right, INK), exact, equal_nan=True)


def test_maps_have_the_ratios_of_the_first_combination_and_their_crossings(made):
    results = made("map")
    drawing = draw(FIGURES["map"], shown(FIGURES["map"], results))
    shown_ticks = drawing.axes[3].get_xticklabels(), drawing.axes[3].get_yticklabels()
    ticks = [[float(text.get_text()) for text in texts] for texts in shown_ticks]
    assert ticks == [[4, 16, 64, 256], [8, 32, 128]]
    names = {"|J|_F": "jacobian", "|dL/dq|": "query_gradient"}
    for ax in drawing.axes[:6]:
        statistic, _, norm = ax.get_title().partition(" of ")
        one = {"norm": names.get(norm, "undivided_query_gradient"), "statistic": statistic}
        ratios, crossings = (
            rows_of(results, kind, query_std=1, **one) for kind in ("ratios", "crossings")
        )
        plane = ratios.set_index(["n_keys", "d_k"])["ratio"]
        for (row, column), log in np.ndenumerate(ax.images[0].get_array()):
            assert math.exp(log) == pytest.approx(plane[ticks[1][row], ticks[0][column]])
        written = {(text.xy[1], text.xy[0]): float(text.get_text()) for text in ax.texts}
        for (row, column), number in written.items():
            ratio = plane[ticks[1][row], ticks[0][round(column)]]
            assert number == pytest.approx(ratio, rel=0.05, abs=0.005)
        equal = crossings[crossings["level"] == 1].sort_values("n_keys")
        x, y, low, high = points_of(ax.containers[0]).T
        for found, end in ((x, ""), (low, "_low"), (high, "_high")):
            assert np.allclose(4 * 4**found, equal[f"crossing{end}"])
        assert y.tolist() == [0, 1, 2]
        (dashed,) = [line for line in ax.lines if line.get_linestyle() == "--"]
        assert np.allclose(4 * 4 ** dashed.get_xdata(), equal["crossing_exact"])
        near = [abs(x[round(row)] - column) for row, column in written]
        assert min(near, default=9) > 1


def test_phases_have_the_shares_of_each_case_and_the_line_of_freezing(made):
    what = shown(FIGURES["phase"], made("phase"))
    drawing = draw(FIGURES["phase"], what)
    groups = what.rows.groupby(["query_std", "scaling"], sort=False)
    for ax, ((spread, rule), rows) in zip(drawing.axes[:-1], groups, strict=True):
        assert ax.get_title() == f"query std = {spread:g}, {under(rule)}"
        plane = rows.set_index(["n_keys", "d_k"])
        for (row, column), share in np.ndenumerate(ax.images[0].get_array()):
            n_keys, d_k = (8, 32, 128)[row], 4 * 4**column
            assert share == pytest.approx(plane["entropy"][n_keys, d_k] / math.log(n_keys))
        freezing = [line for line in ax.lines if line.get_linestyle() == "--"]
        exponent = rows["exponent"].iloc[0]
        assert bool(freezing) == (exponent < 1 / 2)
        for line in freezing:
            d_k, n_keys = (first * 4 ** line.get_data()[i] for i, first in enumerate((4, 8)))
            inside = ~np.isnan(d_k)
            sigma = spread * d_k ** (1 / 2 - exponent)
            assert np.allclose(sigma[inside], np.sqrt(2 * np.log(n_keys[inside])))


def test_contours_are_of_the_exact_shares_if_all_are_known(made):
    results = made("phase")
    one = results.measured.query("query_std == 1 and scaling == 'unscaled'")
    known = one.fillna({"entropy_exact": 0.3})
    some = known.assign(entropy_exact=known["entropy_exact"].where(known["d_k"] > 4))
    for table, column in ((known, "entropy_exact"), (some, "entropy")):
        what = shown(FIGURES["phase"], Results(results.sweep, {"measured": table}))
        ax = draw(FIGURES["phase"], what).axes[0]
        shares = table.assign(share=table[column] / np.log(table["n_keys"]))
        plane = shares.pivot_table(index="n_keys", columns="d_k", values="share").to_numpy()
        share = RegularGridInterpolator([np.arange(3), np.arange(4)], plane)
        (contours,) = [each for each in ax.collections if hasattr(each, "levels")]
        assert len(contours.levels)
        for level, path in zip(contours.levels, contours.get_paths(), strict=True):
            on_edges = [place for place in path.vertices if (place % 1 < 1e-9).any()]
            assert share([(y, x) for x, y in on_edges]) == pytest.approx(level)


def test_rows_are_the_weights_of_the_first_draw(made):
    what = shown(FIGURES["rows"], made("rows"))
    drawing = draw(FIGURES["rows"], what)
    groups = made("rows").measured.query("trial == 0 and n_keys == 3").groupby(["d_k", "scaling"])
    seen = {}
    for ax in drawing.axes[:4]:
        (d_k, rule), mean = ax.get_title().split("\n")[0].split(", "), ax.get_title()[-4:]
        rows = groups.get_group((int(d_k.removeprefix("d_k = ")), rule))
        for query, key, weight in rows[["query", "key", "weight"]].itertuples(index=False):
            assert ax.images[0].get_array()[int(query), int(key)] == weight
        assert float(mean) == pytest.approx(rows.groupby("query")["weight"].max().mean(), abs=0.005)
        seen[d_k, rule] = True
    assert len(seen) == 4
