"""Commands and workers load what they need and no more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.harness.discovery import experiment_names

ROOT = Path(__file__).parents[2]
HEAVY = {"pandas", "scipy", "matplotlib", "seaborn", "jinja2", "pydantic", "typer"}


def loaded(code: str) -> set[str]:
    """Which of the heavy packages a fresh interpreter has loaded after that code."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return HEAVY & set(json.loads(ran.stdout.splitlines()[-1]))


def command(words: str) -> str:
    lines = (
        "from typer.testing import CliRunner",
        "from experiments.__main__ import app",
        f"CliRunner().invoke(app, {words.split()})",
    )
    return "\n".join(lines)


@pytest.mark.parametrize("experiment", experiment_names())
def test_a_worker_loads_numpy_alone(experiment):
    assert loaded(f"import experiments.harness.local, experiments.{experiment}") == set()


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("--help", {"typer"}),
        ("plan --results nowhere", {"typer", "pydantic"}),
        ("plan --config quick.yaml --results nowhere", {"typer", "pydantic"}),
        ("walk", {"typer", "pydantic"}),
        ("walk abc", {"typer", "pydantic"}),
    ],
)
def test_a_command_loads_what_it_needs(words, needed):
    assert loaded(command(words)) == needed


def test_theory_is_there_when_it_is_asked_for():
    assert loaded("import sdpa") == set()
    assert loaded("import sdpa; sdpa.theory.score_variance(4, 2.0)") == {"scipy"}
    assert loaded("from sdpa import theory") == {"scipy"}
