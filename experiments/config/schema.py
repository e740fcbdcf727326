"""config.schema.json, by which editors complete, explain and check a config: what pydantic says of
the models.

The schema accepts whatever the loader accepts. The loader refuses more: a schema has no rules
across fields and no size of a sweep, and sees numbers such as `2^6`, `1/3` and `4..512*2` as text.
"""

import json
from pathlib import Path
from typing import Any

from experiments.config.models import config_model
from sdpa import LAWS
from sdpa.arithmetic import FORMATS
from sdpa.initialisation import SCHEMES
from sdpa.row_maps import NORMALIZERS
from sdpa.scaling import FUNCTIONS, SIZES

SCHEMA = Path("config.schema.json")  # the config files name it in their first line
_WORDS = "|".join(sorted({*SIZES, *FUNCTIONS, "unscaled"}))
# One value of each type that parses its own names; `Scaling.parse` refuses more.
_NAMED: dict[str, Any] = {
    "Scaling": {
        "type": ["number", "string"],
        "exclusiveMinimum": 0,
        "pattern": rf"^(?!\s*-)(?:{_WORDS}|[-+*/^()0-9.eE\s])+$",
        "patternErrorMessage": "expected a rule such as unscaled, d_k^1/2, 8 or d_k^1/2/ln(n_keys)",
        "examples": ["unscaled", "d_k^1/2", "d_k^1/3", "d_k^2/3", "d_k^1", 8],
    },
    "InputLaw": {"enum": list(LAWS)},
    "Scheme": {"enum": list(SCHEMES)},
    "Arithmetic": {"enum": list(FORMATS)},
    "Normalizer": {"enum": list(NORMALIZERS)},
    "Sink": {"type": ["number", "string"], "pattern": "^none$"},
    "MaskName": {"type": "string", "pattern": "^(?:none|causal|window-[1-9][0-9]{0,8})$"},
}


def schema_text() -> str:
    """The JSON Schema of the config (draft 7), as its file holds it."""
    dialect = {"$schema": "http://json-schema.org/draft-07/schema#"}
    text = json.dumps(dialect | config_model().model_json_schema())
    return json.dumps(json.loads(text, object_hook=_completed), indent=1) + "\n"


def _completed(part: dict[str, Any]) -> Any:
    """A part of the schema with the values of named types, and without titles from names."""
    if isinstance(part.get("title"), str):
        del part["title"]
    return _NAMED.get(str(part.get("type")), part)
