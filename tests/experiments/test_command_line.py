"""The command line as a user meets it: what it writes, says and exits with."""

import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from experiments.harness import plan
from experiments.harness.config import load_config
from experiments.harness.local import LocalWorkers
from experiments.harness.problems import MeasurementError
from experiments.harness.processor import is_supported
from experiments.harness.tables import read_sweep, write_sweep
from experiments.steps.sweeps import DRAWN
from tests.command_line import ROOT, SMALL, Suite, call, in_a_process

TABLES = ("mine.csv", "derived/mine/slopes.csv", "derived/mine/verdicts.csv")


@pytest.fixture
def processes(tmp_path) -> Suite:
    """Commands that are processes of their own, with workers."""
    return Suite(tmp_path, in_a_process)


def test_a_new_block_gets_its_tables_and_the_figures_along_its_axis(suite):
    ran = suite("run", "--jobs", "1", "--verbose")
    assert (ran.returncode, ran.stderr) == (0, "")
    wrote = [line for line in ran.stdout.splitlines() if line.startswith("wrote")]
    expected = [
        *(f"wrote {suite.folder}/{name}: new" for name in TABLES),
        f"wrote {suite.folder}/long-format.csv: 0.01 MB",
    ]
    assert sorted(wrote) == sorted(expected)
    drew = suite("draw")
    assert (drew.returncode, drew.stderr) == (0, "")
    checked = suite("check")
    assert (checked.returncode, checked.stderr) == (0, "")
    made = {path.relative_to(suite.folder).as_posix() for path in suite.folder.rglob("*") if path.is_file()}
    (mine,) = load_config(suite.folder / "config.yaml").sweeps
    assert "variance" in mine.figures
    figures = {f"figures/mine/{name}{suffix}" for name in mine.figures for suffix in DRAWN}
    assert {name for name in made if not name.startswith(".cells/")} == (
        {"columns.csv", "long-format.csv", "config.yaml", "manifest.json", ".lock", ".made.json", "mine.json", *TABLES}
        | figures
    )
    assert (suite.folder / "config.yaml").read_text() == SMALL


def test_a_second_run_writes_the_same_bytes(suite, processes):
    suite("run")
    before = {path: path.read_bytes() for path in suite.folder.rglob("*.csv")}
    shutil.rmtree(suite.folder / ".cells")
    again = processes("run", "--jobs", "2")
    assert "tables: 3 unchanged\n" in again.stdout
    assert {path: path.read_bytes() for path in suite.folder.rglob("*.csv")} == before
    assert len(before) == 5
    assert suite("run").stdout.startswith("tables: 3 up to date\n")
    assert f"{suite.folder}/mine.csv: up to date\n" in suite("run", "-v").stdout


@pytest.mark.skipif(not is_supported(), reason="tables of this processor agree to rounding")
def test_a_table_that_comes_out_different_from_the_same_source_is_an_error(suite, tmp_path):
    suite("run")
    config = load_config(tmp_path / "small.yaml")
    tables = read_sweep(suite.folder, config, config.sweeps[0])
    other = tables["measured"].assign(entropy=tables["measured"]["entropy"] * 1.5)
    path = suite.folder / "mine.csv"
    (suite.folder / "mine.json").unlink()
    write_sweep(suite.folder, config, config.sweeps[0], tables | {"measured": other})
    shutil.rmtree(suite.folder / ".cells")
    content = path.read_bytes()
    again = suite("run")
    assert again.returncode == 1
    assert f"delete them to write these:\n{path}: entropy in row " in again.stderr
    assert "X86_V3, Haswell), got others" in again.stderr
    assert path.read_bytes() == content


def test_a_bad_config_is_refused_without_a_traceback_or_a_file(processes):
    refused = processes("run", text=SMALL.replace("trials: 3", "trials: 0").replace("d_k^1", "sqrt"))
    assert refused.returncode == 2
    assert re.search(r"small\.yaml:8:14: .*got sqrt", refused.stderr)
    assert re.search(r"small\.yaml:9:13: .*got 0", refused.stderr)
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""
    assert not processes.folder.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "yours"), "got the sweep 'yours', expected one of mine"),
        (("run", "--jobs", "0"), "expected a whole number from 1, got '0'"),
        (("run", "--jobs", "zero"), "expected a whole number from 1, got 'zero'"),
        (("run", "--nonsense"), "No such option"),
        (("runn",), "No such command"),
    ],
)
def test_bad_usage_exits_2(suite, words, message):
    refused = suite(*words)
    assert refused.returncode == 2
    assert message in " ".join(refused.stderr.replace("│", " ").split())  # typer frames and wraps it
    assert not suite.folder.exists()


