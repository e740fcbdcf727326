"""The JSON Schema of the config, for editors: from the declarations and the models by which the loader reads a config.

The schema accepts whatever the loader accepts. The loader refuses more: a schema has no rules across fields and no size
of a sweep, and sees numbers such as `2^6`, `1/3` and `4..512*2` as text.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, TypeAdapter

from experiments.figures.declared import FIGURES, figures_of
from experiments.harness.columns import Meaning, axis_names, cell_fields, defaults

# Private names, because new ones in these modules would change the fingerprint of every table.
from experiments.harness.config import _RESERVED, _SWEEP_NAME, _bare, _File, _sweep_model
from experiments.harness.discovery import experiment_names, modules_binding
from experiments.harness.experiment import load_experiment
from experiments.harness.grid import plain
from experiments.harness.ranges import _RANGE, _WHOLE

Schema = dict[str, Any]

_DESCRIPTIONS = {
    "seed": "root seed of all draws",
    "sweeps": "one block per sweep; its name becomes that of its table",
    "experiment": "the kind of measurement; it decides which other keys the sweep has",
    "variants": "grids that together make the sweep; each names the axes that it changes, and {} is the grid unchanged",
    "trials": "independent draws of each cell, or runs of each rule",
    "precision": "relative standard error that decides the number of trials, in place of trials",
    "max_trials": "largest number of trials of a cell, beside precision",
    "figures": "figures to draw; without this key, those that suit the axes",
}


class _Form(NamedTuple):
    """Text that the loader reads as a number, and an editor as text."""

    pattern: str
    example: str


_FRACTION = _Form(r"[-+]?(?:0|[1-9][0-9]*)/[1-9][0-9]*", "1/3")
_QUOTIENT = _FRACTION._replace(example="8/2")  # of whole numbers that is whole
_POWER = _Form(rf"(?=.*\^){_WHOLE}", "2^6")
_SPAN = _Form(_RANGE.pattern, "4..512*2")
_KINDS = {"integer": "a whole number", "number": "a number"}


def config_schema(named: Mapping[type, Schema]) -> Schema:
    """The JSON Schema (draft 7) of a config.

    Args:
        named: the schema of one value of each type whose values a config names, such as scaling rules and input laws.

    Raises:
        TypeError: a cell has a field of another such type.
    """
    experiments = experiment_names()
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Config: the root seed and the sweeps",
        **_mapping(
            {
                "seed": _of_model(_File, "seed", _QUOTIENT),
                "sweeps": _described("sweeps")
                | {
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": {"pattern": _sweep_names()},
                    "additionalProperties": {"$ref": "#/definitions/sweep"},
                },
            },
            required=[name for name, field in _File.model_fields.items() if field.is_required()],
        ),
        "definitions": {
            "sweep": _any_sweep(experiments),
            **{_definition(name): _sweep(name, named) for name in experiments},
        },
    }


def one_of(names: Sequence[str], descriptions: Sequence[str]) -> Schema:
    """The schema of text that is one of these names, each with a description for the editor."""
    return {"enum": list(names), "enumDescriptions": list(descriptions)}


def first_line(docstring: str | None) -> str:
    """The first line of a docstring without its full stop; empty without a docstring.

    >>> first_line("Laws of entries.\\n\\nMore about them.")
    'Laws of entries'
    """
    return (docstring or "").partition("\n")[0].removesuffix(".")


def _any_sweep(experiments: Sequence[str]) -> Schema:
    """The schema of a block: its experiment decides which definition the other keys follow."""
    return {
        "type": "object",
        "required": ["experiment"],
        "properties": {"experiment": _described("experiment") | _modules("EXPERIMENT", experiments)},
        "allOf": [
            {
                "if": {"properties": {"experiment": {"const": name}}, "required": ["experiment"]},
                "then": {"$ref": f"#/definitions/{_definition(name)}"},
            }
            for name in experiments
        ],
    }


def _sweep(name: str, named: Mapping[type, Schema]) -> Schema:
    """The schema of the sweeps of an experiment, with the keys of its model."""
    experiment, figures = load_experiment(name), figures_of(name)
    model = _sweep_model(experiment, figures)
    properties = {
        "experiment": {"const": name},
        **{key: _field(experiment.cell, key, named) for key in cell_fields(experiment.cell)},
        "variants": _described("variants") | _list_of(_variant(name, axis_names(experiment.cell))),
        "trials": _of_model(model, "trials", _POWER, _QUOTIENT),
    }
    required = [key for key, field in model.model_fields.items() if field.is_required()]
    schema = _mapping(properties, required)
    if experiment.has_precision:
        properties["precision"] = _of_model(model, "precision", _FRACTION)
        properties["max_trials"] = _of_model(model, "max_trials", _POWER, _QUOTIENT)
        schema["oneOf"] = [{"required": ["trials"]}, {"required": ["precision"]}]
        schema["dependencies"] = {"max_trials": ["precision"]}
    properties["figures"] = _described("figures") | _one_or_list(
        one_of(figures, [FIGURES[name].shows for name in figures])
    )
    return schema


def _definition(experiment: str) -> str:
    """The name of the definition of an experiment's sweeps."""
    return f"sweep_of_{experiment}"


