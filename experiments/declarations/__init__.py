"""Every figure of sweeps with its caption and finding, in the order in which pages and the config
list them.

A new figure is a new entry in `FIGURES` of a module of this folder.
"""

from collections.abc import Mapping

from experiments.declarations import networks, saturation, sizes, variance
from experiments.declarations.figure import Figure

_TOPICS = (variance, saturation, sizes, networks)
FIGURES: Mapping[str, Figure] = {
    figure.name: figure for topic in _TOPICS for figure in topic.FIGURES
}


def figures_of(of: str) -> tuple[str, ...]:
    """The names of the figures of an experiment in the order of their entries."""
    return tuple(name for name, figure in FIGURES.items() if figure.of == of)


def default_figures(experiment: str) -> tuple[str, ...]:
    """The figures of a sweep of an experiment that names none."""
    return tuple(name for name in figures_of(experiment) if FIGURES[name].default)
