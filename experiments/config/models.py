"""The pydantic models of a config.

The keys of a sweep are the fields of its experiment's cell, with their types and limits, so that
this module knows no experiment by name. The models also give the JSON schema of the config, see
`experiments.config.schema`.
"""

from functools import cache, partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    WithJsonSchema,
    create_model,
)
from pydantic_core import PydanticCustomError

from experiments.config.kinds import config_names, kinds_of
from experiments.config.spelling import FRACTION, POWER, RANGE, range_or_value
from experiments.declarations import figures_of
from experiments.measuring.columns import Meaning, as_json, axis_names, cell_fields, defaults
from experiments.measuring.experiment import Experiment
from experiments.measuring.intervals import MIN_TRIALS

NAME = "[A-Za-z][A-Za-z0-9_]{0,63}"  # of a sweep
_MAX_TRIALS = 10**12
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

Fields = dict[str, Any]  # a type and a Field for each name, as pydantic's create_model takes them


def _or_text(kind: str, pattern: str, such_as: str) -> Any:
    """For the JSON schema: text of a pattern may stand for a number."""
    schema: dict[str, Any] = {
        "type": [kind, "string"],
        "pattern": f"^(?:{pattern})$",
        "patternErrorMessage": f"expected a number such as {such_as}",
    }
    return Field(json_schema_extra=schema)


_SHORT = f"{POWER}|{FRACTION}"
_WHOLE = _or_text("integer", _SHORT, "64, 2^6 or 1/2")
_REAL = _or_text("number", _SHORT, "64, 2^6 or 1/2")
_WHOLES = _or_text("integer", f"{_SHORT}|{RANGE}", "64, 2^6 or 1/2, or 4..512*2")
_Whole = Annotated[int, _WHOLE]


@cache
def config_model() -> type[BaseModel]:
    """The model of a whole config."""
    blocks: Any = Union[tuple(map(sweep_model, config_names()))]  # noqa: UP007
    block: Any = Annotated[blocks, Field(discriminator="experiment")]
    names: Any = {"propertyNames": {"pattern": f"^{NAME}$"}}
    seed = Field(ge=0, le=2**128 - 1, description="root seed of all draws")
    sweeps = Field(
        min_length=1,
        description="one block per sweep; its name becomes that of its table",
        json_schema_extra=names,
    )
    fields: Fields = {"seed": (_Whole, seed), "sweeps": (dict[str, block], sweeps)}
    return create_model("Config", __config__=_STRICT, **fields)


@cache
def sweep_model(name: str) -> type[BaseModel]:
    """The model of an experiment's sweeps: the fields of its cell as lists, trials, figures."""
    *narrower, experiment = kinds_of(name)
    kinds = cell_fields(experiment.cell)
    lists = {key: _values_of(kind) for key, kind in kinds.items()}
    about = "the kind of measurement; it decides which other keys the sweep has"
    fields: Fields = {"experiment": (Literal[name], Field(description=about))}
    for key, kind in kinds.items():
        fields[key] = (lists[key], _described(key, kind, defaults(experiment.cell)))
    axes: Fields = {axis: (lists[axis], None) for axis in axis_names(experiment.cell)}
    variant: Any = create_model(f"{name}_variant", __config__=_STRICT, **axes)
    each = "each names the axes that it changes, and {} changes none"
    about = f"grids that together make the sweep; {each}"
    fields["variants"] = (list[variant], Field((), min_length=1, description=about))
    rules: Any = _add_trials(fields, experiment)
    every_kind = (*narrower, experiment)
    if names := tuple(figure for kind in every_kind for figure in figures_of(kind.name)):
        about = "figures to draw; without this key, those that suit the axes"
        fields["figures"] = (_values_of(Literal[names]), Field((), description=about))
    config = ConfigDict(json_schema_extra=rules, **_STRICT)
    return create_model(name, __config__=config, **fields)


def _described(key: str, kind: Any, usual: dict[str, Any]) -> Any:
    """The meaning and the default of a field of a cell."""
    meanings = [note.text for note in get_args(kind) if isinstance(note, Meaning)]
    about: dict[str, Any] = {"description": meanings[0] if meanings else None}
    if key in usual:
        # By a factory, because pydantic would look for a JSON form of the default itself.
        about["default_factory"] = partial(tuple, [usual[key]])
        about["json_schema_extra"] = {"default": as_json(usual[key])}
    return Field(**about)


def _add_trials(fields: Fields, experiment: Experiment) -> Fields:
    """Add the key `trials`; beside a precise metric optional, with `precision` and `max_trials`.

    The result is what the JSON schema says of the three together, as `experiments.config.rules`
    does.
    """
    trials = partial(
        Field,
        ge=experiment.min_trials,
        le=_MAX_TRIALS,
        description="independent draws of each cell, or runs of each rule",
    )
    if not experiment.has_precision:
        fields["trials"] = (_Whole, trials())
        return {}
    fields["trials"] = (_Whole, trials(None))
    about = "relative standard error that decides the number of trials, in place of trials"
    fields["precision"] = (Annotated[float, _REAL], Field(None, gt=0, lt=1, description=about))
    about = "largest number of trials of a cell, beside precision"
    most = Field(100_000, ge=MIN_TRIALS, le=_MAX_TRIALS, description=about)
    fields["max_trials"] = (_Whole, most)
    return {
        "oneOf": [{"required": ["trials"]}, {"required": ["precision"]}],
        "dependencies": {"max_trials": ["precision"]},
    }


def _values_of(kind: Any) -> Any:
    """One value of a type or a list of different ones, as a tuple; a range stands for whole
    numbers.

    Numbers are strict: 8.0, read as the number 8, is a whole number, but text such as "8" is none.
    A type that parses its own names appears in the JSON schema by its name, for which
    `experiments.config.schema` fills in the values.
    """
    item: Any = get_args(kind)[0] if get_origin(kind) is tuple else kind
    bare = get_args(item)[0] if get_origin(item) is Annotated else item
    if bare is int:
        item = Annotated[item, _WHOLES]
    elif bare is float:
        item = Annotated[item, _REAL]
    elif hasattr(bare, "parse"):
        parsed = PlainValidator(partial(_parsed, bare))
        item = Annotated[bare, parsed, WithJsonSchema({"type": bare.__name__})]
    one = TypeAdapter(item).json_schema()
    several = {"type": "array", "items": one, "minItems": 1, "uniqueItems": True}
    if bare is int:
        item = Annotated[tuple[item, ...], BeforeValidator(range_or_value)]
    return Annotated[
        list[item],
        BeforeValidator(_listed),
        AfterValidator(_joined),
        WithJsonSchema({"anyOf": [one, several]}),
    ]


def _parsed(kind: Any, value: Any) -> Any:
    return kind.parse("" if value is None else str(value))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _joined(given: list[Any]) -> tuple[Any, ...]:
    """All values, those of ranges included; an error if there is none, or one comes twice."""
    if not given:
        raise ValueError("expected at least one value")
    values: dict[Any, int] = {}
    for i, value in enumerate(given):
        group = value if isinstance(value, tuple) else (value,)
        if known := values.keys() & group:
            message = "expected each value once; the list has it at [{first}]"
            first = min(values[each] for each in known)
            raise PydanticCustomError("repeated", message, {"index": i, "first": first})
        values |= dict.fromkeys(group, i)
    return tuple(values)
