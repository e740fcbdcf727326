"""Discovery of experiments: every module of `experiments` that binds EXPERIMENT is one."""

import re
from functools import cache
from pathlib import Path

from experiments import __path__ as _folders

_BINDING = re.compile(r"^EXPERIMENT\b", re.MULTILINE)


@cache
def experiment_names() -> list[str]:
    """Names of the experiments, in alphabetical order; their modules are read, not imported."""
    modules = [path for folder in _folders for path in Path(folder).glob("*.py")]
    return sorted(path.stem for path in modules if _BINDING.search(path.read_text(encoding="utf-8")))
