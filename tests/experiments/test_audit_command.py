"""make audit: its examples, its files, and targets that are no function."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.audit.command import function_of
from experiments.audit.examples import EXAMPLES
from experiments.errors import UsageError

WRONG = {"unused_scale": "divisor"}


@pytest.mark.parametrize("function", EXAMPLES, ids=lambda one: one.__name__)
def test_an_example_has_the_finding_that_it_promises_and_the_files_say_so(function, tmp_path):
    target = f"{function.__module__}:{function.__name__}"
    ran = CliRunner().invoke(app, ["audit", target, "--out", str(tmp_path)])
    wrong = WRONG.get(function.__name__)
    assert ran.exit_code == bool(wrong), ran.output
    first = f"audit of {function.__name__}: {f'findings: {wrong}' if wrong else 'no findings'}"
    assert (tmp_path / "report.txt").read_text().startswith(first)
    items = pd.read_csv(tmp_path / "items.csv")
    assert items.loc[items["verdict"] == "FINDING", "item"].tolist() == [wrong] * bool(wrong)


def test_a_module_that_needs_another_package_is_told_where_to_run(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("import not_installed_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=r"'not_installed_here'; install what it imports"):
        function_of("mine:attention")


def test_without_a_target_the_examples_are_listed():
    ran = CliRunner().invoke(app, ["audit"])
    assert ran.exit_code == 0
    assert "TARGET=experiments.audit.examples:unused_scale" in ran.output


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("sdpa:__doc__", "got sdpa:__doc__, which is no function"),
        ("sdpa.nothing:f", "importable here, got sdpa.nothing:f: No module named"),
        (
            "sdpa:nothing",
            "importable here, got sdpa:nothing: module 'sdpa' has no attribute 'nothing'$",
        ),
    ],
)
def test_a_target_that_is_no_function_is_refused(target, message):
    with pytest.raises(UsageError, match=message):
        function_of(target)
