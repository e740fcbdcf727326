"""Commands and workers load what they need and no more, and keep the memory that they have had."""

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
    assert loaded(f"import experiments.harness.run, experiments.{experiment}") == set()


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("--help", {"typer"}),
        ("plan --results nowhere", {"typer", "pydantic"}),
        ("plan --config quick.yaml --results nowhere", {"typer", "pydantic"}),
    ],
)
def test_a_command_loads_what_it_needs(words, needed):
    assert loaded(command(words)) == needed


def test_theory_is_there_when_it_is_asked_for():
    assert loaded("import sdpa") == set()
    assert loaded("import sdpa; sdpa.theory.score_variance(4, 2.0)") == {"scipy"}
    assert loaded("from sdpa import theory") == {"scipy"}


FAULTS = """
import resource
import numpy as np
from experiments.harness.memory import keep_freed_memory
if {keep}:
    keep_freed_memory()
def block():
    arrays = [np.ones(2**17) for _ in range(4)]
block()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    block()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc's allocator")
def test_freed_memory_is_used_again():
    """50 blocks of 4 MiB: as it stands each finds new pages, 1,024 of 4 KiB; with it none does."""
    faults = []
    for keep in (False, True):
        ran = subprocess.run(
            [sys.executable, "-c", FAULTS.format(keep=keep)], cwd=ROOT, capture_output=True, check=True
        )
        faults.append(int(ran.stdout))
    assert faults[1] < 100
    assert faults[1] <= faults[0]  # much less, unless the system hands out pages of 2 MiB
