"""The pydantic models of a config, and the kind of measurement that a sweep asks for.

The keys of a sweep are the fields of its experiment's cell, with their types and limits, so that
this module knows no experiment by name. A name may stand for two kinds: a sweep of `saturation` with
a key or value that only `mechanisms` has is measured by `mechanisms`, which extends it.
"""

from functools import cache, partial
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    create_model,
)
from pydantic_core import PydanticCustomError

from experiments.config.yaml_text import range_or_value
from experiments.kinds import experiment_names
from experiments.kinds.figures import figures_of
from experiments.measuring.columns import axis_names, cell_fields, defaults
from experiments.measuring.experiment import AnyExperiment, load_experiment
from experiments.measuring.intervals import MIN_TRIALS

NAME = "[A-Za-z][A-Za-z0-9_]{0,63}"  # of a sweep
_MAX_TRIALS = 10**12
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

Value: TypeAlias = Any  # of a key, or a type with its annotations, as pydantic takes them
Fields = dict[str, Value]  # a type and a Field for each name, as pydantic's create_model takes them


def config_names() -> list[str]:
    """Names of the experiments in a config."""
    return [name for name in experiment_names() if not load_experiment(name).extends]


def kinds_of(name: str) -> list[AnyExperiment]:
    """The kinds of measurement behind the name of an experiment; the last has the most keys.

    >>> [kind.name for kind in kinds_of("saturation")]
    ['saturation', 'mechanisms']
    """
    known = map(load_experiment, experiment_names())
    return [load_experiment(name), *(one for one in known if one.extends == name)]


def kind_of(block: Value) -> AnyExperiment:
    """The first kind of measurement that takes every key and value that a block names."""
    kinds = kinds_of(block.experiment)
    keys = cell_fields(kinds[-1].cell).keys()
    parts = (block, *block.variants)
    given = [each for part in parts for each in given_keys(part) if each[0] in keys]
    return next(kind for kind in kinds if all(_takes(kind, *each) for each in given))


def given_keys(part: BaseModel) -> list[tuple[str, Value]]:
    """The keys that a block or a variant names, with their values."""
    return [(key, values) for key, values in part if key in part.model_fields_set]


def _takes(kind: AnyExperiment, key: str, values: tuple[Value, ...]) -> bool:
    """True if its cells have the key and, where that is one of a few words, each of the values."""
    fields = cell_fields(kind.cell)
    if key not in fields:
        return False
    bare = next(iter(get_args(fields[key])), None)
    words = [word for word in get_args(bare) if isinstance(word, str)]
    return not words or set(words).issuperset(values)


@cache
def config_model() -> type[BaseModel]:
    """The model of a whole config."""
    blocks: Value = Union[tuple(map(sweep_model, config_names()))]  # noqa: UP007
    block: Value = Annotated[blocks, Field(discriminator="experiment")]
    fields: Fields = {
        "seed": (int, Field(ge=0, le=2**128 - 1)),
        "sweeps": (dict[str, block], Field(min_length=1)),
    }
    return create_model("Config", __config__=_STRICT, **fields)


@cache
def sweep_model(name: str) -> type[BaseModel]:
    """The model of an experiment's sweeps: the fields of its cell as lists, trials, figures."""
    every_kind = kinds_of(name)
    experiment = every_kind[-1]
    kinds = cell_fields(experiment.cell)
    lists = {key: _values_of(kind) for key, kind in kinds.items()}
    usual = defaults(experiment.cell)
    fields: Fields = {"experiment": (Literal[name], ...)}
    for key in kinds:
        fields[key] = (lists[key], (usual[key],) if key in usual else ...)
    axes: Fields = {axis: (lists[axis], None) for axis in axis_names(experiment.cell)}
    variant: Value = create_model(f"{name}_variant", __config__=_STRICT, **axes)
    fields["variants"] = (list[variant], Field((), min_length=1))
    _add_trials(fields, experiment)
    if names := tuple(figure for kind in every_kind for figure in figures_of(kind.name)):
        fields["figures"] = (_values_of(Literal[names]), ())
    return create_model(name, __config__=_STRICT, **fields)


def _add_trials(fields: Fields, experiment: AnyExperiment) -> None:
    """Add the key `trials`; beside a precise metric optional, with `precision` and `max_trials`."""
    trials = partial(Field, ge=experiment.min_trials, le=_MAX_TRIALS)
    if not experiment.has_precision:
        fields["trials"] = (int, trials())
        return
    fields["trials"] = (int, trials(None))
    fields["precision"] = (float, Field(None, gt=0, lt=1))
    fields["max_trials"] = (int, Field(100_000, ge=MIN_TRIALS, le=_MAX_TRIALS))


def _values_of(kind: Value) -> Value:
    """One value of a type or a list of different ones, as a tuple; a range stands for whole
    numbers.

    Numbers are strict: 8.0, read as the number 8, is a whole number, but text such as "8" is none.
    """
    origin: object = get_origin(kind)
    item: Value = get_args(kind)[0] if origin is tuple else kind
    is_annotated = hasattr(item, "__metadata__")
    bare: Value = get_args(item)[0] if is_annotated else item
    if hasattr(bare, "parse"):
        item = Annotated[bare, PlainValidator(partial(_parsed, bare))]
    if bare is int:
        item = Annotated[tuple[item, ...], BeforeValidator(range_or_value)]
    return Annotated[list[item], BeforeValidator(_listed), AfterValidator(_joined)]


def _parsed(kind: Value, value: Value) -> Value:
    return kind.parse("" if value is None else str(value))


def _listed(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]


def _joined(given: list[Value]) -> tuple[Value, ...]:
    """All values, those of ranges included; an error if there is none, or one comes twice."""
    if not given:
        raise ValueError("expected at least one value")
    values: dict[Value, int] = {}
    for i, value in enumerate(given):
        group = value if isinstance(value, tuple) else (value,)
        if known := values.keys() & group:
            first = min(values[each] for each in known)
            context = {"index": i, "first": first}
            raise PydanticCustomError("repeated", "expected each value once", context)
        values |= dict.fromkeys(group, i)
    return tuple(values)
