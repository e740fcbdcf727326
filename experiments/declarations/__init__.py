"""Every figure of sweeps with its caption and finding, in the order in which pages and the config
list them.

A new figure is a new entry in `FIGURES` of a module of this folder.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.declarations import (
    freezing,
    gradients,
    language,
    network,
    saturation,
    variance,
)
from experiments.declarations.figure import Figure

_TOPICS = (
    variance,
    saturation,
    freezing,
    gradients,
    language,
    network,
)
FIGURES: Mapping[str, Figure] = {
    figure.name: figure for topic in _TOPICS for figure in topic.FIGURES
}


def figures_of(of: str) -> tuple[str, ...]:
    """The names of the figures of an experiment, or of another subject of figures, in the order of
    their entries.
    """
    return tuple(name for name, figure in FIGURES.items() if figure.of == of)


def default_figures(experiment: str, values: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """The figures of a sweep that names none, from the values of the fields of its cells."""
    defaults = {name: FIGURES[name].default for name in figures_of(experiment)}
    return tuple(name for name, default in defaults.items() if default and default.holds(values))
