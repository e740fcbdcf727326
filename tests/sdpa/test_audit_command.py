"""The command `sdpa audit`: reports, and targets that are no function."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.command_line import sdpa

MINE = """\
from scipy.special import softmax


def right(q, k, v):
    return softmax(q @ k.mT / q.shape[-1] ** 0.5, axis=-1) @ v


def unused_scale(q, k, v):
    return softmax(q @ k.mT, axis=-1) @ v


def half(q, k, v):
    assert q.dtype == "f2", "expected scalar type Half"
    return right(q, k, v)
"""


@pytest.fixture(autouse=True)
def _mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "my_kernels.py").write_text(MINE)


@pytest.mark.parametrize(
    ("name", "said", "wrong"),
    [("right", "no findings", []), ("unused_scale", "findings: divisor", ["divisor"])],
)
def test_a_function_of_the_working_folder_is_audited(name, said, wrong):
    ran = sdpa("audit", f"my_kernels:{name}")
    assert ran.returncode == bool(wrong)
    assert ran.stdout.startswith(f"audit of {name}: {said}")
    items = json.loads(sdpa("audit", f"my_kernels:{name}", "--json").stdout)
    assert [item["item"] for item in items if item["verdict"] == "FINDING"] == wrong


def test_a_function_of_half_precision_is_told_the_option():
    said = r"arrays of float64 \(--dtype\), .*expected scalar type Half"
    assert re.search(said, " ".join(sdpa("audit", "my_kernels:half").stdout.split()))
    assert sdpa("audit", "my_kernels:half", "--dtype", "float16").returncode == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("sdpa:__doc__", "got sdpa:__doc__, which is no function"),
        ("sdpa.nothing:f", "importable here, got sdpa.nothing:f: ModuleNotFoundError: No module"),
        ("script:f", "got script:f: SystemExit: 0"),
        ("broken:f", "got broken:f: NameError: name 'nothing' is not defined"),
    ],
)
def test_a_target_that_is_no_function_is_refused(target, message):
    Path("script.py").write_text("import sys\n\nsys.exit(0)\n")
    Path("broken.py").write_text("x = nothing\n")
    ran = sdpa("audit", target)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
