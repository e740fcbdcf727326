"""long-format.csv and columns.csv: every value and column of every table, and the lines of the docs that use them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.analysis.agreement import agreement
from experiments.analysis.overview import DISAGREES, FEW, long_tables
from experiments.harness.columns import axis_names
from experiments.harness.tables import as_written, read_sweep, write_sweep
from experiments.steps.sweeps import write_overview


def written(config, source: Path, folder: Path) -> Path:
    """A copy of the tables of a config, with the files that cover all of them."""
    for sweep in config.sweeps:
        write_sweep(folder, config, sweep, read_sweep(source, config, sweep))
    write_overview(config, folder)
    return folder


@pytest.fixture(scope="module")
def tiny_overview(tiny, tmp_path_factory):
    config, source = tiny
    folder = written(config, source, tmp_path_factory.mktemp("overview") / "out")
    return config, folder, {sweep.name: read_sweep(folder, config, sweep) for sweep in config.sweeps}


def test_every_measured_value_is_there_once_with_its_error_and_exact_value(tiny_overview):
    config, folder, tables = tiny_overview
    found = pd.read_csv(folder / "long-format.csv", dtype=str, keep_default_na=False)
    experiments = {sweep.name: sweep.experiment for sweep in config.sweeps}
    metrics = {name: [metric.name for metric in experiment.metrics] for name, experiment in experiments.items()}
    axes = {name: axis_names(experiment.cell) for name, experiment in experiments.items() if metrics[name]}
    every = list(dict.fromkeys(axis for of_sweep in axes.values() for axis in of_sweep))
    assert list(found.columns) == ["sweep", *every, "scaling", "metric", "value", "se", "exact", "z", "flag"]
    assert len(every) > max(map(len, axes.values()))  # some sweeps have axes that others have not
    assert list(found["sweep"].unique()) == [name for name in metrics if metrics[name]]
    assert not found.duplicated(["sweep", *every, "scaling", "metric"]).any()
    for name, rows in found.groupby("sweep"):
        table = tables[name]["measured"]
        assert rows["metric"].tolist() == metrics[name] * len(table)
        for row, (_, expected) in zip(
            rows.itertuples(), table.loc[np.repeat(table.index, len(metrics[name]))].iterrows(), strict=True
        ):
            for axis in every:
                assert getattr(row, axis) == (as_written(expected[axis]) if axis in axes[name] else ""), axis
            assert row.scaling == expected.get("scaling", "")
            for column, suffix in (("value", ""), ("se", "_se"), ("exact", "_exact")):
                number = expected.get(f"{row.metric}{suffix}", np.nan)
                assert float(getattr(row, column) or "nan") == pytest.approx(number, rel=1e-9, nan_ok=True)


def test_flags_are_those_of_the_check_and_of_few_draws(tiny_overview):
    config, _, tables = tiny_overview
    (sweep,) = [sweep for sweep in config.sweeps if sweep.name == "scaling"]
    measured, verdicts = tables["scaling"]["measured"], tables["scaling"]["verdicts"]
    few = measured.assign(few_draws=["entropy", "", "entropy max_weight", "", "", ""])
    wrong = (verdicts["d_k"] == 64) & (verdicts["scaling"] == "unscaled") & (verdicts["metric"] == "jacobian_norm")
    assert wrong.sum() == 1
    planted = {
        **tables["scaling"],
        "measured": few,
        "verdicts": verdicts.assign(
            p_value=verdicts["p_value"].mask(wrong, 1e-9), test=verdicts["test"].mask(wrong, "bound")
        ),
    }
    (rows,) = long_tables([sweep], {"scaling": planted})
    flagged = rows[rows["flag"] != ""]
    assert agreement([sweep], {"scaling": planted}).disagrees
    assert flagged[["d_k", "scaling", "metric", "flag"]].to_numpy().tolist() == [
        [4, "unscaled", "entropy", FEW],
        [4, "d_k^1/2", "max_weight", FEW],
        [4, "d_k^1/2", "entropy", FEW],
        [64, "unscaled", "jacobian_norm", DISAGREES],
    ]


def test_columns_of_every_file_are_described_in_order(tiny_overview):
    _, folder, _ = tiny_overview
    described = pd.read_csv(folder / "columns.csv").groupby("file", sort=False)["column"].agg(list)
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.csv")}
    assert set(described.index) == set(files) - {"columns.csv"}
    for name, columns in described.items():
        assert list(pd.read_csv(files[name], nrows=0).columns) == columns
