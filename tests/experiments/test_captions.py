"""Captions say what their table shows, whatever it shows."""

import re

import numpy as np
import pandas as pd
import pytest

from experiments.analysis.slopes import fit_slopes
from experiments.figures import formats, gradients, length, metrics, phase, powers, rows, saturation, variance
from experiments.figures import map as map_figure
from experiments.figures.axes import first_combination
from experiments.figures.caption_text import course, exactness, listed, number
from experiments.figures.crossing_text import crossing_list, crossing_with_interval, law_is_inside
from experiments.harness.tables import read_sweep
from experiments.metrics import METRICS


@pytest.fixture
def known(tiny) -> dict[str, pd.DataFrame]:
    config, folder = tiny
    return read_sweep(folder, config, config.sweeps[0])


@pytest.fixture
def tables(known) -> dict[str, pd.DataFrame]:
    """Tables without exact values, as of inputs for which none are known, so that captions print the measured ones."""
    measured = known["measured"]
    exact = [name for name in measured if name.endswith("_exact")]
    return known | {"measured": measured.assign(**dict.fromkeys(exact, np.nan))}


def reversed_in_d_k(tables) -> dict[str, pd.DataFrame]:
    """The opposite finding: each scaling's values in the opposite order of d_k."""
    table = tables["measured"].copy()
    values = [column.name for metric in METRICS for column in metric.columns()]
    for _, group in table.groupby("scaling"):
        table.loc[group.index, values] = group[values].to_numpy()[::-1]
    return {"measured": table, "slopes": fit_slopes(table)}


def test_variance_grows_stays_or_shrinks(tables):
    fitted = {row.scaling: number(row.slope, row.slope_se) for row in tables["slopes"].itertuples()}
    caption = variance.caption(tables)
    assert f"grows as d_k^{fitted['unscaled']} unscaled (exactly 1), grows as d_k^{fitted['d_k^1/3']}" in caption
    assert "and stays level under d_k^1/2." in caption
    opposite = variance.caption(reversed_in_d_k(tables))
    assert f"shrinks as d_k^−{fitted['unscaled']} unscaled" in opposite
    assert "grows" not in opposite
    unknown = variance.caption(tables | {"slopes": tables["slopes"].assign(slope_exact=np.nan)})
    assert f"grows as d_k^{fitted['unscaled']} unscaled, grows as" in unknown
    assert "exactly" in caption


def test_weights_rise_or_fall(tables):
    for figure in (saturation, metrics):
        assert "rises from 0." in figure.caption(tables).split("unscaled")[0]
        assert "falls from 0." in figure.caption(reversed_in_d_k(tables)).split("unscaled")[0]


def test_gradients_say_where_median_and_mean_part(tables):
    table = tables["measured"]
    median, mean = "query_gradient_norm_median", "query_gradient_norm"
    parted = table.assign(
        **{median: 1 / table["d_k"], mean: table["d_k"] * 1.0, f"{median}_se": 1e-3, f"{mean}_se": 0.1}
    )
    caption = gradients.caption({"measured": parted})
    assert (
        "unscaled, the measured median of |dL/dq| falls from 0.250 to 0.016, "
        "while the root mean square rises from 4.0 to" in caption
    )
    together = parted.assign(**{median: parted[mean]})
    assert "falls" not in gradients.caption({"measured": together})


def test_powers_name_the_power_where_the_weights_agree(tables):
    table = tables["measured"]
    assert "d_k^1/2" in powers.caption(tables)
    exponent = table["exponent"]
    elsewhere = table.assign(max_weight=0.1 + 0.1 * (table["d_k"] > 4) * (exponent - 1 / 3).abs(), max_weight_se=1e-4)
    assert (
        "The mean largest of 8 weights changes least from d_k = 4 to 64 under d_k^1/3: 0.1000 and 0.1000, against"
        in powers.caption({"measured": elsewhere})
    )


def test_a_single_d_k_has_values_and_no_course(tiny):
    config, folder = tiny
    single = read_sweep(folder, config, config.sweeps[1])
    assert "slopes" not in single
    for figure in (variance, saturation, gradients, powers, length, metrics):
        caption = figure.caption(single)
        assert caption.startswith(("At d_k = 16", "At n_keys = 8"))
        assert not {"rises", "falls", "grows", "From"} & set(caption.split())


