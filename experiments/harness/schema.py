"""The JSON Schema of the config, for editors: what pydantic says of the models by which the loader reads a config.

The schema accepts whatever the loader accepts. The loader refuses more: a schema has no rules across fields and no size
of a sweep, and sees numbers such as `2^6`, `1/3` and `4..512*2` as text.
"""

import importlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from experiments.harness.config import POINTER, RESERVED, SWEEP_NAME, File, as_text, sweep_model
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment

Schema = dict[str, Any]


def config_schema(named: Mapping[type, Schema]) -> Schema:
    """The JSON Schema (draft 7) of a config.

    Args:
        named: the schema of one value of each type whose values a config names, such as scaling rules and input laws.
    """
    reserved = ("".join(f"[{letter.upper()}{letter}]" for letter in name) for name in RESERVED)
    schema = _of_model(File)
    schema["properties"]["sweeps"] |= {
        "propertyNames": {"pattern": f"^(?!(?:{'|'.join(reserved)})$){SWEEP_NAME.pattern}$"},
        "additionalProperties": {"$ref": "#/definitions/sweep"},
    }
    experiments = experiment_names()
    docs = [importlib.import_module(f"experiments.{name}").__doc__ for name in experiments]
    about = {"description": "the kind of measurement; it decides which other keys the sweep has"}
    block = {
        "type": "object",
        "required": ["experiment"],
        "properties": {"experiment": about | one_of(dict(zip(experiments, docs, strict=True)))},
        "allOf": [
            {
                "if": {"properties": {"experiment": {"const": name}}, "required": ["experiment"]},
                "then": {"$ref": f"#/definitions/{name}"},
            }
            for name in experiments
        ],
    }
    types = {kind.__name__: value for kind, value in named.items()}
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    return draft | schema | {"definitions": {"sweep": block, **{name: _sweep(name) for name in experiments}, **types}}


def one_of(documented: Mapping[str, str | None]) -> Schema:
    """The schema of text that is one of these names, with the first line of the docstring of each for the editor."""
    lines = [(doc or "").partition("\n")[0].removesuffix(".") for doc in documented.values()]
    return {"enum": list(documented), "enumDescriptions": lines}


def _sweep(name: str) -> Schema:
    """The schema of the sweeps of an experiment."""
    schema = _of_model(sweep_model(name))
    if load_experiment(name).has_precision:
        schema["oneOf"] = [{"required": ["trials"]}, {"required": ["precision"]}]
        schema["dependencies"] = {"max_trials": ["precision"]}
    return schema


def _of_model(model: type[BaseModel]) -> Schema:
    """The schema of a model, without the titles and the empty defaults that pydantic makes from names."""
    schema = json.loads(json.dumps(model.model_json_schema()).replace(f'"{POINTER}"', '"$ref"'))
    fields = {}
    for key, field in schema["properties"].items():
        kept = {word: value for word, value in field.items() if word != "title" and value not in (None, [])}
        fields[key] = as_text(kept)
    return {**schema, "title": "Config" if model is File else "Sweep", "properties": fields}
