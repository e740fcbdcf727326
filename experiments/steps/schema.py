"""config.schema.json, by which editors complete, explain and check a config: what pydantic says of the loader's models.

The schema accepts whatever the loader accepts. The loader refuses more: a schema has no rules across fields and no size
of a sweep, and sees numbers such as `2^6`, `1/3` and `4..512*2` as text.
"""

import importlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from experiments.harness.config import POINTER, RESERVED, SWEEP_NAME, File, as_text, sweep_model
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.files import write_atomically
from sdpa import LAWS, Arithmetic, InputLaw, Scaling
from sdpa.arithmetic import FORMATS
from sdpa.initialisation import SCHEMES, Scheme
from sdpa.scaling import FACTORS

SCHEMA = Path("config.schema.json")  # the config files name it in their first line
_RULES = ("unscaled", "d_k^1/2", "d_k^1/3", "d_k^2/3", "d_k^1", 8, "d_k^1/2/ln(n_keys)")

Schema = dict[str, Any]


def write_schema() -> None:
    """Write the schema of the config into the current folder."""
    write_atomically(SCHEMA, schema_text().encode())


def schema_text() -> str:
    """The JSON Schema of the config, as its file holds it."""
    text = json.dumps(config_schema(), indent=1)
    return re.sub(r"\[\s+([^\[\]{}\\]*?)\s+\]", _in_one_line, text) + "\n"


def _in_one_line(found: re.Match[str]) -> str:
    """A list of plain values without its line breaks, if it fits a line."""
    short = f"[{' '.join(found[1].split())}]"
    return short if len(short) < 100 else found[0]


def _rules() -> Schema:
    """The schema of a scaling rule: a positive number, or text of the words of rules; `Scaling.parse` refuses more."""
    words = "|".join(sorted({*re.findall(r"\w+", " ".join(FACTORS)), "unscaled", "sqrt"}))
    return {
        "description": f"divisor of the scores: unscaled, or a product of numbers and powers of {', '.join(FACTORS)}",
        "type": ["number", "string"],
        "exclusiveMinimum": 0,
        "pattern": rf"^(?!\s*-)(?:{words}|[-+*/^()0-9.eE\s])+$",
        "patternErrorMessage": f"expected a rule such as {', '.join(map(str, _RULES))}",
        "examples": list(_RULES),
    }


def config_schema() -> Schema:
    """The JSON Schema (draft 7) of a config."""
    # Of one value of each type whose values a config names.
    named = {
        Scaling: _rules(),
        InputLaw: _one_of({name: law.sample.__doc__ for name, law in LAWS.items()}),
        Scheme: _one_of({name: scheme.variances.__doc__ for name, scheme in SCHEMES.items()}),
        Arithmetic: _one_of({name: f"{each.digits} binary digits" for name, each in FORMATS.items()}),
    }
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
        "properties": {"experiment": about | _one_of(dict(zip(experiments, docs, strict=True)))},
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


def _one_of(documented: Mapping[str, str | None]) -> Schema:
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
