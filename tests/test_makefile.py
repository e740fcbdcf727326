"""The Makefile: values reach the program as typed, and no shell evaluates them; misspelled variables are refused."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
HOSTILE = """a'b"; touch PWNED; echo "' `touch PWNED` $(touch PWNED) $(shell touch PWNED) $HOME $@ $$ %*#é\\
-touch PWNED\\"""
STAMPS = [word for name in ("ready", "dev-ready", "browser-ready", "cluster-ready") for word in ("-o", f".venv/{name}")]
TELLS_ITS_ARGUMENTS = f"""#!{sys.executable}
import json, os, sys
print(json.dumps([*sys.argv[1:], os.environ.get("CHROMIUM")]))
"""


def make(tree: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *STAMPS, *words]
    inherited = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS"}}
    return subprocess.run(command, cwd=tree, env=inherited | environment, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path) -> Path:
    """A folder with the Makefile and a program that prints its arguments."""
    (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
    program = tmp_path / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(TELLS_ITS_ARGUMENTS)
    program.chmod(0o755)
    return tmp_path


def files(tree: Path) -> set[str]:
    return {path.relative_to(tree).as_posix() for path in tree.rglob("*")}


OF_RUNS = ["JOBS", "SCHEDULER", "SCHEDULER_FILE"]


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("all", ["CONFIG", "RESULTS", *OF_RUNS, "FORMAT"], []),
        ("quick", ["RESULTS", *OF_RUNS, "FORMAT"], []),
        ("figures", ["CONFIG", "RESULTS", "FORMAT"], []),
        ("walk", ["Q", "K", "V", "MASK", "SCALING", "OUT"], ["EXAMPLE"]),
        ("diagnose", ["SCORES", "MASK", "SCALING", "AXES", "OUT", "SOFTCAP", "SINK"], ["FILE", "Q", "K"]),
        ("audit", ["MASK", "SCALING", "SOFTCAP", "SINK", "DTYPE", "OUT"], ["TARGET"]),
    ],
)
def test_values_reach_the_program_as_typed(tree, target, options, words):
    before = files(tree)
    ran = make(tree, target, *(f"{name}={name}{HOSTILE}" for name in [*options, *words]))
    assert (ran.returncode, ran.stderr) == (0, "")
    *got, _ = json.loads(ran.stdout)
    command = {"results": "run", "figures": "draw"}.get(target, target.replace("quick", "all"))
    config = ["--config=quick.yaml"] * (target == "quick")
    expected = [f"--{name.lower().replace('_', '-')}={name}{HOSTILE}" for name in options]
    assert got[:3] == ["-m", "experiments", command]
    assert sorted(got[3:]) == sorted([*config, *expected, *["--"] * bool(words), *(f"{one}{HOSTILE}" for one in words)])
    assert got[len(got) - len(words) :] == [f"{one}{HOSTILE}" for one in words]
    assert files(tree) == before


def test_pytest_the_browser_and_python_get_theirs(tree):
    assert HOSTILE in json.loads(make(tree, "test", f"JOBS={HOSTILE}").stdout)
    named = tree / HOSTILE
    named.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('ran with ' + sys.argv[1])\n")
    named.chmod(0o755)
    before = files(tree)
    assert json.loads(make(tree, "test-page", f"CHROMIUM={named}").stdout)[-1] == str(named)
    assert json.loads(make(tree, "test-page", CHROMIUM=str(named)).stdout)[-1] == str(named)
    for name in ("requirements.lock", "pyproject.toml"):
        (tree / name).touch()
    started = subprocess.run(
        ["make", ".venv/ready", f"PYTHON={named}"], cwd=tree, capture_output=True, text=True, check=False
    )
    assert "ran with -c" in started.stderr
    assert files(tree) == before | {"requirements.lock", "pyproject.toml"}


@pytest.mark.parametrize("given", [{"V": "1", "MASK": "causal", "YES": "1", "CONFIG": "a b.yaml", "JOBS": "$HOME"}])
def test_data_and_consent_count_on_the_command_line_only(tree, given):
    assert json.loads(make(tree, "walk", **given).stdout)[:-1] == ["-m", "experiments", "walk", "--"]
    expected = ["-m", "experiments", "all", "--config=a b.yaml", "--jobs=$HOME"]
    assert json.loads(make(tree, "all", **given).stdout)[:-1] == expected
    flags = json.loads(make(tree, "all", "YES=1", "VERBOSE=1", "JOBS=").stdout)[:-1]
    assert flags == ["-m", "experiments", "all", "--verbose", "--yes"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", "config=quick.yaml"], "make plan: got config= (did you mean CONFIG=?), expected CONFIG JOBS "),
        (["lint", "jobs=3"], "make lint: got jobs=, expected PYTHON."),
        (["quick", "CONFIG=mine.yaml"], "make quick: got CONFIG="),
        (["plan", """a'";touch=PWNED"""], """make plan: got a'";touch="""),
    ],
)
def test_a_variable_that_the_target_does_not_take_is_refused(tree, words, message):
    before = files(tree)
    ran = make(tree, *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert files(tree) == before


def test_files_with_hostile_names_are_read_and_written(tmp_path):
    for name in ("Makefile", ".venv", "experiments", "sdpa"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name, seed in (("q", 0), ("k", 1)):
        np.save(tmp_path / f"{name}{HOSTILE}.npy", np.random.default_rng(seed).standard_normal((7, 5)))
    np.save(tmp_path / f"-s{HOSTILE}.npy", np.random.default_rng(2).standard_normal((2, 7, 5)))
    before = {path.name for path in tmp_path.iterdir()}
    for number, given in enumerate(([f"Q=q{HOSTILE}.npy", f"K=k{HOSTILE}.npy"], [f"SCORES=-s{HOSTILE}.npy"])):
        own = f"-own{number} {HOSTILE}"
        ran = make(tmp_path, "diagnose", *given, f"OUT={own}")
        assert (ran.returncode, ran.stderr) == (0, "")
        assert (tmp_path / own / "diagnosis.csv").exists()
        before |= {own}
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("words", [["diagnose", "q.npy", "k.npy"], ["plan", "config.full.yaml"], ["test_all"]])
def test_words_that_are_no_commands_are_refused(tree, words):
    for word in words[1:]:
        (tree / word).touch()  # make has nothing to do for a file that exists
    ran = make(tree, *words)
    assert ran.returncode == 2
    assert "expected values as NAME=VALUE, such as make diagnose Q=q.npy K=k.npy" in ran.stderr
    assert ran.stdout == ""


def test_every_command_that_users_and_ci_run_is_one_of_make():
    texts = [(ROOT / name).read_text() for name in (".ci/run", "README.md", "CONTRIBUTING.md")]
    commands = {word for text in texts for word in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)}
    assert commands >= {"all", "quick", "test-slow"}
    ran = make(ROOT, "--dry-run", *sorted(commands))
    assert (ran.returncode, ran.stderr) == (0, "")