@pytest.mark.parametrize("command", ["draw", "check"])
def test_missing_tables_exit_1_and_name_the_command_that_makes_them(suite, command):
    refused = suite(command)
    assert refused.returncode == 1
    assert "mine.csv is missing" in refused.stderr
    assert "make results CONFIG=" in refused.stderr


def test_plan_says_what_is_missing_and_what_is_there(suite):
    assert re.search(r"mine +saturation +2 +3 +2 of 2 chunks .* missing\n", suite("plan").stdout)
    suite("run")
    assert re.search(r"mine +saturation +2 +3 +0 of 2 chunks .* complete\n", suite("plan").stdout)
    other = suite("plan", text=SMALL.replace("2000]", "2000, 3000]")).stdout
    assert re.search(r"mine +saturation +3 +3 +1 of 3 chunks .* stale: .* got d_k \[1000, 2000\], expected", other)
    (suite.folder / "mine.csv").unlink()
    partial = suite("plan", text=SMALL.replace("2000]", "2000, 3000]").replace("mine", "yours")).stdout
    assert re.search(r"yours +.* 1 of 3 chunks .* partial \(2 of 3 chunks measured\)\n", partial)
    suite("run", text=SMALL)
    shutil.rmtree(suite.folder / ".cells")
    assert re.search(r" 2 of 2 chunks .* complete, chunks missing\n", suite("plan").stdout)
    record = (suite.folder / "mine.json").read_text()
    (suite.folder / "mine.json").write_text(record.replace('"measuring": "', '"measuring": "0'))
    assert "stale: another version of the source" in suite("plan").stdout


def test_plan_prints_the_smallest_and_the_largest_divisors(suite):
    several = """\
seed: 0
sweeps:
  grid:
    experiment: saturation
    d_k: [512, 4]
    n_keys: [64, 16]
    scaling: [unscaled, sqrt(d_k), 8, d_k^1/2/ln(n_keys)]
    trials: 3
  one:
    experiment: rows
    d_k: 64
    n_keys: 16
    scaling: d_k^1/2
    trials: 1
  scores:
    experiment: distribution
    d_k: [1, 4]
    trials: 20
"""
    assert suite("plan", "-v", text=several).stdout.splitlines()[-4:-1] == [
        "divisor of the scores, smallest to largest over the cells:",
        "grid             d_k = 4 to 512, n_keys = 16 to 64:"
        " unscaled = 1, d_k^1/2 = 2 to 22.6, 8 = 8, d_k^1/2/ln(n_keys) = 0.481 to 8.16",
        "one              d_k = 64, n_keys = 16: d_k^1/2 = 8",
    ]
    scores = several.partition("  grid")[0] + several[several.index("  scores") :]
    assert "divisor of" not in suite("plan", "-v", text=scores).stdout
    assert "divisor of" not in suite("plan", text=several).stdout


def test_plan_and_run_say_what_a_precision_takes(suite):
    precise = SMALL.replace("trials: 3", "precision: 0.05")
    planned = suite("plan", text=precise).stdout
    assert re.search(r"mine +saturation +2 +by pilot +[0-9]+ of [0-9]+ pilots .* missing\n", planned)
    assert ", plus the trials that the pilots will request; tables go to" in planned
    assert re.search(
        r"mine: \d+ to \d+ trials per cell, .*; 2 of 2 cells met the precision 0.05\n", suite("run", "-v").stdout
    )
    planned = suite("plan").stdout
    assert re.search(r"mine +saturation +2 +by pilot +0 of [0-9]+ chunks .* complete\n", planned)
    assert "the pilots will request" not in planned
    assert suite("check").returncode == 0
    shutil.rmtree(suite.folder / ".cells")
    assert re.search(r" ([0-9]+) of \1 pilots .* complete, chunks missing\n", suite("plan").stdout)


def test_a_folder_that_cannot_be_written_is_named(suite):
    suite.folder.write_text("a file, not a folder")
    refused = suite("run")
    assert refused.returncode == 1
    assert str(suite.folder) in refused.stderr


