"""The package itself: what it offers by name."""

import inspect
import subprocess
import sys
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


@pytest.mark.parametrize("module", [sdpa, sdpa.theory])
def test_help_shows_short_signatures(module):
    """Not the types that `ArrayLike` and `FloatArray` stand for, nor the defaults of a default."""
    for name in module.__all__:
        offered = getattr(module, name)
        if callable(offered) and not (isinstance(offered, type) and issubclass(offered, Exception)):
            signature = str(inspect.signature(offered))
            assert len(signature) < 300, name
            assert "Supports" not in signature
            assert "dtype[" not in signature, name


def test_an_unknown_name_is_refused_as_any_module_does():
    with pytest.raises(AttributeError, match="module 'sdpa' has no attribute 'attend'"):
        sdpa.attend  # noqa: B018
