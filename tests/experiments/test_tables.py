"""Tables and products on disk: whole, compared, refused when altered, and made again if their
inputs changed.
"""

import json
import shutil
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np
import pandas as pd
import pytest

from experiments.commands import check as checks
from experiments.commands.check import check, write_columns
from experiments.commands.job import Job
from experiments.commands.measure import analyse_again, measure
from experiments.config.errors import DisagreementError, TableError
from experiments.config.loader import Config
from experiments.config.sweep import Sweep
from experiments.figures.draw import draw_sweeps
from experiments.kinds import figures
from experiments.kinds.declarations import Figure, Lines, Panel
from experiments.kinds.figures import SUMMARIES
from experiments.kinds.saturation import cell
from experiments.kinds.saturation.cell import EXPERIMENT
from experiments.measuring.columns import Meaning
from experiments.measuring.kernel import Kernel
from experiments.measuring.metric import Exact
from experiments.measuring.row_metrics import METRICS, RowMetric
from experiments.measuring.sampling import AttentionCell
from experiments.page.index import make_page
from experiments.running.files import checksum, write_atomically
from experiments.tables.all_results import AllResults
from experiments.tables.changes import change_of
from experiments.tables.layout import summary_columns
from experiments.tables.products import Product, build
from experiments.tables.reporter import Reporter
from experiments.tables.results import Results
from experiments.tables.stored import Stored, csv_name
from sdpa import Scaling
from tests.plain_rows import RULES


@pytest.fixture
def copied(tiny, tmp_path):
    """A folder with the table of one sweep, to spoil."""
    results = AllResults(*tiny)["scaling"]
    Stored(tmp_path, results.sweep).write(results)
    return results.sweep, tmp_path


