"""config.schema.json: the JSON Schema by which editors complete, explain and check a config."""

import json
import re
from pathlib import Path

from experiments.harness.files import write_atomically
from experiments.harness.schema import Schema, config_schema, first_line, one_of
from sdpa import LAWS, Arithmetic, InputLaw, Scaling
from sdpa.arithmetic import FORMATS
from sdpa.initialisation import SCHEMES, Scheme
from sdpa.scaling import FACTORS

SCHEMA = Path("config.schema.json")  # the config files name it in their first line
_RULES = ("unscaled", "d_k^1/2", "d_k^1/3", "d_k^2/3", "d_k^1", 8, "d_k^1/2/ln(n_keys)")


def write_schema() -> None:
    """Write the schema of the config into the current folder."""
    write_atomically(SCHEMA, schema_text().encode())


def schema_text() -> str:
    """The JSON Schema of the config, as its file holds it."""
    named = {
        Scaling: _rules(),
        InputLaw: one_of(list(LAWS), [first_line(law.sample.__doc__) for law in LAWS.values()]),
        Scheme: one_of(list(SCHEMES), [first_line(scheme.variances.__doc__) for scheme in SCHEMES.values()]),
        Arithmetic: one_of(list(FORMATS), [f"{each.digits} binary digits" for each in FORMATS.values()]),
    }
    return json.dumps(config_schema(named), indent=1) + "\n"


def _rules() -> Schema:
    """The schema of a scaling rule: a positive number, or text whose parts follow one another as in the grammar.

    No regular expression counts brackets or computes powers: `Scaling.parse` refuses more.
    """
    return {
        "description": f"divisor of the scores: unscaled, or a product of numbers and powers of {', '.join(FACTORS)}",
        "type": ["number", "string"],
        "exclusiveMinimum": 0,
        "pattern": rf"^\s*(?:unscaled|\+[0-9]+/[0-9]+|{_product()})\s*$",
        "patternErrorMessage": f"expected a rule such as {', '.join(map(str, _RULES))}",
        "examples": list(_RULES),
    }


def _product() -> str:
    """The pattern of a product of powers of numbers and factors; brackets may stand around any part, unbalanced too."""
    number = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?"
    factors = (re.escape(name).replace(r"\(", r"\s*\(\s*").replace(r"\)", r"\s*\)") for name in FACTORS)
    part = rf"(?:(?:sqrt\s*)?\(\s*)*(?:{number}|{'|'.join(factors)})(?:\s*\))*"
    operator = r"\s*(?:[*/]|(?:\^|\*\*)(?:\s*\(?\s*-)?)\s*"
    return f"{part}(?:{operator}{part})*"
