"""The config file, read and checked; reports every fault at once, each with its line and column.

The keys of a sweep are the fields of its experiment's cell, with their types and limits, so that this module knows no
experiment by name. The models also give the JSON schema of the config, see `experiments.steps.schema`.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from experiments.figures.declared import default_figures, figures_of
from experiments.harness.columns import Meaning, axis_names, cell_fields, defaults
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import Experiment, load_experiment
from experiments.harness.files import COLUMNS
from experiments.harness.grid import Sweep, describe, plain
from experiments.harness.yaml_text import (
    FRACTION,
    POWER,
    RANGE,
    Document,
    Fault,
    KeyPath,
    YamlError,
    with_power,
    with_range,
)
from experiments.statistics.intervals import MIN_TRIALS
from sdpa._names import did_you_mean, nearest

RESERVED = (Path(COLUMNS).stem,)  # a sweep of such a name would overwrite the file
SWEEP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MAX_CELLS = 100_000
_MAX_ROWS = 200_000
_MAX_CHUNKS = 500_000  # days of work, and one record per chunk
_MAX_MEMORY = 4 * 2**30
_MAX_TRIALS = 10**12
# For parts of pydantic's messages.
_OUR_WORDS = {
    "Input should be ": "expected ",
    "valid integer": "whole number",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "more than",
}
POINTER = "pointer"  # becomes `$ref` in the JSON schema: pydantic refuses references to definitions of ours
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_WHOLE = Annotated[int, BeforeValidator(with_power)]


@dataclass(frozen=True)
class Config:
    """A whole config: the root seed of all draws, from 0 to 2^128 - 1, and the sweeps in the order of the file."""

    seed: int
    sweeps: tuple[Sweep, ...]
    text: str = ""  # the file as read; empty for a config made in code

    @property
    def digest(self) -> str:
        """SHA-256 of the sweeps and their figures; comments and layout of the file do not count."""
        swept = [[sweep.name, sweep.parameters(), sweep.figures] for sweep in self.sweeps]
        return hashlib.sha256(json.dumps([self.seed, swept]).encode()).hexdigest()


class ConfigError(Exception):
    """An invalid config; one line per fault, as FILE:LINE:COLUMN: key: got, expected; without a place, FILE: fault.

    Faults are in the order of their positions. Characters that a terminal may not print appear as escapes.
    """

    def __init__(self, path: Path, faults: Iterable[Fault]) -> None:
        ordered = sorted(faults, key=lambda fault: (fault.line, fault.column))
        lines = (f"{path}{f':{fault.line}:{fault.column}' * (fault.line > 0)}: {fault.message}" for fault in ordered)
        super().__init__("\n".join("".join(c if c.isprintable() else repr(c)[1:-1] for c in line) for line in lines))


def load_config(path: Path) -> Config:
    """Read a config and all its sweeps.

    Raises:
        ConfigError: the file is unreadable or has faults; the message lists all, but a syntax error hides the others.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = Document(text)
    except OSError as error:
        raise ConfigError(path, [Fault(0, 0, f"cannot read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start].split(b"\n")
        fault = Fault(len(before), len(before[-1]) + 1, "got bytes that are not UTF-8, expected text")
        raise ConfigError(path, [fault]) from None
    except YamlError as error:
        raise ConfigError(path, error.args) from None
    config = _config(document)
    if document.faults:
        raise ConfigError(path, document.faults)
    return replace(config, text=text)


class File(BaseModel):
    """The keys of the file; each block of a sweep has its own model."""

    model_config = _STRICT

    seed: _WHOLE = Field(ge=0, le=2**128 - 1, description="root seed of all draws")
    sweeps: dict[str, Any] = Field(min_length=1, description="one block per sweep; its name becomes that of its table")


@dataclass(frozen=True)
class _Json:
    """An annotation: the JSON schema of values that a function of ours validates."""

    make: Callable[[], dict[str, Any]]

    def __get_pydantic_json_schema__(self, *_: object) -> dict[str, Any]:
        return self.make()


def _config(document: Document) -> Config:
    """The readable part of the config; the document notes its faults."""
    if not isinstance(document.value, dict):
        document.fault((), f"got {_shown(document.value)}, expected the keys seed and sweeps")
        return Config(0, ())
    file = _validated(document, (), File, document.value)
    bodies = document.value.get("sweeps")
    if not isinstance(bodies, dict):
        bodies = {}
    alike: dict[str, list[str]] = {}
    for name in bodies:
        alike.setdefault(name.lower(), []).append(name)
    sweeps = [_sweep(document, name, body, alike[name.lower()][:2]) for name, body in bodies.items()]
    return Config(file.seed if file else 0, tuple(sweep for sweep in sweeps if sweep))


def _sweep(document: Document, name: str, body: Any, alike: list[str]) -> Sweep | None:
    """The sweep of a block; None if the document has faults, which it notes. Faults of size come last."""
    path: KeyPath = ("sweeps", name)
    if problem := _name_problem(name, alike):
        document.fault(path, f"got the sweep name {name[:80]!r}, {problem}", document.place(path, of_key=True))
    if not isinstance(body, dict):
        document.fault(path, f"got {_shown(body)}, expected the keys of a sweep")
        return None
    experiment = body.get("experiment")
    if experiment not in experiment_names():
        got = f"got {_shown(experiment)}, " if "experiment" in body else "missing key experiment, "
        hint = did_you_mean(nearest(experiment, experiment_names()))
        document.fault((*path, "experiment"), f"{got}expected one of {', '.join(experiment_names())}{hint}")
        return None
    loaded = load_experiment(experiment)
    if loaded.has_precision:
        _check_trials_or_precision(document, path, body)
    checked = _validated(document, path, sweep_model(experiment), body, loaded.other_words)
    if document.faults:
        return None
    values = {key: getattr(checked, key) for key in cell_fields(loaded.cell)}
    # The axes that each variant names, in the order of the cell.
    variants = tuple(
        {key: getattr(one, key) for key in values if key in one.model_fields_set} for one in checked.variants
    )
    precision = getattr(checked, "precision", None)
    trials = checked.max_trials if precision else checked.trials
    sweep = Sweep(name, loaded, values, trials, (), precision, variants)
    spanned = {key: tuple(dict.fromkeys(value for grid in sweep.grids() for value in grid[key])) for key in values}
    sweep = replace(sweep, figures=checked.figures or default_figures(experiment, spanned))
    if problem := _size_problem(sweep, loaded):
        document.fault(path, problem, document.place(path, of_key=True))
        return None
    if problem := next(filter(None, map(loaded.problem, sweep.cells())), None):
        key, _, text = problem.partition(": ")
        document.fault((*path, key), text)
        return None
    twice = [cell for cell, count in Counter(sweep.cells()).items() if count > 1]
    if twice:
        document.fault((*path, "variants"), f"got the cell {describe(twice[0])} twice, expected each cell once")
        return None
    return sweep


def _values_of(experiment: Experiment, field: str) -> Any:
    """The list of values of a field of a cell, as a config gives them."""
    kind, usual = cell_fields(experiment.cell)[field], defaults(experiment.cell)
    item = get_args(kind)[0] if get_origin(kind) is tuple else kind
    meaning = next(note for note in get_args(kind) if isinstance(note, Meaning)) if _bare(kind) != kind else None
    about: dict[str, Any] = {"description": meaning.text} if meaning else {}
    if field in usual:
        about["default"] = plain(usual[field])
    return _list_of(_strict(item), ranges=_bare(item) is int, about=about)


def _check_trials_or_precision(document: Document, path: KeyPath, body: dict[str, Any]) -> None:
    """Note a fault unless a sweep names either its trials or a precision, with max_trials only beside the latter."""

    def fault(key: str, problem: str) -> None:
        document.fault((*path, key), problem, document.place((*path, key), of_key=True))

    if "precision" not in body and "trials" not in body:
        document.fault((*path, "trials"), "missing key; expected trials or precision")
    if "precision" in body and "trials" in body:
        fault("precision", "got both precision and trials, expected one of them")
    if "precision" not in body and "max_trials" in body:
        fault("max_trials", "got max_trials without precision, expected both")


def _validated(
    document: Document,
    path: KeyPath,
    model: type[BaseModel],
    value: dict[str, Any],
    other_words: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """The value at a path, validated by a model; None if it has faults, which the document notes.

    `other_words` are suggestions for keys that the model lacks, and for values of keys that it has, as `key: value`.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            where = (*path, *detail["loc"])
            if detail["type"] == "missing":
                document.fault(where, "missing key")
            elif detail["type"] == "extra_forbidden":
                variants = model.model_fields.get("variants")
                keys_of = get_args(variants.annotation)[0] if variants and len(detail["loc"]) > 1 else model
                message = _unknown_key(str(where[-1]), keys_of, other_words)
                document.fault(where[:-1], message, document.place(where, of_key=True))
            else:
                got = document.written(where) or _shown(detail["input"])
                hint = did_you_mean(other_words.get(f"{where[-1]}: {got}".lower()))
                document.fault(where, f"got {got[:80]}, {_expected(detail)}{hint}")
        return None


def _unknown_key(key: str, model: type[BaseModel], other_words: Mapping[str, str]) -> str:
    """The message about a key that the model lacks: those that it has, required ones first, and the likely one."""
    fields = model.model_fields
    expected = sorted(fields, key=lambda name: not fields[name].is_required())
    hint = did_you_mean(nearest(key[:80], expected))
    if "experiment" in fields:
        owners = [name for name in experiment_names() if key in cell_fields(load_experiment(name).cell)]
        if owners:
            hint = f"; {' and '.join(owners)} {'has' if len(owners) == 1 else 'have'} this key"
        elif key.lower() in other_words:
            hint = did_you_mean(other_words[key.lower()])
    return f"got the unknown key {key[:80]!r}, expected one of {', '.join(expected)}{hint}"


def _name_problem(name: str, alike: list[str]) -> str | None:
    """The fault of a sweep's name; `alike` holds the first two names that differ at most in case."""
    if not SWEEP_NAME.fullmatch(name):
        return "expected a letter, then letters, digits and underscores, at most 64 characters"
    if name.lower() in RESERVED:
        return f"expected a name that is not reserved ({', '.join(RESERVED)})"
    others = [other for other in alike if other != name]
    return f"expected a name that differs from {others[0]!r} by more than case" if others else None


def _size_problem(sweep: Sweep, experiment: Experiment) -> str | None:
    """The size of a sweep that no run can or should complete, in words; None if all its sizes are possible.

    A sweep with a precision counts with its `max_trials`.
    """
    points = sum(math.prod(map(len, grid.values())) for grid in sweep.grids())
    if points > _MAX_CELLS:
        return f"got a grid of {points} cells and scalings, expected at most {_MAX_CELLS}"
    cells = sweep.cells()
    largest = max(cells, key=experiment.memory)
    if experiment.memory(largest) > _MAX_MEMORY:
        needed = experiment.memory(largest) / 2**30
        return f"got the cell {describe(largest)}, which needs {needed:.3g} GiB per worker, expected at most 4 GiB"
    chunks = sum(math.ceil(sweep.trials / experiment.chunk_trials(cell)) for cell in cells)
    if chunks > _MAX_CHUNKS:
        return f"got {sweep.trials} trials in {chunks} chunks of work, expected at most {_MAX_CHUNKS} chunks"
    rows = sum(experiment.table_rows(cell, sweep.trials) for cell in cells)
    return f"got a table of {rows} rows, expected at most {_MAX_ROWS}" if rows > _MAX_ROWS else None


def sweep_model(name: str) -> type[BaseModel]:
    """The pydantic model of the sweeps of an experiment: the fields of its cell as lists, then trials and figures.

    An experiment with a precise metric also has `precision`, between 0 and 1, and `max_trials`, by default 100,000;
    `trials` is then optional, and `_check_trials_or_precision` requires one of the two.
    """
    experiment = load_experiment(name)
    fields: dict[str, Any] = {"experiment": (Annotated[str, _Json(lambda: {"const": name})], ...)}
    left_out = defaults(experiment.cell)
    lists = {key: _values_of(experiment, key) for key in cell_fields(experiment.cell)}
    for key, values in lists.items():
        # By a factory, because pydantic would look for a JSON form of the default itself.
        usual = Field(default_factory=partial(tuple, [left_out[key]])) if key in left_out else ...
        fields[key] = (values, usual)
    axes: dict[str, Any] = {axis: (lists[axis], None) for axis in axis_names(experiment.cell)}
    variant = create_model("Variant", __config__=_STRICT, **axes)
    variants = Annotated[list[variant], Field(min_length=1), _Json(lambda: _variants_schema(name, experiment))]  # type: ignore[valid-type]
    fields["variants"] = (variants, ())
    required = not experiment.has_precision
    least = ... if required else None
    fields["trials"] = (_WHOLE, Field(least, description=_ABOUT["trials"], ge=experiment.min_trials, le=_MAX_TRIALS))
    if not required:
        fields["precision"] = (float, Field(None, description=_ABOUT["precision"], gt=0, lt=1))
        fields["max_trials"] = (_WHOLE, Field(100_000, description=_ABOUT["max_trials"], ge=MIN_TRIALS, le=_MAX_TRIALS))
    fields["figures"] = (_list_of(_one_of(figures_of(name)), about={"description": _ABOUT["figures"]}), None)
    return create_model("SweepBlock", __config__=_STRICT, **fields)


_ABOUT = {
    "trials": "independent draws of each cell, or runs of each rule",
    "precision": "relative standard error that decides the number of trials, in place of trials",
    "max_trials": "largest number of trials of a cell, beside precision",
    "figures": "figures to draw; without this key, those that suit the axes",
    "variants": "grids that together make the sweep; each names the axes that it changes, and {} is the grid unchanged",
}


def _variants_schema(name: str, experiment: Experiment) -> dict[str, Any]:
    """A list of mappings, each with any of the axes, as in the sweep."""
    axes = {axis: {POINTER: f"#/definitions/{name}/properties/{axis}"} for axis in axis_names(experiment.cell)}
    variant = {"type": "object", "properties": axes, "additionalProperties": False}
    return list_schema(variant) | {"description": _ABOUT["variants"]}


def list_schema(item: dict[str, Any]) -> dict[str, Any]:
    """The schema of a list of one or more different values."""
    return {"type": "array", "items": item, "minItems": 1, "uniqueItems": True}


def _list_of(item: Any, *, ranges: bool = False, about: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """A list of one or more distinct items; a single item stands for a list of one. Validation gives a tuple.

    With `ranges`, a range such as 4..512*2 may stand for its values. `about` completes the JSON schema.
    """
    adapter = TypeAdapter(item)

    def validate(value: Any) -> tuple[Any, ...]:
        if value == []:
            raise ValueError("expected at least one value")
        items: dict[Any, None] = {}
        faults: list[InitErrorDetails] = []
        for i, given in enumerate(value if isinstance(value, list) else [value]):
            try:
                parsed = [adapter.validate_python(value) for value in (with_range(given) if ranges else [given])]
            except ValidationError as error:
                expected = [_expected(detail) for detail in error.errors(include_url=False)]
            except ValueError as error:
                expected = [str(error)]
            else:
                expected = ["expected each value once in the list"] if items.keys() & parsed else []
                items |= dict.fromkeys(parsed)
            for text in expected:
                refused = PydanticCustomError("refused", "{expected}", {"expected": text})
                faults.append(InitErrorDetails(type=refused, loc=(i,), input=given))
        if faults:
            # One error for the whole list, so that no faulty value hides another.
            raise ValidationError.from_exception_data("list", faults)
        return tuple(items)

    def schema() -> dict[str, Any]:
        one = as_text(adapter.json_schema(), ranges=ranges)
        if not isinstance(one.get("type"), list):
            return {"anyOf": [one, list_schema(one)], **about}
        # Numbers and their lists share limits in place of alternatives, so that an editor names the broken limit.
        return {**one, **list_schema(one), "type": [*one["type"], "array"], **about}

    return Annotated[Any, PlainValidator(validate), _Json(schema)]


def as_text(schema: dict[str, Any], *, ranges: bool = False) -> dict[str, Any]:
    """The schema of a number that text such as 2^6, 1/3 or 4..512*2 may stand for; any other schema as it is."""
    forms = {"integer": (POWER, FRACTION, *([RANGE] if ranges else [])), "number": (FRACTION,)}.get(
        str(schema.get("type"))
    )
    if forms is None:
        return schema
    pattern = f"^(?:{'|'.join(forms)})$"
    kind = "a whole number such as 64, 2^6 or 8/2" if schema["type"] == "integer" else "a number such as 0.5 or 1/3"
    return schema | {
        "type": [schema["type"], "string"],
        "pattern": pattern,
        "patternErrorMessage": f"expected {kind}{', or a range such as 4..512*2' * ranges}",
    }


def _expected(detail: ErrorDetails) -> str:
    """The expectation in a fault, from pydantic's messages or ours, which may also name the value."""
    if detail["type"] in ("dict_type", "too_short"):
        return "expected a block for each sweep"
    if detail["type"] == "model_type":
        return "expected the axes of a variant"
    expected = detail["msg"].removeprefix("Value error, ").split(", got ")[0]
    for theirs, ours in _OUR_WORDS.items():
        expected = expected.replace(theirs, ours)
    return expected


def _strict(kind: Any) -> Any:
    """A type to read from YAML: strict numbers, names out of a list, and types that parse their own names.

    Strict means that 8.0, read as the number 8, is a valid int, but text such as "8" is not. The JSON schema of a type
    that parses its names is the definition of its name, which `experiments.steps.schema` adds.
    """
    bare = _bare(kind)
    if get_origin(bare) is Literal:
        return _one_of(get_args(bare))
    if parse := getattr(bare, "parse", None):
        pointer = {POINTER: f"#/definitions/{bare.__name__}"}
        return Annotated[kind, PlainValidator(_reader(parse)), _Json(lambda: pointer)]
    return Annotated[kind, BeforeValidator(with_power if bare is int else lambda value: value), Field(strict=True)]


def _bare(kind: Any) -> Any:
    """A type without its annotations."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _reader(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    """The parser of a type, for any value; its message leaves out the value, which the fault names as written."""

    def read(value: Any) -> Any:
        text = "" if value is None else str(value)
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(str(error).replace(f", got {text!r}", "")) from None

    return read


def _one_of(names: Sequence[str]) -> Any:
    """Text that is one of these names."""

    def validate(value: Any) -> str:
        if value not in names:
            raise ValueError(f"expected one of {', '.join(names)}{did_you_mean(nearest(value, names))}")
        return str(value)

    return Annotated[str, PlainValidator(validate), _Json(lambda: {"enum": list(names)})]


def _shown(value: Any) -> str:
    """A short form of a value for messages."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return repr(value)[:80]
