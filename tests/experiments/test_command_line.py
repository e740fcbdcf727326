"""The command line as a user meets it: what it writes, says and exits with."""

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from experiments.__main__ import main
from experiments.config.loader import load_config
from experiments.figures import draw, rendering
from experiments.page import index
from experiments.running import workers
from experiments.tables import analyse
from experiments.tables.stored import Stored
from tests.command_line import SMALL, Suite, call, in_a_process, printed
from tests.suite_process import ROOT

TABLES = (
    "mine.csv",
    *(f"derived/mine/{kind}.csv" for kind in ("all_metrics", "slopes", "verdicts")),
)


def test_a_new_block_gets_its_tables_and_the_figures_along_its_axis(suite):
    for command in ("run", "draw", "check"):
        printed(suite(command))
    others = {"columns.csv", "config.yaml", ".lock", ".made.json", "mine.json"}
    made = {
        path.relative_to(suite.folder).as_posix()
        for path in suite.folder.rglob("*")
        if path.is_file() and ".cells" not in path.parts
    }
    assert made == {*TABLES, *others, "figures/mine/metrics.png"}
    assert (suite.folder / "config.yaml").read_text() == SMALL


@pytest.mark.usefixtures("quick_slider")
def test_named_sweeps_are_measured_alone_and_come_first_on_the_page(suite, monkeypatch):
    """As make passes them on; those without a table are missing there, and measured later."""
    blocks = SMALL.split("sweeps:\n")[1].replace("3\n", "4\n")
    more = [blocks.replace("mine", name) for name in ("other", "third")]
    suite.config.write_text("".join([SMALL, *more]))
    given = {"SWEEP": "third,other", "CONFIG": str(suite.config), "RESULTS": str(suite.folder)}
    for name, value in ({"SDPA_GIVEN": " ".join(given)} | given).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["experiments", "all"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert {path.stem for path in suite.folder.glob("*.csv")} == {"other", "third", "columns"}
    page = suite.folder / "index.html"

    def order():
        return re.findall(r'id="(sweep\.\w+|strip)"', page.read_text())

    assert order() == ["sweep.other", "sweep.third", "strip"]
    printed(suite("all"))
    assert order() == ["sweep.mine", "sweep.other", "sweep.third", "strip"]


@pytest.mark.usefixtures("ctrl_c")
def test_watch_runs_at_every_save_and_names_changes(suite, monkeypatch):
    text = SMALL.replace("30", "{}").replace("3\n", "{}\n")
    edits = [text.format(30, "few"), text.format(60, 3)]

    def saves(_):
        if not edits:
            signal.raise_signal(signal.SIGINT)
        suite.config.write_text(edits.pop(0))
        os.utime(suite.config, ns=(0, len(edits)))

    monkeypatch.setattr("time.sleep", saves)
    ended = suite("watch", text=text.format(30, 3))
    assert ended.returncode == 130
    assert ended.stderr.splitlines() == [
        f"{suite.config}:9:13: sweeps.mine.trials: got few, expected a whole number such as 64 or 2^6",
        "interrupted; finished work is kept; repeat the command to continue",
    ]
    assert ended.stdout.count("waiting for") == 3
    assert f"wrote {suite.folder}/mine.csv: different: " in ended.stdout


def test_a_second_run_writes_the_same_bytes(suite, tmp_path):
    """In a process of its own, with workers."""
    suite("run")
    before = {path: path.read_bytes() for path in suite.folder.rglob("*.csv")}
    shutil.rmtree(suite.folder / ".cells")
    again = Suite(tmp_path, in_a_process)("run", "--jobs", "2")
    assert "tables: 4 unchanged\n" in again.stdout
    assert {path: path.read_bytes() for path in suite.folder.rglob("*.csv")} == before
    assert f"{suite.folder}/mine.csv: up to date\n" in suite("run", "-v").stdout


def test_a_file_above_the_folder_is_refused(suite):
    file = suite.folder
    file.write_text("a file, not a folder")
    suite.folder = file / "below" / "it"
    refused = suite("all")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"{suite.folder}: expected a folder, got the file {file}\n"


def test_a_folder_that_cannot_be_written_is_named_once(suite):
    (suite.folder / ".lock").mkdir(parents=True)  # as the tests may write everywhere
    refused = suite("all")
    assert refused.returncode == 1
    assert refused.stderr == f"{suite.folder}: cannot write: Is a directory\n"


def planted(*_, **__):
    raise KeyError("planted")


def planted_in(name, function):
    """A function of figures that fails for one of them."""

    def replaced(figure, *rest):
        return (planted if figure.name == name else function)(figure, *rest)

    return replaced


@pytest.mark.usefixtures("quick_slider")
def test_an_exception_in_one_part_is_a_line_and_stops_no_other(suite, monkeypatch):
    """Of a run that has older files of each."""
    figures = suite.folder / "figures" / "mine"
    figure, titled = figures / "variance.png", figures / "gradients.png"
    page, notes = suite.folder / "index.html", suite.folder / "errors.txt"

    def derived_but_one(derived):
        return dataclasses.replace(derived, derive=planted) if derived.kind == "slopes" else derived

    drawn = f"{SMALL}    figures: [variance, gradients, saturation]\n"
    printed(suite("all", "--jobs", "1", text=drawn))
    with monkeypatch.context() as patch:
        tables = tuple(map(derived_but_one, analyse.DERIVED_TABLES))
        patch.setattr(analyse, "DERIVED_TABLES", tables)
        patch.setattr(rendering, "draw", planted_in("variance", rendering.draw))
        patch.setattr(draw, "words_of", planted_in("gradients", draw.words_of))
        patch.setattr(index, "cards", planted)
        ended = suite("all", "--jobs", "1", text=drawn.replace("trials: 3", "trials: 4"))
    assert ended.returncode == 1
    parts = (
        "derived/mine/slopes.csv not made",
        f"{figure} not made",
        f"{titled} not made",
        "page, section cards",
    )
    lines = [f"{part}: KeyError: 'planted'" for part in parts]
    assert ended.stderr.splitlines()[:5] == [*lines, f"traceback: {notes}"]
    assert notes.read_text().count("in planted") == 4
    assert [path.stem for path in figures.glob("*.png")] == ["saturation"]
    assert "Sections are missing.</strong> page, section cards" in page.read_text()
    assert suite("check").returncode == 1
    printed(suite("all", "--jobs", "1"))
    assert all(path.exists() for path in (figure, titled, suite.folder / TABLES[2]))
    assert "Sections are missing" not in page.read_text()


def test_an_exception_in_a_command_is_a_line_and_its_traceback_a_file(suite, monkeypatch):
    monkeypatch.setattr(analyse, "with_exact", planted)
    ended = suite("run", "--jobs", "1")
    assert ended.returncode == 1
    notes = suite.folder / "errors.txt"
    assert ended.stderr == f"tables of mine not made: KeyError: 'planted'\ntraceback: {notes}\n"
    assert not (suite.folder / "mine.csv").exists()
    notes.unlink()
    notes.mkdir()  # so that it cannot be written
    assert "in planted" in suite("run", "--jobs", "1").stderr


REFUSED = {
    "watch mins": "got the sweep 'mins', expected one of mine; did you mean mine?",
    "runn": "No such command",
    "plan --jobs abc": "--jobs: got 'abc', expected a whole number of at least 1",
    "all --format png,jpg": "--format: got the format 'jpg', expected some of png, svg, pdf",
    "draw --format pdf,": "--format: got the format ''",
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_usage_exits_2(suite, words):
    refused = suite(*words.split())
    assert refused.returncode == 2
    assert REFUSED[words] in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not suite.folder.exists()


def test_a_config_that_a_user_may_mean_is_named(suite, monkeypatch):
    monkeypatch.chdir(suite.config.parent)
    suite.config.rename("yours.yaml")
    for refused in (call("watch", "--config", "yours"), suite("plan", "yours", text=SMALL)):
        assert refused.stderr.endswith("yours.yaml?\n")


def test_plan_says_what_is_missing_and_what_is_there(suite, monkeypatch):
    more, kind = SMALL.replace("2000]", "2000, 3000]"), r"mine +2 +3 +"
    assert re.search(rf"{kind}2 of 2 chunks .* missing\n.*\nexact values", suite("plan").stdout)
    suite("run")
    complete = suite("plan").stdout
    assert re.search(rf"{kind}0 of 2 chunks .* complete\n", complete)
    with monkeypatch.context() as patch:  # and a run makes the tables again without measuring
        patch.setattr("experiments.tables.stored.tables_source", lambda: "other")
        assert re.search(rf"{kind}0 of 2 chunks .* to be made again\n", suite("plan").stdout)
        assert re.search(r"^ *tables:? +\d unchanged$", suite("run").stdout, re.MULTILINE)
        assert suite("plan").stdout == complete
    other = suite("plan", text=more).stdout
    assert re.search(
        r"mine +3 +3 +1 of 3 chunks .* stale: .* got d_k \[1000, 2000\], expected", other
    )
    shutil.rmtree(suite.folder / ".cells")
    shipped = suite("plan", text=SMALL).stdout
    assert "2 of 2 chunks" in shipped
    assert "complete as shipped; a run measures it again\n" in shipped
    record = (suite.folder / "mine.json").read_text()
    (suite.folder / "mine.json").write_text(record.replace('"source": "', '"source": "0'))
    assert "shipped by another version; a run measures it again\n" in suite("plan").stdout


def test_a_divisor_below_1_is_measured_with_one_line_on_it(suite):
    """The gain sqrt(d_k) of unit q and k, and a rule that has this divisor at 64 keys."""
    text = SMALL.replace("[1000, 2000]", "64").replace("30", "[64, 32]")
    text = text.replace("d_k^1\n", "[d_k^1/2, 1/8, 8/n_keys]\n    normalize: l2\n")
    expected = "mine: divisor 0.125 multiplies scores by 8\n"
    for command in ("plan", "run"):
        assert printed(suite(command, text=text)).count(expected) == 1
    assert "multiplies" not in suite("plan", text=SMALL).stdout


def test_check_names_the_values_that_disagree(suite, tmp_path):
    """Tables that are vouched for, of a measurement at odds with theory."""
    enough = SMALL.replace("trials: 3", "trials: 1000\n    figures: length").replace(
        "[1000, 2000]", "4"
    )
    suite("run", text=enough)
    config = load_config(tmp_path / "small.yaml")
    tables = Stored(suite.folder, config.sweeps[0]).read()
    suite("draw")
    agreed = printed(suite("check"))
    assert re.search(r"agreed: 1\d measured values .*\(p = .*\)\nothers: \d+ not tested", agreed)
    verdicts = tables["verdicts"]
    verdicts.loc[verdicts["metric"] == "entropy", ["z", "p_value"]] = -7.5, 1e-13
    (suite.folder / "mine.json").unlink()  # so that no table is expected to be the same
    Stored(suite.folder, tables.sweep).write(tables)
    checked = suite("check")
    assert checked.returncode == 1
    assert "agreed" not in checked.stdout
    assert re.search(
        r"disagree, p = .*\n  entropy of mine, .*d_k\^1: z = -7\.50, p = ", checked.stderr
    )


def test_check_names_figures_of_other_tables_and_fails_without_one(suite):
    drawn = suite.folder / "figures" / "mine" / "metrics.png"
    old = f"{drawn} is of other tables or another version; make"
    for command in ("run", "draw"):
        printed(suite(command))
    shipped = {path: path.read_bytes() for path in drawn.parent.iterdir()}
    suite("run", text=SMALL.replace("trials: 3", "trials: 4"))
    assert printed(suite("check")).startswith(old)
    (suite.folder / ".made.json").unlink()  # as in a fresh clone
    assert printed(suite("check")).startswith(old)
    printed(suite("draw"))
    suite("run", text=SMALL)
    for path, content in shipped.items():  # as git checkout does
        path.write_bytes(content)
    few = "mine: intervals of 3 trials are not reliable, expected 20 at least\n"
    assert printed(suite("check")).startswith(few)
    drawn.unlink()
    assert suite("check").stderr == f"{drawn} is missing; make figures draws it\n"


def test_memory_is_required_of_what_is_measured_here_alone(tmp_path, monkeypatch):
    suite = Suite(tmp_path, call)
    assert " 3 of 3 chunks " in printed(suite("plan", text=SMALL.replace("[1000, 2000]", "1e9")))
    for memory, advice in ((2**41, "JOBS=1 fits"), (2**30, "a smaller n_keys or d_k needs less")):
        monkeypatch.setattr(workers, "machine_memory", lambda memory=memory: memory)
        ran = suite("run", "--jobs", "2")
        assert ran.returncode == 2
        assert re.search(
            rf"cell d_k=1000000000, .* GiB in all; {advice}$", ran.stderr, re.MULTILINE
        )


def test_leftovers_are_named_once_and_removed_with_nothing_else(suite):
    """Of a renamed sweep and an earlier choice of figures; what was edited stays."""
    other = SMALL.replace("mine", "own")
    for text in (SMALL, other, f"{other}    figures: length\n"):
        for command in ("run", "draw"):
            printed(suite(command, text=text))
    folder, figures = suite.folder, suite.folder / "figures"
    edited = figures / "mine" / "metrics.png", folder / TABLES[3]
    for path in (folder / "notes.json", *edited):
        path.write_text("{}")
    for command in ("plan", "check"):
        assert printed(suite(command)).count("left over: mine, own/metrics, not in") == 1
    gone = {folder / name for name in (*TABLES[:3], "mine.json")}
    gone.add(figures / "own" / "metrics.png")
    before = {path for path in folder.rglob("*") if path.is_file()}
    removed = printed(suite("clear-leftovers")).splitlines()
    assert {*removed} == {f"removed {path}" for path in gone}
    assert {path for path in folder.rglob("*") if path.is_file()} == before - gone
    assert "left over" not in printed(suite("check"))


def test_nothing_of_another_config_is_removed(suite):
    printed(suite("run"))
    folder = suite.folder
    before = {*folder.rglob("*")}
    suite.config.write_text(SMALL.replace("mine", "own"))
    for results in (folder, folder / "typo"):
        ran = call("clear-leftovers", "--config", suite.config, "--results", results)
        assert ran.returncode == 2
        expected = f"{results}: expected the tables of all sweeps of {suite.config}, got: "
        assert ran.stderr.startswith(f"{expected}{results}/own.csv is missing")
        assert {*folder.rglob("*")} == before


def test_a_command_goes_on_when_the_reader_of_its_output_leaves(suite):
    for made in ("run", "draw"):
        printed(suite(made))
    words = [sys.executable, "-m", "experiments", "check", "-v", "--config", suite.config]
    with subprocess.Popen(
        [*words, "--results", suite.folder], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.wait(60) == 0
    assert not (suite.folder / "errors.txt").exists()
