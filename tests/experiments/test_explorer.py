"""The data of the page's explorer: a reader's own sizes, expectations of theory, medians and crossings of tables."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import BarycentricInterpolator

from experiments.harness.config import load_config
from experiments.harness.tables import read_sweep
from experiments.page import explorer
from experiments.page.explorer import CURVES, RELATIVE_ERROR, row_means
from sdpa.theory import attention_expectations, limits
from sdpa.theory.queries import query_lengths

SATURATION = "{experiment: saturation, n_queries: 2, trials: 3, figures: length"


def config_of(tmp_path, *sweeps: str):
    blocks = "".join(f"  s{i}: {sweep}\n" for i, sweep in enumerate(sweeps))
    (tmp_path / "own.yaml").write_text(f"seed: 0\nsweeps:\n{blocks}")
    return load_config(tmp_path / "own.yaml").sweeps


def data_of(sweeps, **tables):
    measured = {sweep.name: {"measured": pd.DataFrame()} for sweep in sweeps}
    return explorer.explorer(sweeps, {name: kinds | tables for name, kinds in measured.items()})


@pytest.mark.usefixtures("quick_slider")
def test_a_reader_chooses_among_the_sizes_of_most_cells(tmp_path):
    sweeps = config_of(
        tmp_path,
        SATURATION + ", d_k: 3, n_keys: 8192, scaling: d_k^1}",
        SATURATION + ", d_k: [3, 5], n_keys: [8192, 7], correlation: [0, 0.5], scaling: d_k^1}",
    )
    data = data_of(sweeps)
    assert (data["d_k"], data["n_keys"], data["start"]) == ([3, 5], [7, 8192], (3, 8192))
    many = config_of(
        tmp_path,
        SATURATION + ", d_k: 1..4096*2, n_keys: 2..1024*2, scaling: d_k^1}",
        SATURATION + f", d_k: 11, n_keys: 64, query_std: {list(range(1, 13))}, scaling: d_k^1}}",
    )
    data = data_of(many)
    assert (len(data["d_k"]), len(data["n_keys"]), data["start"]) == (9, 6, (11, 64))
    without = data_of(config_of(tmp_path, "{experiment: distribution, d_k: [3, 5], trials: 20}"))
    assert (without["d_k"], without["n_keys"], without["start"]) == ([64], [64], (64, 64))


@pytest.mark.usefixtures("quick_slider")
def test_medians_and_crossings_are_those_of_the_tables(drawn):
    config, folder = drawn
    tables = {sweep.name: read_sweep(folder, config, sweep) for sweep in config.sweeps}
    data = explorer.explorer(config.sweeps, tables)
    several = ("scaling", "single", "many", "laws", "formats", "map")
    rows = pd.concat(tables[name]["measured"].assign(sweep=name) for name in several)
    rows = rows.query("inputs == 'gaussian' and arithmetic == 'float64'")
    rows = rows[rows["d_k"].isin(data["d_k"]) & rows["n_keys"].isin(data["n_keys"])]
    found = {tuple(cell[:3]): cell[3:] for cell in data["medians"]}
    cells = rows.groupby(["d_k", "n_keys", "divisor"])
    assert len(data["medians"]) == len(found) == len(cells)
    for cell, of_sweeps in cells:
        _, largest = max(of_sweeps.iterrows(), key=lambda row: row[1]["trials"] * row[1]["n_queries"])
        medians = [largest["jacobian_norm_median"], largest["query_gradient_norm_median"]]
        assert found[cell] == pytest.approx(medians, rel=1e-3), cell
    assert rows["sweep"].nunique() > 2
    crossings = tables["map"]["crossings"].query("level == 1 and statistic == 'median'")
    for norm, rows in data["crossings"].items():
        expected = crossings[crossings["norm"] == norm].set_index("n_keys")[["law", "crossing"]].astype(float)
        found = pd.DataFrame(rows, columns=["n_keys", "law", "crossing", "low", "high"], dtype=float).set_index(
            "n_keys"
        )
        np.testing.assert_allclose(found.loc[expected.index, ["law", "crossing"]], expected, rtol=1e-3)
        assert found["law"].drop(expected.index).tolist() == found["law"].drop(expected.index).index.tolist()


def test_without_measured_crossings_the_law_draws_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "row_means", lambda *_: {})
    data = data_of(config_of(tmp_path, SATURATION + ", d_k: 3, n_keys: [4, 16, 32, 64, 256], scaling: d_k^1}"))
    jacobian, query = (data["crossings"][norm] for norm in ("jacobian", "query_gradient"))
    assert [row[0] for row in jacobian] == [row[0] for row in query] == [16, 32, 64, 256]
    assert jacobian[2][1:] == [pytest.approx(limits.jacobian_crossing(64), rel=1e-3), None, None, None]
    assert query[2][1] == pytest.approx(limits.query_gradient_crossing(64), rel=1e-3)


def expectations(rows, n_keys: int, d_k: int, divisor: float) -> list[float]:
    """The expectations that curves give, in the order of `exact`; by SciPy's interpolation, not the page's."""
    curves = np.array([rows["of"][str(n_keys)][name] for name in CURVES]).T
    points = math.log1p(rows["sigma"]) * (1 - np.cos(np.pi * np.arange(len(curves)) / (len(curves) - 1))) / 2
    lengths = query_lengths(d_k)
    weight, entropy, square, along = lengths.share @ np.exp(
        BarycentricInterpolator(points, curves)(np.log1p(lengths.length / divisor))
    )
    return [weight, entropy, math.sqrt(square), math.sqrt((d_k - 1) * square + along) / divisor]


def assert_they_are_exact(widths: list[int], lengths: list[int], exponents: tuple[float, ...]) -> None:
    rows = row_means(widths, lengths)
    for n_keys in lengths:
        for d_k in widths:
            for p in exponents:
                exact = attention_expectations(d_k, n_keys, d_k**p)
                wanted = [exact.max_weight, exact.entropy, exact.jacobian_norm, exact.query_gradient_norm]
                assert expectations(rows, n_keys, d_k, d_k**p) == pytest.approx(wanted, rel=RELATIVE_ERROR)


def test_embedded_curves_give_the_expectations_of_theory():
    assert_they_are_exact([5, 64], [7], (0.0, 0.4))


@pytest.mark.slow
def test_embedded_curves_give_the_expectations_of_theory_at_all_sizes():
    assert_they_are_exact([1, 2, 64, 4096], [2, 4, 16, 64, 1024, 8192, 65536], (-0.05, 0.0, 0.3, 0.5, 1.0))
    assert_they_are_exact([3, 65536], [64], (0.0, 0.5))
