"""Every figure of sweeps with its caption and finding, in the order in which the docs list them; and
the columns that SWEEP.csv has for people.

A new figure is a new entry in `FIGURES` of the `figures` of its experiment. The first one is that
of a sweep that names none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from experiments.kinds import experiment_names, modules
from experiments.kinds.declarations import Figure

FIGURES: Mapping[str, Figure] = {
    figure.name: replace(figure, of=experiment)
    for experiment, module in modules("figures")
    for figure in module.FIGURES
}

# By experiment, the metrics and other columns of SWEEP.csv beside its axes and rules; none for one
# without figures.
SUMMARIES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(experiment_names(), ()),
    **{experiment: module.SUMMARY_COLUMNS for experiment, module in modules("figures")},
}


def figures_of(experiment: str) -> tuple[str, ...]:
    """The names of the figures of an experiment in the order of their entries."""
    return tuple(name for name, figure in FIGURES.items() if figure.of == experiment)


def default_figures(experiment: str) -> tuple[str, ...]:
    """The figures of a sweep of an experiment that names none."""
    return figures_of(experiment)[:1]


def metrics_of(figures: Iterable[str]) -> list[str]:
    """The columns that figures show, each once."""
    return list(dict.fromkeys(metric for name in figures for metric in FIGURES[name].metrics))
