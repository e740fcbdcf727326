"""Faults that pydantic finds, as `got ..., expected ...`, with a hint at the key that is meant."""

import re

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from experiments.config.models import sweep_model
from experiments.config.yaml_text import Document
from experiments.kinds import experiment_names
from experiments.measuring.columns import axis_names
from experiments.measuring.experiment import load_experiment
from sdpa._names import did_you_mean, nearest

# Patterns in pydantic's messages, and what we say instead.
_OUR_WORDS = {
    "^Value error, |, got ('.*?'|\".*?\")": "",
    "^Input should be ": "expected ",
    "^(List|Dictionary) should have .*": "expected at least one",
    "a valid dictionary.*": "keys with values",
    "valid integer": "whole number such as 64 or 2^6",
    "valid number": "number",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "more than",
}
_BETWEEN_ITEMS = r",(?![^(]*\))"  # a comma outside of brackets
# Keys in the words of other programs and papers.
_OTHER_WORDS = {
    "causal": "mask: causal",
    "context_length": "n_keys",
    "dim": "d_k",
    "d_k": "d_model and n_heads (d_k = d_model / n_heads)",
    "d_head": "d_k",
    "divisor": "scaling",
    "head_dim": "d_k",
    "head_size": "d_k",
    "is_causal": "mask: causal",
    "num_heads": "n_heads",
    "qk_norm": "normalize: rms",
    "rope": "position: rope",
    "samples": "trials",
    "scale": "scaling",
    "seq_len": "n_keys",
    "sliding_window": "mask: window-512",
    "std": "query_std or key_std",
    "temperature": "scaling",
}

# Numbers of heads of keys in the words of other programs, and the end of the message on them.
_SHARED_KEYS = "kv|key_value|query_group"
_SHARED_KEYS_MESSAGE = (
    "; heads that share keys (grouped queries) keep their width and the law of each row, but their "
    "rows depend on each other, so that errors come from trials: leave it out, or in experiment: "
    "saturation, count all queries that share keys in n_queries, such as 256 for 4 heads of 64"
)


def note(document: Document, error: ErrorDetails) -> None:
    """Note one of pydantic's errors as a fault of the document."""
    kind = error["type"]
    path = error["loc"]
    experiment = ""
    if len(path) > 2:  # after the name of a sweep, pydantic has that of its experiment
        experiment = str(path[2])
        path = (*path[:2], *path[3:])
    if kind == "extra_forbidden":
        end = _known_keys(str(path[-1]), experiment, in_variant="variants" in path)
        document.fault(path, f"got an unknown key{end}", is_key=True)
    elif kind == "missing":
        document.fault(path, "missing key")
    elif kind == "union_tag_not_found":
        document.fault((*path, "experiment"), f"missing key; {_one_of(experiment_names())}")
    else:
        if kind == "union_tag_invalid":
            path = (*path, "experiment")
        expected = _expected(error)
        if kind == "repeated":
            first = error["ctx"]["first"]
            expected += f"; [{first}] is {document.written((*path, first))}"
            path = (*path, error["ctx"]["index"])
        written = document.written(path)
        place = error["loc"][-1]
        if "formula" in expected and isinstance(place, int):
            listed = [document.written((*path[:-1], i)) for i in range(place)]
            if ")" in written and any(_is_cut(item) for item in listed):
                return  # the end of a rule whose beginning is a fault already
        hint = _comma_hint(written, expected) if isinstance(place, int) else ""
        document.fault(path, f"got {written}, {expected}{hint}")


def _is_cut(written: str) -> bool:
    """True for the beginning of a rule that a comma has cut."""
    return written.count("(") > written.count(")")


def _comma_hint(written: str, expected: str) -> str:
    """A hint at the brackets or quotes that a value with commas misses; empty without commas."""
    if "formula" in expected and _is_cut(written):
        return '; in a list, a rule with a comma stands in quotes: "max(8, d_k^1/2)"'
    return "; a list stands in [ ]" if re.search(_BETWEEN_ITEMS, written) else ""


def _expected(error: ErrorDetails) -> str:
    """The values that a key takes, in our words."""
    kind = error["type"]
    if kind == "union_tag_invalid":
        given = error["ctx"]["tag"]
        return _one_of(experiment_names(), _OTHER_WORDS.get(given, given))
    if kind == "literal_error":
        names = re.findall("'(.*?)'", error["ctx"]["expected"])
        key, given = str(error["loc"][-2]), error["input"]
        return _one_of(names, given, _elsewhere(f"{key}: {given}", _takers(key, given)))
    message = error["msg"]
    for theirs, ours in _OUR_WORDS.items():
        message = re.sub(theirs, ours, message)
    return message


def _one_of(names: list[str], given: object = "", other: str = "") -> str:
    return f"expected one of {', '.join(names)}{did_you_mean(other or nearest(given, names))}"


def _known_keys(key: str, experiment: str, *, in_variant: bool) -> str:
    """The end of a message on an unknown key: the one that it may mean, or all of its mapping."""
    known, other = ["seed", "sweeps"], ""
    if experiment:
        known = list(sweep_model(experiment).model_fields)
        other = _other_word(key.lower(), experiment)
    if in_variant:
        known = axis_names(load_experiment(experiment).cell)
    if re.search(_SHARED_KEYS, key.lower()):
        every = ", expected none: every head has keys of its own"
        return _SHARED_KEYS_MESSAGE if "n_queries" in known else every
    meant = other or nearest(key[:80], known)
    return did_you_mean(meant) if meant else f", {_one_of(known)}"


def _other_word(word: str, experiment: str) -> str:
    """Our key for a foreign name, or one of other experiments; empty without any.

    >>> _other_word("seq_len", "saturation"), _other_word("layers", "rows")
    ('n_keys', 'layers in experiment: language or network')
    """
    meant = _OTHER_WORDS.get(word, word)
    key, value = re.split(r"\W", meant)[0], meant.partition(": ")[2] or None
    takers = _takers(key, value)
    if experiment in takers:
        return "" if meant == word else meant
    return _elsewhere(meant, takers)


def _elsewhere(meant: str, experiments: list[str]) -> str:
    """What other experiments take, with their names; empty without any."""
    return f"{meant} in experiment: {' or '.join(experiments)}" if experiments else ""


def _takers(key: str, value: object = None) -> list[str]:
    """The experiments with a key; those that take a value of it, if one is given.

    >>> _takers("layers"), _takers("norm", "post")
    (['language', 'network'], ['network'])
    """
    fields = {name: sweep_model(name).model_fields.get(key) for name in experiment_names()}
    return [
        name for name, field in fields.items() if field and (value is None or _takes(field, value))
    ]


def _takes(field: FieldInfo, value: object) -> bool:
    """True if a value is one of those that a key takes."""
    try:
        TypeAdapter(field.rebuild_annotation()).validate_python([value])
    except ValidationError:
        return False
    return True
