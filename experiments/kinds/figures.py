"""Every figure of sweeps with its caption and finding, in the order in which the docs list them.

A new figure is a new entry in `FIGURES` of the `figures` of its experiment. The first one is that
of a sweep that names none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from experiments.kinds import parts
from experiments.kinds.declarations import Figure

FIGURES: Mapping[str, Figure] = {
    figure.name: replace(figure, of=experiment)
    for experiment, module in parts("figures")
    for figure in module.FIGURES
}

# The metrics that a summary has whatever its figures show: those of the first figure of `dimension`.
_ALWAYS = "score_variance", "max_weight", "entropy", "query_gradient_norm_median"


def figures_of(experiment: str) -> tuple[str, ...]:
    """The names of the figures of an experiment in the order of their entries."""
    return tuple(name for name, figure in FIGURES.items() if figure.of == experiment)


def default_figures(experiment: str) -> tuple[str, ...]:
    """The figures of a sweep of an experiment that names none."""
    return figures_of(experiment)[:1]


def metrics_of(figures: Iterable[str]) -> list[str]:
    """The columns that figures show, each once."""
    return list(dict.fromkeys(metric for name in figures for metric in FIGURES[name].metrics))


def shown_metrics(experiment: str, figures: Sequence[str]) -> list[str]:
    """The columns that the figures of an experiment show, first those of the default one and of
    some; and those of `_ALWAYS`.
    """
    default, *others = figures_of(experiment)
    return list(dict.fromkeys([*metrics_of([default, *figures, *others]), *_ALWAYS]))