def _variant(experiment: str, axes: Sequence[str]) -> Schema:
    """The schema of a variant: any of the axes, each as in the sweep."""
    pointer = f"#/definitions/{_definition(experiment)}/properties"
    return _mapping({axis: {"$ref": f"{pointer}/{axis}"} for axis in axes}, required=[])


def _mapping(properties: Schema, required: Sequence[str]) -> Schema:
    """The schema of a mapping without other keys."""
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _field(cell: type[Any], key: str, named: Mapping[type, Schema]) -> Schema:
    """The schema of a field of a cell: one value, or a list of values; with its meaning and default."""
    kind, usual = cell_fields(cell)[key], defaults(cell)
    item = get_args(kind)[0] if get_origin(kind) is tuple else kind
    meanings = [note.text for note in get_args(kind) if isinstance(note, Meaning)]
    described = {"description": meanings[0]} if meanings else {}
    return _one_or_list(_value(key, item, named)) | described | ({"default": plain(usual[key])} if key in usual else {})


def _value(key: str, kind: Any, named: Mapping[type, Schema]) -> Schema:
    """The schema of one value of a type, with the texts that stand for numbers."""
    bare = _bare(kind)
    if bare in named:
        return named[bare]
    if hasattr(bare, "parse"):
        raise TypeError(f"field {key} of a cell: expected a schema for its type, got none for {bare}")
    forms = {int: (_POWER, _QUOTIENT, _SPAN), float: (_FRACTION,)}
    return _number(TypeAdapter(kind).json_schema(), *forms.get(bare, ()))


def _of_model(model: type[BaseModel], key: str, *forms: _Form) -> Schema:
    """The schema of a number that is a field of a model, with its limits, default and description."""
    field = model.model_fields[key]
    usual = {"default": field.default} if isinstance(field.default, int) else {}
    return _described(key) | _number(TypeAdapter(field.rebuild_annotation()).json_schema(), *forms) | usual


def _number(schema: Schema, *forms: _Form) -> Schema:
    """The schema of a number that text in one of these forms may stand for; without forms, the schema as it is."""
    if not forms:
        return schema
    pattern = f"^(?:{'|'.join(form.pattern for form in forms)})$"
    expected = f"expected {_KINDS[schema['type']]}, also written as {' or '.join(form.example for form in forms)}"
    return schema | {"type": [schema["type"], "string"], "pattern": pattern, "patternErrorMessage": expected}


def _one_or_list(value: Schema) -> Schema:
    """The schema of one value, or of a list of different values.

    Numbers and their lists share limits in place of alternatives, so that an editor names the limit that is broken.
    """
    if not isinstance(value.get("type"), list):
        return {"anyOf": [value, _list_of(value)]}
    return value | _list_of(value) | {"type": [*value["type"], "array"]}


def _list_of(item: Schema) -> Schema:
    """The schema of a list of one or more different values."""
    return {"type": "array", "items": item, "minItems": 1, "uniqueItems": True}


def _sweep_names() -> str:
    """The pattern of the names of sweeps: plain identifiers, but no reserved name in any case of its letters."""
    reserved = ("".join(f"[{letter.upper()}{letter}]" for letter in name) for name in _RESERVED)
    return f"^(?!(?:{'|'.join(reserved)})$){_SWEEP_NAME.pattern}$"


def _described(key: str) -> Schema:
    return {"description": _DESCRIPTIONS[key]}


def _modules(binding: str, names: Sequence[str]) -> Schema:
    """The schema of the name of a module that binds a name, described by the first lines of the modules."""
    paths = [modules_binding(binding)[name] for name in names]
    return one_of(names, [first_line(ast.get_docstring(ast.parse(path.read_bytes()))) for path in paths])
