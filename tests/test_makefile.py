"""The Makefile: values reach the program; misspelled variables are refused."""

import json
import os
import re
import sys

import pytest
import typer

from experiments.__main__ import app
from tests.command_line import printed
from tests.prose import PAGES
from tests.suite_process import ROOT, captured

ODD = "a näme"
PROGRAM = f"""#!{sys.executable}
import json, os, sys
names = os.environ.get("SDPA_GIVEN", "").split()
print(json.dumps([sys.argv[1:], {{name: os.environ[name] for name in names if name in os.environ}}]))
"""


def make(tree, *words, **environment):
    inherited = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    stamps = [f"-o.venv/{name}-ready" for name in ("dev", "dask", "browser")]
    command = ["make", "--no-print-directory", "-o.venv/ready", *stamps, *words]
    return captured(*command, cwd=tree, env=inherited | environment)


@pytest.fixture
def tree(tmp_path):
    """A folder with the Makefile, and a program that prints its arguments and values."""
    (tmp_path / "Makefile").symlink_to(ROOT / "Makefile")
    program = tmp_path / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return tmp_path


OTHERS = {"V": "1", "EXAMPLE": "abc", "SWEEP": "other", "CONFIG": ODD, "JOBS": "3"}


@pytest.mark.parametrize(
    "words, environment, expected",
    [
        (["all", f"CONFIG={ODD}", "SWEEP=mine,other"], {}, {"CONFIG": ODD, "SWEEP": "mine,other"}),
        (["walk", "Q=-q.csv", "MASK=causal"], {}, {"Q": "-q.csv", "MASK": "causal"}),
        # data count on the command line only
        (["walk"], OTHERS, {"CONFIG": ODD, "JOBS": "3"}),
        (["quick"], OTHERS, {"CONFIG": "quick.yaml", "JOBS": "3"}),
    ],
)
def test_values_reach_the_program(tree, words, environment, expected):
    arguments, values = json.loads(printed(make(tree, *words, **environment)))
    assert arguments == ["-m", "experiments", words[0].replace("quick", "all")]
    del values["PYTHON"], values["CHROMIUM"]  # each run has them
    assert values == expected


def test_every_variable_is_of_the_program():
    listed = re.findall("^(?:ANYWHERE|TYPED) = (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = typer.main.get_command(app).commands.values()
    options = {option.name.upper() for command in commands for option in command.params}
    of_recipes = {"PYTHON", "CHROMIUM"}
    assert set(" ".join(listed).split()) - options == of_recipes


REFUSED = {
    "plan config=quick.yaml": "got config=, expected some of CONFIG RESULTS",
    "clear-leftovers SWEEP=mine": "got SWEEP=, expected some of CONFIG RESULTS",
    "all mine.yaml": "got mine.yaml, expected CONFIG=mine.yaml",
    "all dimension": "got dimension, expected SWEEP=dimension",
    "quick CONFIG=mine.yaml": "quick: expected make all CONFIG=mine.yaml",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_would_be_ignored_is_refused_before_anything_runs(tree, words):
    (tree / "mine.yaml").touch()
    ran = make(tree, *words.split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert REFUSED[words] in ran.stderr


def test_every_command_of_pages_and_ci_is_one_of_make():
    others = [(ROOT / name).read_text() for name in (".ci/run", "CONTRIBUTING.md")]
    text = "\n".join([*others, *PAGES.values()])
    commands = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
    assert commands >= {"all", "quick", "test-slow"}
    assert printed(make(ROOT, "--dry-run", *sorted(commands)))
