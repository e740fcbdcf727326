"""The command `sdpa audit`: reports, and targets that are no function."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.tools.command import sdpa

MINE = """\
from scipy.special import softmax


def right(q, k, v):
    return softmax(q @ k.mT / q.shape[-1] ** 0.5, axis=-1) @ v


def half(q, k, v):
    assert q.dtype == "f2", "expected scalar type Half"
    return right(*(x.astype("f4") for x in (q, k, v)))
"""


@pytest.fixture(autouse=True)
def _mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "my_kernels.py").write_text(MINE)


def test_a_function_of_half_precision_is_told_the_option_with_which_it_is_right():
    refused = sdpa("audit", "my_kernels:half")
    said = "raises AssertionError: expected scalar type Half (my_kernels.py, line 9)"
    assert said in " ".join(refused.stdout.split())
    ran = sdpa("audit", "my_kernels:half", "--dtype", "float16")
    assert ran.returncode == 0
    assert ran.stdout.startswith("audit of half: right in all inputs tried")
    wrong = sdpa("audit", "my_kernels:half", "--dtype", "float16", "--scaling", "unscaled").stdout
    assert "scores: q·k / d_k^1/2, expected q·k\n" in wrong


def test_masks_and_slopes_may_be_files_and_findings_fail(tmp_path):
    np.save(tmp_path / "slopes.npy", [0.5, 0.25, 0.125])
    np.save(tmp_path / "mask.npy", np.arange(16) < 10)
    files = "--alibi", "slopes.npy", "--mask", "mask.npy"
    ran = sdpa("audit", "my_kernels:right", *files, "--backward", "my_kernels:right")
    assert ran.returncode == 1
    assert ran.stdout.splitlines()[1:3] == [
        "  scores: q·k / d_k^1/2, expected q·k / d_k^1/2 + slope * distance",
        "  keys: all, expected those of the mask",
    ]


REFUSED = {
    "kern.py:f": "ModuleNotFoundError: No module named 'kern'; leave out .py",
    "script:f": "got script:f: SystemExit: 0",
    "my_kernels:right --mask casual": "causal-first, got 'casual'; did you mean causal?",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_target_that_is_no_function_and_an_unknown_mask_are_refused(words):
    Path("script.py").write_text("import sys\n\nsys.exit(0)\n")
    ran = sdpa("audit", *words.split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert REFUSED[words] in ran.stderr