def test_other_axes_are_named_where_there_are_some(tiny):
    config, folder = tiny
    many = read_sweep(folder, config, config.sweeps[2])
    for figure in (variance, saturation, gradients, powers, metrics):
        assert "(at n_keys = 8, inputs = gaussian)" in figure.caption(many)
    assert "(at d_k = 4, inputs = gaussian)" in length.caption(many)


def test_an_axis_without_order_is_read_as_it_stands(tiny):
    config, folder = tiny
    laws = read_sweep(folder, config, config.sweeps[3])
    assert metrics.caption(laws).startswith("Over inputs = gaussian, uniform, the mean largest weight is 0.")


def test_rows_give_the_means_of_their_largest_weights(tiny):
    config, folder = tiny
    tables = read_sweep(folder, config, config.sweeps[4])
    table = tables["measured"]
    first = table[(table["trial"] == 0) & (table["d_k"] == 64) & (table["scaling"] == "unscaled")]
    expected = np.mean([row["weight"].max() for _, row in first.groupby("query")])
    caption = rows.caption(tables)
    assert f"{expected:.2f} unscaled" in caption.split("at d_k = 4")[1]
    assert "shows no trend" in caption


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 2.0, 3.0], "rises from 1.00 to 3.00"),
        ([3.0, 2.0, 1.0], "falls from 3.00 to 1.00"),
        ([1.0, 1.01, 1.02], "stays at 1.00"),
        ([1.0, 5.0, 2.0], "rises from 1.00 to 5.00 at x = 2 and falls to 2.00"),
        ([5.0, 1.0, 2.0], "falls from 5.00 to 1.00 at x = 2 and rises to 2.00"),
        ([1.0], "is 1.00"),
        ([0.1, 0.105, 0.11], "goes from 0.10 to 0.11 (no clear change)"),
    ],
)
def test_a_course_is_told_by_its_ends_its_turn_and_its_errors(values, expected):
    table = pd.DataFrame({"x": range(1, len(values) + 1), "m": values, "m_se": 0.01, "trials": 1000})
    assert course(table, "x", "m") == expected


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (0.27411, 0.0007, "0.2741"),
        (12345.678, 3, "12350"),
        (-0.5, 0.1, "−0.5"),
        (1.234e-5, 0, "1.23e−05"),
        (1.234e-5, 1e-5, "1e−05"),
        (1.234e-5, 2e-7, "1.23e−05"),
        (1.234e-5, 7e-6, "1.2e−05"),
        (1.234e-5, 1e-3, "1e−05"),
        (1.234e7, 2e6, "1.2e+07"),
        (0, 0.01, "0.00"),
        (3.14159, 0, "3.142"),
    ],
)
def test_numbers_have_the_digits_that_their_errors_leave(value, error, expected):
    assert number(value, error) == expected


def test_few_trials_claim_no_course():
    """Three errors apart with two trials is nothing: Student's t of 1 degree of freedom at that level is 236."""
    table = pd.DataFrame({"x": [1, 2], "m": [1.0, 2.0], "m_se": 0.1, "trials": 2})
    assert course(table, "x", "m") == "goes from 1.0 to 2.0 (no clear change)"
    assert course(table.assign(trials=1000), "x", "m") == "rises from 1.0 to 2.0"


def test_gradients_part_for_a_scaling_wherever_it_stands(tables):
    """Unscaled, the median turns and the mean does not; that it is not the first scaling must not hide it."""
    table = tables["measured"].sort_values("exponent", ascending=False, kind="stable")
    median = np.where(table["exponent"] == 0, 1 / table["d_k"], table["d_k"])
    parted = table.assign(query_gradient_norm=table["d_k"] * 1.0, query_gradient_norm_median=median)
    sure = {f"query_gradient_norm_median_{end}": median for end in ("low", "high")}
    parted = parted.assign(query_gradient_norm_se=1e-3, **sure)
    assert "; unscaled, the measured median of |dL/dq| falls from 0.2500 to" in gradients.caption({"measured": parted})


