"""Tables on disk: written whole, and refused when they are not what their record vouches for."""

import dataclasses
import json

import pandas as pd
import pytest

from experiments.analysis.overview import check_table
from experiments.folders import default_results
from experiments.harness.compare import compare, update
from experiments.harness.files import write_atomically
from experiments.harness.processor import is_supported
from experiments.harness.tables import ChangedError, TableError, csv_bytes, is_current, read_sweep, write_sweep


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


def test_a_rule_that_is_a_number_stays_text(copied):
    config, sweep, folder = copied
    tables = {kind: table.assign(scaling="8") for kind, table in read_sweep(folder, config, sweep).items()}
    (folder / f"{sweep.name}.json").unlink()  # so that no table is expected to be the same
    write_sweep(folder, config, sweep, tables)
    for table in read_sweep(folder, config, sweep).values():
        assert set(table["scaling"]) == {"8"}


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


TABLE = b"name,x,x_se,y,z,p_value\na,1.5,1e-3,-3.5,0.1,0.5\nb,2.5,1e-13,inf,-4,1e-9\n"


@pytest.mark.parametrize(
    ("of", "to", "kind", "where"),
    [
        (b"1.5", b"1.5", "unchanged", ""),
        (b"-3.5", b"-3.500000003", "equal to rounding", "y in row 1: -3.5 before, -3.500000003 now"),
        (b"-3.5", b"-3.50000001", "different", "y in row 1: -3.5 before, -3.50000001 now"),
        (b"1.5,", b"1.500001,", "equal to rounding", "x in row 1: 1.5 before, 1.500001 now"),  # of its error
        (b"1.5,", b"1.50001,", "different", "x in row 1: 1.5 before, 1.50001 now"),
        (b"1e-13", b"9e-12", "equal to rounding", "x_se in row 2: 1e-13 before, 9e-12 now"),  # of its value
        (b"0.1", b"0.1009", "equal to rounding", "z in row 1: 0.1 before, 0.1009 now"),
        (b"1e-9", b"1.001e-9", "different", "p_value in row 2: 1e-9 before, 1.001e-9 now"),
        (
            b"b,2.5,1e-13,inf",
            b"b,2.500000001,1e-13,inf",
            "equal to rounding",
            "x in row 2: 2.5 before, 2.500000001 now",
        ),
        (b"inf", b"", "different", "y in row 2: inf before, empty now"),
        (b"a,", b"c,", "different", "name in row 1: a before, c now"),
        (b"y,z", b"v,z", "different", "other columns: v, y"),
        (b"b,2.5,1e-13,inf,-4,1e-9\n", b"", "different", "2 rows before, 1 now"),
    ],
)
def test_a_table_is_compared_with_the_one_before(of, to, kind, where):
    change = compare(TABLE, TABLE.replace(of, to))
    assert (change.kind, change.where) == (kind, where)


@pytest.mark.parametrize(("old", "kind"), [(None, "new"), (b"", "different"), (b"\xff\xfe\x00", "different")])
def test_a_table_without_a_readable_one_before(old, kind):
    assert compare(old, TABLE).kind == kind


@pytest.mark.parametrize(("keep", "kept"), [(True, True), (False, False), (None, not is_supported())])
def test_a_table_that_is_equal_to_rounding_stays_where_it_may(keep, kept, tmp_path):
    path, new = tmp_path / "a.csv", TABLE.replace(b"1.5", b"1.500001")
    path.write_bytes(TABLE)
    change = update(path, new, keep=keep)
    assert (change.kind, path.read_bytes()) == (("equal to rounding", TABLE) if kept else ("different", new))


def test_a_table_of_the_same_source_stays_unless_somebody_changed_it(copied):
    config, sweep, folder = copied
    tables = read_sweep(folder, config, sweep)
    path, sidecar = folder / f"{sweep.name}.csv", folder / f"{sweep.name}.json"
    before = path.read_bytes(), sidecar.read_bytes()
    nudged = tables | {"measured": tables["measured"].assign(entropy=tables["measured"]["entropy"] * (1 + 4e-10))}
    assert write_sweep(folder, config, sweep, nudged)[path].kind == "equal to rounding"
    assert (path.read_bytes(), sidecar.read_bytes()) == before
    altered = csv_bytes(pd.read_csv(path).assign(entropy=lambda table: table["entropy"] * (1 + 3e-10)))
    path.write_bytes(altered)
    assert compare(before[0], altered).kind == "equal to rounding"
    write_sweep(folder, config, sweep, tables)
    assert path.read_bytes() == before[0]


@pytest.mark.skipif(not is_supported(), reason="tables of this processor agree to rounding")
def test_a_table_that_should_be_the_same_and_is_not_is_never_written(copied):
    config, sweep, folder = copied
    tables = read_sweep(folder, config, sweep)
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    other = tables | {"measured": tables["measured"].assign(entropy=1.0)}
    with pytest.raises(ChangedError, match=r"scaling\.csv: entropy in row \d+: "):
        write_sweep(folder, config, sweep, other)
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before


def test_what_an_earlier_run_derived_and_this_one_does_not_is_gone(copied):
    config, sweep, folder = copied
    tables = read_sweep(folder, config, sweep)
    wrote = write_sweep(folder, config, sweep, {"measured": tables["measured"]})
    assert wrote[folder / "derived/scaling/slopes.csv"].kind == "removed"
    assert set(read_sweep(folder, config, sweep)) == {"measured"}
    assert not (folder / "derived/scaling/slopes.csv").exists()


def test_the_machine_of_a_table_is_recorded_and_does_not_make_it_stale(copied):
    config, sweep, folder = copied
    path = folder / f"{sweep.name}.json"
    sidecar = json.loads(path.read_bytes())
    assert set(sidecar["made_on"]) == {"processor", "libc", "simd", "blas"}
    other = json.dumps(sidecar | {"made_on": {"processor": "another"}}).encode()
    path.write_bytes(other)
    assert is_current(folder, config, sweep)
    write_sweep(folder, config, sweep, read_sweep(folder, config, sweep))
    assert path.read_bytes() == other
