"""The experiments: one module of this folder each."""

from functools import cache
from pathlib import Path


@cache
def experiment_names() -> list[str]:
    """Names of the experiments, in alphabetical order: the modules of this folder."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
