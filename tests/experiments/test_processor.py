"""The same instructions in every process, whatever the processor offers and the user's environment says."""

import os
import subprocess
import sys

import pytest

from experiments.harness import processor
from experiments.harness.processor import FIXED, VARIABLES, arithmetic, fix_arithmetic, is_supported, require_fixed
from tests.suite_process import ROOT

supported = pytest.mark.skipif(not is_supported(), reason="this processor has no instructions in common with others")


@supported
def test_this_process_uses_the_instructions_of_the_suite_and_another_is_refused():
    require_fixed()
    assert FIXED.items() <= arithmetic().items()
    assert VARIABLES.items() <= os.environ.items()
    ran = subprocess.run(
        [sys.executable, "-c", "import numpy; from experiments.harness.processor import require_fixed as r; r()"],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_CORETYPE": "Sandybridge"},
        capture_output=True,
        text=True,
    )
    assert "got {'simd': 'X86_V3', 'blas': 'Sandybridge'}: import experiments before NumPy, or set " in ran.stderr


@pytest.mark.parametrize("cpuinfo", ["", "sse2 avx"])
def test_a_processor_without_these_instructions_keeps_its_own(cpuinfo, monkeypatch):
    monkeypatch.setattr(processor, "_cpuinfo", lambda _: cpuinfo)
    monkeypatch.setattr(processor, "arithmetic", lambda: {"simd": "baseline", "blas": "Nehalem"})
    for name in VARIABLES:
        monkeypatch.setenv(name, "its own")
    is_supported.cache_clear()
    require_fixed.cache_clear()
    try:
        assert not is_supported()
        fix_arithmetic()
        require_fixed()
        assert {os.environ[name] for name in VARIABLES} == {"its own"}
    finally:
        is_supported.cache_clear()
        require_fixed.cache_clear()
