"""The pydantic models of a config.

The keys of a sweep are the fields of its experiment's cell, with their types and limits, so that
this module knows no experiment by name.
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


@cache
def config_model() -> type[BaseModel]:
    """The model of a whole config."""
    blocks: Value = Union[tuple(map(sweep_model, experiment_names()))]  # noqa: UP007
    block: Value = Annotated[blocks, Field(discriminator="experiment")]
    fields: Fields = {
        "seed": (int, Field(ge=0, le=2**128 - 1)),
        "sweeps": (dict[str, block], Field(min_length=1)),
    }
    return create_model("Config", __config__=_STRICT, **fields)


@cache
def sweep_model(name: str) -> type[BaseModel]:
    """The model of an experiment's sweeps: the fields of its cell as lists, trials, figures."""
    experiment = load_experiment(name)
    usual = defaults(experiment.cell)
    fields: Fields = {"experiment": (Literal[name], ...)}
    axes: Fields = {}
    for key, kind in cell_fields(experiment.cell).items():
        values = _values_of(kind)
        fields[key] = (values, (usual[key],) if key in usual else ...)
        if key in axis_names(experiment.cell):
            axes[key] = (values, None)
    variant: Value = create_model(f"{name}_variant", __config__=_STRICT, **axes)
    fields["variants"] = (list[variant], Field((), min_length=1))
    _add_trials(fields, experiment)
    if names := figures_of(name):
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
    bare: Value = get_args(item)[0] if hasattr(item, "__metadata__") else item
    if hasattr(bare, "parse"):
        item = Annotated[bare, PlainValidator(partial(_parsed, bare))]
    if bare is int:
        item = Annotated[tuple[item, ...], BeforeValidator(range_or_value)]
    return Annotated[list[item], BeforeValidator(listed), AfterValidator(_joined)]


def _parsed(kind: Value, value: Value) -> Value:
    return kind.parse("" if value is None else str(value))


def listed(value: Value) -> list[Value]:
    """A list as it is, any other value as the only one of a list."""
    return value if isinstance(value, list) else [value]


def _joined(given: list[Value]) -> tuple[Value, ...]:
    """All values, those of ranges included; an error if there is none, or one comes twice."""
    if not given:
        raise ValueError("expected at least one value")
    values: dict[Value, int] = {}
    for i, value in enumerate(given):
        group = value if isinstance(value, tuple) else (value,)
        if known := values.keys() & group:
            first = min(values[key] for key in known)
            context = {"index": i, "first": first}
            raise PydanticCustomError("repeated", "expected each value once", context)
        values |= dict.fromkeys(group, i)
    return tuple(values)