def test_check_names_the_values_that_disagree(suite, tmp_path):
    """Tables that are vouched for, of a measurement at odds with theory."""
    enough = SMALL.replace("trials: 3", "trials: 1000\n    figures: length").replace("[1000, 2000]", "4")
    suite("run", text=enough)
    config = load_config(tmp_path / "small.yaml")
    tables = read_sweep(suite.folder, config, config.sweeps[0])
    agreed = suite("check", "-v")
    assert (agreed.returncode, agreed.stderr) == (0, "")
    assert re.search(r"14 measured values with exact ones in 1 cell \(p = 0\.\d+; ", agreed.stdout)
    assert "tested only by a bound in mine (events too rare for any run" in agreed.stdout
    assert re.search(
        r"not tested in mine \(no exact value is known\): effective_keys, participation, jacobian_norm_p10, ",
        agreed.stdout,
    )
    assert re.search(r"agreed: 14 measured values .* \(p = .*\)", agreed.stdout)
    tables["verdicts"].loc[tables["verdicts"]["metric"] == "entropy", ["z", "p_value"]] = -7.5, 1e-13
    (suite.folder / "mine.json").unlink()  # so that no table is expected to be the same
    write_sweep(suite.folder, config, config.sweeps[0], tables)
    checked = suite("check")
    assert checked.returncode == 1
    assert "checked: 1 sweep, complete and unaltered" in checked.stdout
    assert "agreed" not in checked.stdout
    assert "flagged: nothing" not in checked.stdout
    assert re.search(r"disagree: .*\n  entropy of mine, d_k\^1: z = -7\.50\n", checked.stderr)


def test_figures_are_drawn_when_what_they_show_changed(suite):
    few = f"{SMALL}    figures: [variance, length]\n"
    suite("run", text=few)
    assert suite("draw").stdout.startswith("figures: 2 drawn\n")
    (suite.folder / "figures" / "mine" / "length.png").write_bytes(b"spoilt")
    said = suite("draw", "-v").stdout
    assert (said.count("drew "), said.count("kept ")) == (1, 1)
    assert "figures: 1 up to date, 1 drawn\n" in said or "figures: 1 drawn, 1 up to date\n" in said
    suite("run", text=few.replace("trials: 3", "trials: 4"))
    assert suite("draw").stdout.startswith("figures: 2 drawn\n")


PARTS = """\
seed: 0
sweeps:
  one: {experiment: saturation, d_k: 4, n_keys: 5, n_queries: 3, scaling: d_k^1/2, trials: 30, figures: length}
  two: {experiment: saturation, d_k: 8, n_keys: 5, n_queries: 3, scaling: d_k^1/2, trials: 30, query_std: 1e6,
    key_std: 1e6, figures: length}
"""


@pytest.mark.usefixtures("quick_slider")
def test_a_problem_in_one_part_is_reported_at_the_end_and_stops_no_other(suite):
    assert suite("all", "--jobs", "1", text=PARTS).returncode == 0
    for name in ("one.csv", "index.html", "figures/two/length.png"):
        (suite.folder / name).unlink()
    shutil.rmtree(suite.folder / ".cells")
    (suite.folder / ".cells").touch()  # so that measuring fails
    ended = suite("all", "--jobs", "1")
    assert ended.returncode == 1
    assert "figures: 1 drawn" in ended.stdout
    assert "checked: 1 sweep, complete and unaltered" in ended.stdout
    assert re.search(r"\.cells/.*: Not a directory", ended.stderr)
    assert ended.stderr.count("one.csv: No such file or directory") == 1
    assert ended.stderr.splitlines()[-1].startswith("to complete or restore the tables: make results CONFIG=")


@pytest.fixture
def lost_cluster(monkeypatch):
    """Makes the cluster of the next runs fail with an error as soon as it should measure."""

    def fail(error: BaseException) -> None:
        def measure(_: object) -> None:
            raise error

        module = SimpleNamespace(DaskCluster=lambda *_: SimpleNamespace(slots=1, measure=measure))
        monkeypatch.setitem(sys.modules, "experiments.harness.cluster", module)

    return fail


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("--scheduler", "tcp://alpha:8786"), "SCHEDULER=tcp://alpha:8786"),
        (("--scheduler-file", "my scheduler.json"), "SCHEDULER_FILE='my scheduler.json'"),
    ],
)
def test_an_ended_run_continues_with_the_same_cluster(suite, lost_cluster, words, given):
    given = f"CONFIG={suite.config} RESULTS={suite.folder} {given}\n"
    lost_cluster(KeyboardInterrupt())
    ended = suite("run", *words)
    assert (ended.returncode, ended.stderr) == (
        130,
        f"interrupted; finished work is kept. To continue: make all {given}",
    )
    lost_cluster(MeasurementError("lost the scheduler"))
    ended = suite("run", *words)
    assert (ended.returncode, ended.stderr) == (
        1,
        f"lost the scheduler\nfinished work is kept. To continue: make all {given}",
    )
    ended = suite("all", *words)
    assert ended.returncode == 1
    assert ended.stderr.startswith("lost the scheduler\n")
    assert ended.stderr.endswith(f"to complete or restore the tables: make results {given}")


