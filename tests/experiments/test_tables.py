"""Tables on disk: written whole, and refused when they are not what their record vouches for."""

import dataclasses
import json

import pandas as pd
import pytest

from experiments.analysis.check import check_table
from experiments.folders import default_results
from experiments.harness.compare import describe_change
from experiments.harness.files import write_atomically
from experiments.harness.paths import csv_name
from experiments.harness.tables import TableError, csv_bytes, read_sweep, write_sweep


@pytest.fixture
def copied(tiny, tmp_path):
    """A folder with the table of one sweep, to spoil."""
    config, folder = tiny
    sweep = config.sweeps[0]
    tables = read_sweep(folder, config, sweep)
    write_sweep(tmp_path, config, sweep, tables)
    return config, sweep, tmp_path


def test_what_is_written_reads_back_to_ten_digits(copied, tiny):
    config, sweep, folder = copied
    for kind, table in read_sweep(folder, config, sweep).items():
        assert csv_bytes(table) == csv_bytes(read_sweep(tiny[1], config, sweep)[kind])
    kinds = [f"{kind}.csv" for kind in ("ratios", "slopes", "tests", "verdicts")]
    assert sorted(path.name for path in folder.iterdir()) == ["derived", "scaling.csv", "scaling.json"]
    assert sorted(path.name for path in (folder / "derived" / "scaling").iterdir()) == kinds


def test_every_file_names_its_sweep_experiment_and_seed(tiny):
    config, folder = tiny
    for sweep in config.sweeps:
        for kind, table in read_sweep(folder, config, sweep).items():
            written = pd.read_csv(folder / csv_name(sweep.name, kind))
            assert list(written.columns) == ["sweep", "experiment", "seed", *table.columns]
            named = written[["sweep", "experiment", "seed"]].drop_duplicates()
            assert named.to_numpy().tolist() == [[sweep.name, sweep.experiment, config.seed]]


def test_a_column_that_would_hide_the_seed_is_refused(copied):
    config, sweep, folder = copied
    tables = read_sweep(folder, config, sweep)
    with pytest.raises(ValueError, match="cannot insert seed, already exists"):
        write_sweep(folder, config, sweep, {"measured": tables["measured"].assign(seed=1)})
    assert read_sweep(folder, config, sweep).keys() == tables.keys()


def test_a_rule_that_is_a_number_stays_text(copied):
    config, sweep, folder = copied
    tables = {kind: table.assign(scaling="8") for kind, table in read_sweep(folder, config, sweep).items()}
    write_sweep(folder, config, sweep, tables)
    for table in read_sweep(folder, config, sweep).values():
        assert set(table["scaling"]) == {"8"}


def test_a_record_holds_nothing_that_varies_between_equal_runs(copied):
    _, sweep, folder = copied
    record = json.loads((folder / "scaling.json").read_text())
    assert set(record) == {"sweep", "seed", "parameters", "fingerprint", "versions", "sha256"}
    assert record["parameters"] == sweep.parameters()


def test_a_flipped_byte_is_noticed_and_named(copied):
    config, sweep, folder = copied
    for name in ("scaling.csv", "derived/scaling/slopes.csv"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
        with pytest.raises(TableError, match=rf"{name} has been altered: got SHA-256 \w+"):
            read_sweep(folder, config, sweep)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("change", [{"trials": 61}, {"values": None}])
def test_a_table_of_other_parameters_is_refused(copied, change):
    config, sweep, folder = copied
    if "values" in change:
        change = {"values": {**sweep.values, "d_k": (4, 64, 128)}}
    with pytest.raises(TableError, match=r"scaling\.csv is from another config: got (trials|d_k)"):
        read_sweep(folder, config, dataclasses.replace(sweep, **change))


def test_a_table_of_another_seed_is_refused(copied):
    config, sweep, folder = copied
    with pytest.raises(TableError, match="got seed 0, expected 1"):
        read_sweep(folder, dataclasses.replace(config, seed=1), sweep)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"sha256": {"measured": ""}, "parameters": []}']
)
def test_a_spoilt_record_is_refused(copied, content):
    config, sweep, folder = copied
    (folder / "scaling.json").write_bytes(content)
    with pytest.raises(TableError, match="scaling"):
        read_sweep(folder, config, sweep)


