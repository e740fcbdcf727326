"""The arithmetic of a process: the same instructions, and so the same bytes, on every x86-64
processor with AVX2.

Two libraries choose their code by the processor, and the choices differ in last digits. NumPy has
its own exponentials, logarithms, powers and sorts for AVX-512; without it, NumPy uses the C library
or AVX2. OpenBLAS has kernels for each family of processors, which sum in different orders; NumPy
and SciPy each bring a copy. Both libraries read an environment variable when they are loaded. So
`experiments/__init__.py` calls `fix_arithmetic` before any module of the package imports NumPy, and
processes that this one starts inherit the environment. The user's own settings do not count.

Other processors, architectures and systems keep their own code: their tables agree to rounding, as
`experiments.tables.changes` defines it. docs/methods.md lists the sources of difference that were
examined.
"""

import json
import os
import platform
import sys
from functools import cache
from pathlib import Path

VARIABLES = {
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}
_CONFLICTING = (
    "NPY_ENABLE_CPU_FEATURES"  # NumPy refuses it beside the variable that disables features
)
FIXED = {"simd": "X86_V3", "blas": "Haswell"}  # AVX2 and FMA, as `arithmetic` reports them


def fix_arithmetic() -> None:
    """Make NumPy and OpenBLAS use AVX2 in this process and in those that it starts, if the
    processor has it.
    """
    if is_supported():
        os.environ.update(VARIABLES)
        os.environ.pop(_CONFLICTING, None)


@cache
def is_supported() -> bool:
    """True on Linux for an x86-64 processor with AVX2 and FMA, where tables are the same to the
    byte.
    """
    return platform.machine() == "x86_64" and {"avx2", "fma"} <= _flags()


def _flags() -> set[str]:
    """The features of the first processor in /proc/cpuinfo; none without that file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return set(value.split())
    return set()


@cache
def require_fixed() -> None:
    """Check that this process uses AVX2 if the processor has it.

    Raises:
        RuntimeError: NumPy was imported before `experiments`, so that it uses other instructions.
    """
    if is_supported() and (used := arithmetic()) != FIXED:
        raise RuntimeError(
            f"expected {FIXED}, got {used}: import experiments before NumPy, or set {VARIABLES}"
        )


def arithmetic() -> dict[str, str]:
    """NumPy's SIMD level and the kernel of its BLAS in this process."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[import-not-found]
    from threadpoolctl import threadpool_info

    levels = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    libraries = [info for info in threadpool_info() if info["user_api"] == "blas"]
    kernels = {info.get("architecture") or info["internal_api"] for info in libraries}
    return {"simd": levels[-1] if levels else "baseline", "blas": " ".join(sorted(kernels))}


if __name__ == "__main__":
    # Settings of Dask by which a nanny starts each worker with the instructions of the suite.
    json.dump({"distributed": {"nanny": {"pre-spawn-environ": VARIABLES}}}, sys.stdout)
