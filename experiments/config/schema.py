"""config.schema.json, by which editors complete, explain and check a config: what pydantic says of
the models.

The schema accepts whatever the loader accepts. The loader refuses more: a schema has no rules
across fields and no size of a sweep, and sees numbers such as `2^6`, `1/3` and `4..512*2` as text.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from experiments.config.models import config_model
from sdpa import LAWS
from sdpa.initialisation import SCHEMES
from sdpa.row_maps import NORMALIZERS
from sdpa.scaling import FUNCTIONS, SIZES

SCHEMA = Path("config.schema.json")  # the config files name it in their first line
_WORDS = "|".join(sorted({*SIZES, *FUNCTIONS, "unscaled"}))
_LONG = 100  # characters of a part for which a reference is worth while
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
    "Normalizer": {"enum": list(NORMALIZERS)},
    "Sink": {"type": ["number", "string"], "pattern": "^none$"},
    "MaskName": {"type": "string", "pattern": "^(?:none|causal|(?:window|local)-[1-9][0-9]{0,8})$"},
}


def schema_text() -> str:
    """The JSON Schema of the config (draft 7), as its file holds it."""
    dialect = {"$schema": "http://json-schema.org/draft-07/schema#"}
    text = json.dumps(dialect | config_model().model_json_schema())
    schema = json.loads(text, object_hook=_completed)
    return json.dumps(_without_repetition(schema), indent=1) + "\n"


def _completed(part: dict[str, Any]) -> Any:
    """A part of the schema with the values of named types, and without titles from names."""
    if isinstance(part.get("title"), str):
        del part["title"]
    return _NAMED.get(str(part.get("type")), part)


def _without_repetition(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema, in which each long part that comes again is an entry of `$defs`, named
    after the key of its first place.
    """
    counts: Counter[str] = Counter()

    def count(part: dict[str, Any]) -> dict[str, Any]:
        counts[json.dumps(part)] += 1
        return part

    json.loads(json.dumps(schema), object_hook=count)
    names: dict[str, str] = {}
    entries: dict[str, Any] = {}

    def referring(part: Any, key: str) -> Any:
        if isinstance(part, list):
            return [referring(each, key) for each in part]
        if not isinstance(part, dict):
            return part
        inner = {
            name: referring(each, key if name in ("anyOf", "items") else name)
            for name, each in part.items()
        }
        text = json.dumps(part)
        # The value of `properties` is no schema, and no reference can stand for it.
        if counts[text] == 1 or len(text) < _LONG or key == "properties":
            return inner
        name = names.setdefault(text, f"{key}-{len(names) + 1}")
        entries[name] = inner
        return {"$ref": f"#/$defs/{name}"}

    whole = {key: referring(part, key) for key, part in schema.items()}
    return whole | {"$defs": whole["$defs"] | entries}