def test_no_power_is_named_from_noise(tables):
    table = tables["measured"]
    noise = table.assign(max_weight=0.5 + 1e-4 * (table["d_k"] > 4), max_weight_se=0.1)
    assert "does not change beyond its errors from d_k = 4 to 64" in powers.caption({"measured": noise})


@pytest.mark.parametrize("figure", [saturation, metrics, length, powers, phase])
def test_exact_values_are_printed_with_how_far_the_measured_ones_are(figure, tiny):
    config, folder = tiny
    one = read_sweep(folder, config, next(sweep for sweep in config.sweeps if sweep.name == "map"))
    metric = "entropy" if figure is phase else "max_weight"
    rows, _ = first_combination(one["measured"], "n_keys" if figure is length else "d_k")
    if figure is phase:
        rows = one["measured"][one["measured"]["n_keys"] == 20]
    away = ((rows[metric] - rows[f"{metric}_exact"]) / rows[f"{metric}_se"]).abs()
    sure = ~rows["few_draws"].str.split().map(lambda names: metric in names)
    caption = figure.caption(one)
    shown = float(re.search(r"\(exact; measured values lie within (\d+\.\d) standard errors\)", caption)[1])
    assert away[sure].max() <= shown < away[sure].max() + 0.1
    first = rows[rows["scaling"] == "d_k^1/2"].iloc[0]
    scale = np.log(20) if figure is phase else 1
    assert number(first[f"{metric}_exact"] / scale) in caption
    moved = one | {"measured": one["measured"].assign(**{f"{metric}_exact": np.nan})}
    assert "exact" not in figure.caption(moved)


def test_exact_values_stay_fall_or_rise_by_their_digits():
    """A fall that noise would hide is told; a difference that four digits do not show is none."""
    table = pd.DataFrame({"x": [1, 2], "m": [0.943, 0.943], "m_se": 0.01, "trials": 100, "few_draws": ""})
    assert course(table, "x", "m") == "stays at 0.94"
    assert course(table.assign(m_exact=[0.9403, 0.9399]), "x", "m") == "falls from 0.9403 to 0.9399"
    assert course(table.assign(m_exact=[0.94, 0.94 + 1e-9]), "x", "m") == "stays at 0.9400"
    assert course(table.assign(m_exact=[0.94, np.nan]), "x", "m") == "stays at 0.94"


def test_rows_of_few_draws_do_not_count_as_measured():
    table = pd.DataFrame({"m": [1.0, 9.0], "m_se": [0.1, 0.1], "m_exact": [1.015, 1.0], "few_draws": ["", "m"]})
    assert exactness(table, "m") == " (exact; measured values lie within 0.2 standard errors)"
    assert exactness(table.iloc[1:], "m") == " (exact)"
    assert exactness(table.assign(m_exact=np.nan), "m") == ""


def test_the_map_says_where_norms_cross_and_on_which_side_they_do_not():
    def rows(**columns: object) -> pd.DataFrame:
        sizes = {"n_keys": [16, 64, 256], "smallest_d_k": 8, "largest_d_k": 512}
        return pd.DataFrame({**sizes, "level": 1.0, "crossing_exact": np.nan, **columns})

    crossed = rows(
        crossing=[20.61, 71.97, 172.9], crossing_low=[20.1, 69.0, np.nan], crossing_high=[21.1, 75.0, 180.0]
    ).assign(ratio_at_largest=0.1)
    assert crossing_list(crossed) == "20.6, 72 and 173"
    known = crossed.assign(crossing_exact=[20.55, np.nan, 1712.3])
    assert crossing_list(known) == "20.6, 72 and 1710"
    assert [crossing_with_interval(row) for _, row in known.iterrows()][1:] == [
        "72 (69 to 75)",
        "173 (<8 to 180; exactly 1710)",
    ]
    assert crossing_with_interval(crossed.assign(crossing_high=np.nan).iloc[0]) == "20.6 (20.1 to >512)"
    laws = crossed.assign(law=[20.0, 70.0, 900.0])
    assert [law_is_inside(row) for _, row in laws.iterrows()] == [False, True, False]
    none = rows(crossing=np.nan, crossing_low=np.nan, crossing_high=np.nan)
    assert crossing_list(none.assign(ratio_at_largest=3.0)) == "none up to 512"
    assert crossing_list(none.assign(ratio_at_largest=[0.5, 3.0, np.nan])) == "<8, >512 and –"
    tenth = none.assign(level=0.1, ratio_at_largest=[0.05, 0.2, 3.0])
    assert crossing_list(tenth) == "<8, >512 and >512"


