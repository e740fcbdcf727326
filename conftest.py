"""Doctests of the modules for a cluster need its packages, which `make cluster` installs."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("distributed") else ["experiments/harness/cluster"]
