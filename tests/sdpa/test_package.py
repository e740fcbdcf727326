"""The package itself: what it offers by name, and its version."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sdpa

ROOT = Path(__file__).parents[2]


def test_every_name_that_is_offered_is_there_and_listed():
    for name in sdpa.__all__:
        assert getattr(sdpa, name) is not None
    assert {*sdpa.__all__, "__version__", "__name__"} <= set(dir(sdpa))


def test_theory_is_listed_before_it_is_loaded():
    """Nor is the package of bfloat16 loaded before that format is asked for."""
    code = (
        "import sys, sdpa; assert {'theory', '__version__', 'Arithmetic'} <= set(dir(sdpa)); "
        "assert {'scipy', 'ml_dtypes'}.isdisjoint(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_version_is_that_of_the_project():
    assert sdpa.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_an_unknown_name_is_refused_as_any_module_does():
    with pytest.raises(AttributeError, match="module 'sdpa' has no attribute 'attend'"):
        sdpa.attend  # noqa: B018