def test_the_map_says_why_it_is_empty(tiny):
    config, folder = tiny
    single = read_sweep(folder, config, config.sweeps[1])
    assert map_figure.caption(single) == "No ratio of unscaled norms to norms under d_k^1/2: no values unscaled."
    both = single["measured"].assign(scaling=["unscaled"])
    twice = {"measured": pd.concat([single["measured"], both])}
    assert map_figure.caption(twice).endswith(": no ratios along a single d_k.")


def test_lists_read_as_a_sentence():
    assert [listed(list("abc")[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]


def test_formats_say_what_each_one_loses_and_from_which_size_on():
    sizes = [(d_k, n) for n in (16, 256) for d_k in (8, 64)][:3]
    rows = [
        {"d_k": d_k, "n_keys": n, "n_queries": 4, "arithmetic": name, "scaling": rule, "trials": 20}
        for d_k, n in sizes
        for name in ("float64", "float16")
        for rule in ("unscaled", "d_k^1/2")
    ]
    columns = [f"{share}{end}" for share in formats._SHARES for end in ("", "_low", "_high")]
    table = pd.DataFrame(rows).assign(**dict.fromkeys(columns, 0.0))
    half, unscaled = table["arithmetic"] == "float16", table["scaling"] == "unscaled"
    axes = ["n_keys", "n_queries", "arithmetic", "scaling"]
    limits = table[axes].drop_duplicates().assign(half_zero_d_k=np.nan, searched_to=1048576)
    start = "The d_k at which half of the weights of 16 and 256 keys are 0 (exact): "
    none = "none up to 1048576"
    shares = (
        "From d_k = 8 to 64 with 16 to 256 keys (not every combination), largest shares of 80 queries in a cell whose "
        "gradient is 0, or wrong by more than half of its length (95% intervals of shares above 0 within "
    )
    assert formats.caption({"measured": table, "zero_limits": limits}) == (
        f"{start}unscaled, {none}; under d_k^1/2, {none}. {shares}±0%): unscaled, none; under d_k^1/2, none."
    )
    limits.loc[(limits["arithmetic"] == "float16") & (limits["scaling"] == "unscaled"), "half_zero_d_k"] = 100.4, 37.1
    table.loc[half & unscaled, "zero_weights"] = table["d_k"] / 100
    lost = [f"zero_gradient_rows{end}" for end in ("", "_low", "_high")]
    table.loc[half & unscaled & (table["d_k"] == 64), lost] = 0.004, 0.001, 0.03
    wrong = [f"wrong_gradient_rows{end}" for end in ("", "_low", "_high")]
    table.loc[unscaled & (table["d_k"] == 64), wrong] = 0.5, 0.45, 0.55
    table.loc[half & ~unscaled & (table["n_keys"] == 256), ["subnormal_weights", "zero_weights"]] = 0.18, 0.0004
    table.loc[half & unscaled & (table["n_keys"] == 256), "overflowing_rows"] = 0.5
    assert formats.caption({"measured": table, "zero_limits": limits}) == (
        f"{start}unscaled, 100 and 37.1 in float16; under d_k^1/2, {none}. {shares}±5%): unscaled, 0 and 50% in "
        "float64 and 0.4% and 50% in float16; under d_k^1/2, none. Largest shares under d_k^1/2 of weights above 0, "
        "below the smallest normal number: 18% in float16."
    )
    drawn = [(scaling, share) for scaling, share, _ in formats._rows(table)]
    assert drawn == [
        ("unscaled", "zero_weights"),
        ("unscaled", "zero_gradient_rows"),
        ("unscaled", "wrong_gradient_rows"),
        ("unscaled", "overflowing_rows"),
        ("d_k^1/2", "subnormal_weights"),
    ]
    assert formats._formats(table, drawn_rows := list(formats._rows(table))) == ["float64", "float16"]
    assert formats._formats(table.assign(wrong_gradient_rows=0.0), drawn_rows[:2]) == ["float16"]