LONG = (
    SMALL.replace("trials: 3", "trials: 8000")
    .replace("n_keys: 30", "n_keys: 3000")
    .replace("n_queries: 4", "n_queries: 512")
)


@pytest.mark.parametrize("command", ["run", "all"])
def test_a_run_longer_than_an_hour_needs_consent(suite, command, monkeypatch):
    monkeypatch.setattr(LocalWorkers, "measure", lambda *_: pytest.fail("measured"))
    refused = suite(command, "--jobs", "1", text=LONG)
    assert refused.returncode == 2
    given = f"CONFIG={suite.config} RESULTS={suite.folder} JOBS=1 YES=1 (or --yes)"
    assert re.fullmatch(
        r"expected an estimate of at most 60 min, got \d+ min with 1 worker; no chunk was measured\n"
        rf"to start it nevertheless: make all {re.escape(given)}\n",
        refused.stderr,
    )
    assert refused.stdout == ""
    assert [path.name for path in suite.folder.iterdir()] == [".lock"]
    planned = suite("plan", "--jobs", "1").stdout
    assert "A run of more than 60 min starts only with YES=1 (--yes).\n" in planned
    assert planned.endswith(f"next: make all CONFIG={suite.config} RESULTS={suite.folder} JOBS=1 YES=1\n")


def test_a_command_goes_on_when_the_reader_of_its_output_leaves(processes):
    assert processes("run").returncode == 0
    words = [sys.executable, "-m", "experiments", "check", "-v", "--config", processes.config]
    with subprocess.Popen([*words, "--results", processes.folder], cwd=ROOT, stdout=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.wait(60) == 0


def test_with_consent_a_long_run_starts_and_continues(suite, monkeypatch):
    def measure(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalWorkers, "measure", measure)
    started = suite("run", "--yes", text=LONG)
    assert started.returncode == 130
    assert started.stdout.startswith("measuring ")
    assert started.stderr.endswith(f" RESULTS={suite.folder} YES=1\n")


def test_what_pilots_request_is_known_only_after_them(suite, monkeypatch):
    """The pilots are measured and kept, the chunks are not."""
    monkeypatch.setattr(plan, "LONGEST", 2.0)
    precise = SMALL.replace("trials: 3", "precision: 0.001\n    max_trials: 20000")
    refused = suite("run", "--jobs", "1", text=precise)
    assert refused.returncode == 2
    assert re.search("at most 2 s, got .* with 1 worker; no chunk was measured\n", refused.stderr)
    planned = suite("plan", "--jobs", "1").stdout
    assert re.search(r"mine .* by pilot +(\d+) of \1 chunks .* missing\n", planned)
    assert not list(suite.folder.glob("*.csv"))


def test_a_cluster_needs_no_consent(suite, lost_cluster):
    """Its workers come and go, and nobody knows the time before the run."""
    lost_cluster(KeyboardInterrupt())
    assert suite("run", "--scheduler", "tcp://alpha:8786", text=LONG).returncode == 130


def test_the_version_is_that_of_the_library(suite):
    from sdpa import __version__

    shown = in_a_process("--version")
    assert (shown.returncode, shown.stdout) == (0, f"sdpa-suite {__version__}\n")
    assert suite("run", "-j", "1").returncode == 0


@pytest.mark.parametrize("words", [("plan",), ("statements",), ("diagnose",), ("readme",)])
def test_in_another_folder_the_error_names_the_root(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = call(*words)
    assert refused.returncode == 2
    assert refused.stderr == f"run it in the repository root {ROOT}, got the folder {tmp_path} without config.yaml\n"
    assert list(tmp_path.iterdir()) == []