def test_a_flipped_byte_is_noticed_and_named(copied):
    sweep, folder = copied
    for name in ("scaling.csv", "derived/scaling/all_metrics.csv"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
        with pytest.raises(TableError, match=rf"{name} has been altered: got SHA-256 \w+"):
            Stored(folder, sweep).read()
        (folder / name).write_bytes(content)


def test_tables_of_another_config_or_layout_are_refused(copied):
    sweep, folder = copied
    other = replace(sweep, values={**sweep.values, "d_k": (4, 64, 128)})
    with pytest.raises(TableError, match=r"scaling.* is from another config: got d_k"):
        Stored(folder, other).read()
    sidecar = folder / "scaling.json"
    sidecar.write_text(sidecar.read_text().replace('"summary":', '"table":'))
    with pytest.raises(TableError, match=r"scaling\.json is of an earlier version: expected"):
        Stored(folder, sweep).read()


def test_a_table_older_than_an_axis_is_read_once_its_sidecar_has_the_value(copied):
    """Today's default may be another one than that of its time."""
    sweep, folder = copied
    whole = Stored(folder, sweep).read().measured
    path, sidecar = Stored(folder, sweep).csv("measured"), folder / "scaling.json"
    for axis in ("mask", "n_keys"):
        older = json.loads(sidecar.read_bytes())
        value = older["parameters"].pop(axis)
        pd.read_csv(path, dtype=str).drop(columns=axis).to_csv(path, index=False)
        older["sha256"]["measured"] = checksum(path)
        sidecar.write_text(json.dumps(older))
        with pytest.raises(TableError, match=f"got {axis} null, .* add {axis} to the parameters"):
            Stored(folder, sweep).read()
        older["parameters"][axis] = value
        sidecar.write_text(json.dumps(older))
        pd.testing.assert_frame_equal(Stored(folder, sweep).read().measured, whole)


def test_tables_without_chunks_are_analysed_again(tiny, copied):
    """To the same bytes, also from intervals that no file has, and without a column of exact values."""
    sweep, folder = copied
    sidecar = folder / "scaling.json"
    whole = {path: path.read_bytes() for path in folder.rglob("*.csv")}
    path = Stored(folder, sweep).csv("measured")
    pd.read_csv(path).drop(columns="entropy_exact").to_csv(path, index=False)
    lacking = json.loads(sidecar.read_bytes())
    lacking["sha256"]["measured"] = checksum(path)
    sidecar.write_text(json.dumps(lacking))
    config, _ = tiny
    job = Job(config, folder, Reporter(verbose=True), names=["scaling"])
    analyse_again(job)
    assert {path: path.read_bytes() for path in whole} == whole
    earlier = json.loads(sidecar.read_bytes()) | {"source": "an earlier one"}
    sidecar.write_text(json.dumps(earlier))
    assert not Stored(folder, sweep).is_current
    analyse_again(job)
    assert Stored(folder, sweep).is_current
    assert not Stored(folder, sweep).is_measured_alike
    assert json.loads(sidecar.read_bytes()) == earlier
    assert {path: path.read_bytes() for path in whole} == whole


def test_values_of_other_source_are_written_also_if_equal_to_rounding(copied):
    sweep, folder = copied
    stored = Stored(folder, sweep)
    tables = stored.read()
    nearly = tables.measured.assign(entropy=tables.measured["entropy"] * (1 + 1e-9))
    results = Results(sweep, {**tables, "measured": nearly})
    path = stored.csv("measured")
    before = path.read_bytes()
    stored.write(results)
    assert path.read_bytes() == before
    made = json.loads(stored.sidecar.read_bytes()) | {"source": "an earlier one"}
    stored.sidecar.write_text(json.dumps(made))
    assert stored.write(results)[path].kind == "equal to rounding"
    assert path.read_bytes() != before


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    write_atomically(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("experiments.running.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


TABLE = b"name,x,x_se,y,z,p_value\na,1.5,1e-3,-3.5,0.1,0.5\nb,2.5,1e-13,inf,-4,1e-9\n"


@pytest.mark.parametrize(
    "of, to, kind, where",
    [
        (b"1.5", b"1.5", "unchanged", ""),
        (b"2.5", b"2.500000001", "equal to rounding", "x in row 2: 2.5 before, 2.500000001 now"),
        (b"y,z", b"v,z", "different", "other columns (2): v, y"),
        (b"b,2.5,1e-13,inf,-4,1e-9\n", b"", "different", "2 rows before, 1 now"),
    ],
)
def test_a_table_is_compared_with_the_one_before(of, to, kind, where):
    """Beside the examples of `change_of`, of differences near an error."""
    change = change_of(TABLE, TABLE.replace(of, to))
    assert (change.kind, change.where) == (kind, where)


def test_a_sidecar_has_what_determines_its_tables_alone(copied):
    """No time and no commit, so that an edit and its reversal leave the same bytes."""
    sweep, folder = copied
    made = json.loads((folder / "scaling.json").read_bytes())
    assert {*made} == {*Stored(folder, sweep)._origin(), "sha256"}


def test_a_sample_of_cells_without_chunks_is_measured_again(tiny, tmp_path, monkeypatch):
    """Of every experiment; here all cells."""
    config, source = tiny
    for table in AllResults(config, source).values():
        Stored(tmp_path, table.sweep).write(table)
    monkeypatch.setattr(checks, "_SHARE", 1.0)
    count = sum(len(sweep.cells) for sweep in config.sweeps)

    def sampled(*names):
        lines = []
        with Reporter(say=lines.append) as report:
            checks.measure_again(Job(config, tmp_path, report, names=names))
        return "\n".join(lines)

    assert (
        f"sample: main tables of {count} of {count} cells without chunks measured again, equal"
        in sampled()
    )
    with monkeypatch.context() as patch:
        patch.setattr(checks, "_SECONDS", 0.0)
        assert f"sample: main tables of 0 of {count} cells" in sampled()

    tables = AllResults(config, tmp_path)["scaling"]
    spoilt = tables.measured.copy()
    spoilt.loc[4, "entropy"] *= 1.01
    sweep = tables.sweep
    Stored(tmp_path, sweep).write(Results(sweep, {**tables, "measured": spoilt}))
    with pytest.raises(DisagreementError, match=r"scaling, rows from 4 \(d_k=64, .*\): entropy in"):
        sampled(sweep.name)


def test_every_column_is_described_once(tiny, tmp_path):
    config, source = tiny
    tables = AllResults(config, source)
    for table in tables.values():
        Stored(tmp_path, table.sweep).write(table)
    write_columns(Job(config, tmp_path, Reporter(verbose=True)))
    described = pd.read_csv(tmp_path / "columns.csv")
    assert not described.drop(columns="tables").duplicated().any()
    described["tables"] = described["tables"].str.split()
    columns = described.explode("tables").groupby("tables")["column"].apply(set)
    summaries = defaultdict(set)
    for sweep in config.sweeps:
        summaries[sweep.experiment.name] |= {*pd.read_csv(tmp_path / f"{sweep.name}.csv")}
        for kind in tables[sweep.name]:
            path = tmp_path / csv_name(sweep.name, kind)
            assert columns[f"{sweep.experiment.name}/{path.stem}"] == {*pd.read_csv(path)}
    assert {name: columns[name] for name in summaries} == summaries


def test_a_summary_has_the_axes_that_vary_and_the_metrics_of_its_experiment(tiny):
    config, folder = tiny
    for sweep in config.sweeps:
        summary = pd.read_csv(folder / f"{sweep.name}.csv", dtype=str)
        whole = pd.read_csv(folder / csv_name(sweep.name, "measured"), dtype=str)
        pd.testing.assert_frame_equal(summary, whole[[*summary]])
        assert {*SUMMARIES[sweep.experiment.name]} <= {*summary}
        assert len(summary.columns) <= 26
    *place, first, error, exact = [*pd.read_csv(folder / "map.csv")][:8]
    assert place == ["d_k", "n_keys", "scaling", "divisor", "trials"]
    assert [first, error, exact] == [f"score_variance{end}" for end in ("", "_se", "_exact")]
    medians = {f"jacobian_norm_median{end}" for end in ("", "_low", "_high", "_exact")}
    assert medians <= {*pd.read_csv(folder / "scaling.csv")}
    assert "n_keys" in pd.read_csv(folder / "scaling.csv")


def test_another_figure_changes_no_summary_and_another_declaration_does(tiny, monkeypatch):
    results = AllResults(*tiny)["scaling"]
    before = summary_columns(results)
    further = Figure(name="further", shows="", metrics=("participation",), of="saturation")
    monkeypatch.setattr(figures, "FIGURES", {"further": further, **figures.FIGURES})
    sweep = replace(results.sweep, figures=(*figures.FIGURES,))
    assert summary_columns(Results(sweep, results)) == before
    assert Stored(tiny[1], sweep).is_current
    monkeypatch.setitem(figures.SUMMARIES, "saturation", ("entropy",))
    assert not Stored(tiny[1], sweep).is_current


def copies(path):
    return [path.read_bytes(), b"a text"]


@pytest.fixture
def made(tmp_path):
    """A product of one input."""
    (tmp_path / "in.csv").write_text("x\n1\n")
    files = (tmp_path / "out.csv", tmp_path / "below" / "out.txt")
    product = Product(
        files, partial(copies, tmp_path / "in.csv"), (tmp_path / "in.csv",), {"seed": 0}
    )
    assert built(tmp_path, product) == "new"
    assert built(tmp_path, product) == "up to date"
    return product


def built(folder, product):
    """What became of a product."""
    lines = []
    build(folder, [product], Reporter(verbose=True, say=lines.append), phase="tables")
    return lines[-1].split(": ")[1]


@pytest.mark.parametrize("name", ["below/out.txt", "in.csv"])
def test_a_changed_file_is_made_again(made, tmp_path, name):
    (tmp_path / name).write_text("x\n2\n")
    assert built(tmp_path, made) != "up to date"
    assert [file.read_bytes() for file in made.files] == made.make()
    assert built(tmp_path, made) == "up to date"


def test_other_parameters_source_or_libraries_make_it_again(made, tmp_path, monkeypatch):
    other = replace(made, parameters={"seed": 1})
    assert built(tmp_path, other) == "unchanged"
    for name in ("tables.products.suite_source", "running.fingerprint.versions"):
        monkeypatch.setattr(f"experiments.{name}", lambda *_: "other")
        assert built(tmp_path, other) == "unchanged"
    (tmp_path / ".made.json").write_text("{")
    assert [built(tmp_path, other) for _ in range(2)] == ["unchanged", "up to date"]


@pytest.mark.usefixtures("quick_slider")
def test_a_metric_declared_later_is_left_out_by_name(tiny, tmp_path, monkeypatch):
    """Its tables are read, drawn, checked, described and shown; what needs it says so."""
    config, source = tiny
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    exact = Exact("1", lambda _: 1.0)
    later = RowMetric("later", "a further metric", "", "later", exact=exact, compute="entropy")
    experiment = replace(
        EXPERIMENT,
        metrics=(*EXPERIMENT.metrics, later),
        columns=(*EXPERIMENT.columns, *later.columns()),
    )
    for name, metrics in (("both", ("entropy", "later")), ("late", ("later",))):
        lines = Lines("d_k", tuple(map(Panel, metrics)), (5, 3))
        figure = Figure(name=name, shows="Some", lines=lines, of="saturation")
        monkeypatch.setitem(figures.FIGURES, name, figure)
    scaling = next(sweep for sweep in config.sweeps if sweep.name == "scaling")
    figures_of_it = "both", "late", "phase"
    sweep = replace(scaling, experiment=experiment, figures=figures_of_it)
    job = Job(replace(config, sweeps=(sweep,)), tmp_path, Reporter())
    told = drawn_and_checked(job)
    assert "scaling: its table lacks later, which is not tested; run measures it" in told
    assert all(f"later in scaling/{name}: its table lacks it" in told for name in ("both", "late"))
    drawn = {path.stem for path in (tmp_path / "figures/scaling").glob("*.png")}
    assert drawn == {"both", "phase"}
    write_columns(job)
    assert "The table lacks later." in make_page(job.all_results).decode()
    path = Stored(tmp_path, sweep).csv("measured")
    before = path.read_bytes()
    analyse_again(job)
    assert path.read_bytes() == before


def drawn_and_checked(job):
    """What drawing and the check of all sweeps say."""
    lines = []
    with Reporter(say=lines.append) as report:
        draw_sweeps(job.all_results, job.sweeps, jobs=1, report=report)
        check(replace(job, report=report))
    return "\n".join(lines)


@dataclass(frozen=True)
class Square(AttentionCell):
    """As many queries as keys: their number is a property, and no column."""

    d_k: Annotated[int, Meaning("width")]
    n_keys: Annotated[int, Meaning("keys")]
    scaling: tuple[Scaling, ...]
    n_queries = property(lambda cell: cell.n_keys)

    def draw(self, trials, rng):
        keys = rng.standard_normal((trials, self.n_keys, self.d_k))
        return keys, lambda queries: keys[:, queries]


@pytest.mark.usefixtures("in_this_process")
def test_the_number_of_queries_may_be_a_property_of_a_cell(tmp_path, monkeypatch):
    """From measuring to figures, with limits of metrics that follow from the sizes."""
    metrics = tuple(replace(metric, exact=None) for metric in METRICS)
    experiment = Kernel[Square](metrics).experiment("saturation", Square)
    monkeypatch.setattr(cell, "EXPERIMENT", experiment)  # a chunk names its experiment
    values = {"d_k": (4, 9), "n_keys": (6, 8), "scaling": RULES}
    named = "length", "saturation"
    config = Config((Sweep("square", experiment, values, trials=20, figures=named, seed=0),))
    with Reporter(say=lambda _: None) as report:
        job = Job(config, tmp_path, report)
        measure(job)
    drawn_and_checked(job)
    assert {path.stem for path in (tmp_path / "figures/square").glob("*.png")} == {*named}
    table = job.all_results["square"].measured
    assert "n_queries" not in table
    assert (table["entropy_high"] <= np.log(table["n_keys"])).all()
