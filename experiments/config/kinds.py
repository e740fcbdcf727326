"""The experiments that a config names, and the kind of measurement that a sweep asks for.

`saturation` stands for two kinds. Rows of a plain softmax have all metrics, from a fast kernel.
A sweep that names a key of row maps, such as `softcap`, or a window is measured by the kind
`mechanisms`: all its rows pass through a row map, and its table has the metrics that any map has.
"""

from typing import Any, get_args

from pydantic import BaseModel

from experiments.kinds import experiment_names
from experiments.measuring.columns import cell_fields
from experiments.measuring.experiment import Experiment, load_experiment

_WIDER = {"saturation": "mechanisms"}  # the second kind has all keys of the first


def config_names() -> list[str]:
    """Names of the experiments in a config."""
    return [name for name in experiment_names() if name not in _WIDER.values()]


def kinds_of(name: str) -> list[Experiment]:
    """The kinds of measurement behind the name of an experiment; the last has the most keys.

    >>> [kind.name for kind in kinds_of("saturation")]
    ['saturation', 'mechanisms']
    """
    names = [name, _WIDER[name]] if name in _WIDER else [name]
    return [load_experiment(kind) for kind in names]


def kind_of(block: Any) -> Experiment:
    """The first kind of measurement that takes every key and value that a block names."""
    kinds = kinds_of(block.experiment)
    keys = cell_fields(kinds[-1].cell).keys()
    given = [
        (key, values)
        for part in (block, *block.variants)
        for key, values in named(part)
        if key in keys
    ]
    takes_all = (kind for kind in kinds if all(_takes(kind, *each) for each in given))
    return next(takes_all)


def named(part: BaseModel) -> list[tuple[str, Any]]:
    """The keys that a block or a variant names, with their values."""
    return [(key, values) for key, values in part if key in part.model_fields_set]


def _takes(kind: Experiment, key: str, values: tuple[Any, ...]) -> bool:
    """True if its cells have the key and, where that is one of a few words, each of the values."""
    fields = cell_fields(kind.cell)
    if key not in fields:
        return False
    bare = next(iter(get_args(fields[key])), None)
    words = [word for word in get_args(bare) if isinstance(word, str)]
    return not words or set(words).issuperset(values)