@pytest.mark.parametrize("name", ["scaling.json", "scaling.csv", "derived/scaling/slopes.csv"])
def test_a_missing_file_is_named(copied, name):
    config, sweep, folder = copied
    (folder / name).unlink()
    with pytest.raises(TableError, match=name):
        read_sweep(folder, config, sweep)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    write_atomically(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("experiments.harness.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_check_refuses_missing_rows_columns_and_numbers(copied):
    config, sweep, folder = copied
    table = read_sweep(folder, config, sweep)["measured"]
    with pytest.raises(TableError, match="expected 6 rows for 2 cells, got 5"):
        check_table(sweep, {"measured": table.iloc[1:]})
    with pytest.raises(TableError, match="expected the columns"):
        check_table(sweep, {"measured": table.drop(columns="entropy")})
    spoilt = table.copy()
    spoilt.loc[2, "entropy"] = float("nan")
    with pytest.raises(TableError, match="expected finite numbers, got other values in entropy"):
        check_table(sweep, {"measured": spoilt})


def test_a_config_of_another_name_or_folder_never_writes_over_the_shipped_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here, elsewhere = tmp_path / "config.yaml", tmp_path / "other" / "config.yaml"
    assert default_results(here).as_posix() == "results"
    assert default_results(elsewhere).as_posix() == "results/config"
    assert default_results(tmp_path / "mine.yaml").as_posix() == "results/mine"
    with pytest.raises(ValueError, match="figures is reserved for other results; rename the file"):
        default_results(tmp_path / "figures.yaml")


TABLE = b"name,value\na,1.000000001\nb,-3.5\n"


@pytest.mark.parametrize(
    ("old", "words"),
    [
        (None, "new"),
        (TABLE, "byte-identical to the previous version"),
        (TABLE.replace(b"1.000000001", b"1.000000002"), "equal to the previous version to 1e-9 relative"),
        (TABLE.replace(b"-3.5", b"-3.50"), "equal to the previous version to 1e-9 relative"),
        (
            TABLE.replace(b"-3.5", b"-3.50000001"),
            "different from the previous version, most in value (relative difference 2.9e-09)",
        ),
        (TABLE.replace(b"b,", b"c,"), "different from the previous version: other rows"),
        (TABLE.replace(b"-3.5", b""), "different from the previous version, most in value (relative difference inf)"),
        (
            TABLE.replace(b"-3.5", b"-inf"),
            "different from the previous version, most in value (relative difference inf)",
        ),
        (TABLE + b"c,1\n", "different from the previous version: other rows or columns"),
        (b"", "different from the previous version, which is not a table"),
        (b"\xff\xfe\x00", "different from the previous version, which is not a table"),
    ],
)
def test_a_table_is_compared_with_the_one_before(old, words):
    assert describe_change(old, TABLE) == words


def test_what_an_earlier_run_derived_and_this_one_does_not_is_gone(copied):
    config, sweep, folder = copied
    tables = read_sweep(folder, config, sweep)
    wrote = write_sweep(folder, config, sweep, {"measured": tables["measured"]})
    assert f"removed {folder}/derived/scaling/slopes.csv: the sweep no longer has it" in wrote
    assert set(read_sweep(folder, config, sweep)) == {"measured"}
    assert not (folder / "derived/scaling/slopes.csv").exists()


def test_equal_infinities_are_equal():
    table = b"name,value\na,-inf\nb,1.000000001\n"
    assert describe_change(table, table.replace(b"001", b"002")) == "equal to the previous version to 1e-9 relative"
