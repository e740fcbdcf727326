"""config.schema.json: the JSON Schema by which editors complete, explain and check a config."""

import json
import re
from pathlib import Path

from experiments.harness.files import write_atomically
from experiments.harness.schema import Schema, config_schema, one_of
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
        InputLaw: one_of({name: law.sample.__doc__ for name, law in LAWS.items()}),
        Scheme: one_of({name: scheme.variances.__doc__ for name, scheme in SCHEMES.items()}),
        Arithmetic: one_of({name: f"{each.digits} binary digits" for name, each in FORMATS.items()}),
    }
    text = json.dumps(config_schema(named), indent=1)
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
