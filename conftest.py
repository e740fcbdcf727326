"""Tests compute with the instructions of the suite; doctests of modules that need Dask run only
where it is.
"""

from importlib.util import find_spec

import experiments  # noqa: F401  # before any module imports NumPy

collect_ignore = ["tests/arithmetic.py"]  # computes for seconds, and needs the study `examples`
if not find_spec("distributed"):
    collect_ignore += ["experiments/running/cluster.py"]
