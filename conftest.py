"""Doctests of the modules that need Dask run only where `make cluster` has installed it."""

from importlib.util import find_spec

_NEED_DASK = [
    "experiments/harness/cluster",
    "experiments/benchmarks/cluster.py",
    "experiments/benchmarks/waiting_cluster.py",
]
collect_ignore = [] if find_spec("distributed") else _NEED_DASK
