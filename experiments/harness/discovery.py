"""Which experiments there are: every module of `experiments` is one, but for its supporting parts."""

import pkgutil

from experiments import __path__ as _folders

_NO_EXPERIMENTS = {"__main__", "harness", "analysis", "figures", "page", "draws", "steps", "record", "bench"}


def experiment_names() -> list[str]:
    """The experiments there are, by name."""
    return sorted(m.name for m in pkgutil.iter_modules(_folders) if m.name not in _NO_EXPERIMENTS)
