"""The config file, read and checked; reports every fault at once, each with its line and column.

The keys of a sweep are the fields of its experiment's cell, with their types and limits, so that this module knows no
experiment by name. The models also give the JSON schema of the config, see `experiments.config.schema`.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from experiments.config.sweep import Sweep
from experiments.config.yaml_text import FRACTION, POWER, RANGE, Document, Fault, KeyPath, YamlError, with_range
from experiments.errors import UsageError
from experiments.figures.declared import default_figures, figures_of
from experiments.kinds import experiment_names
from experiments.measuring.columns import Meaning, as_json, axis_names, cell_fields, defaults, describe
from experiments.measuring.experiment import load_experiment
from experiments.measuring.intervals import MIN_TRIALS
from sdpa._names import did_you_mean, nearest
from sdpa.arithmetic import FORMATS
from sdpa.row_maps import NORMALIZERS

_NAME = "[A-Za-z][A-Za-z0-9_]{0,63}"
_MAX_CELLS = 100_000
_MAX_ROWS = 200_000
_MAX_CHUNKS = 500_000  # days of work, and one record per chunk
_MAX_GIB = 4  # of memory of a worker
_MAX_TRIALS = 10**12
# For parts of pydantic's messages, and for whole ones.
_OUR_WORDS = {
    "Value error, ": "",
    "Input should be ": "expected ",
    "valid integer": "whole number",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "more than",
}
_OUR_MESSAGES = {
    "missing": "missing key",
    "too_short": "expected at least one",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "expected keys with values"),
}
# Suggestions for keys in the words of other programs and papers, and for values that another key takes.
_OTHER_WORDS = {
    "causal": "mask: causal",
    **dict.fromkeys(("dim", "dimension", "dimensions", "head_dim", "width"), "d_k"),
    **dict.fromkeys(("length", "seq_len", "tokens"), "n_keys"),
    **dict.fromkeys(("repeats", "samples", "seeds"), "trials"),
    **dict.fromkeys(("std", "input_std"), "query_std or key_std"),
    **dict.fromkeys(("scale", "temperature"), "scaling"),
    **dict.fromkeys(("dtype", "format", "number_format"), "arithmetic"),
    "qk_norm": "normalize: l2",
    "rho": "correlation",
    "mean": "query_mean or key_mean",
    "distribution": "inputs",
    "init": "experiment: initialisation",
    **{f"precision: {name}": f"arithmetic: {name}" for name in FORMATS},  # `precision` is this elsewhere
    **dict.fromkeys(("softcapping", "soft_cap", "logit_cap", "attn_logit_softcapping"), "softcap"),
    **dict.fromkeys(("sinks", "attention_sink", "softmax1", "off_by_one"), "sink: 0"),
    **dict.fromkeys(("rope", "rotary", "position_encoding"), "position: rope"),
    **dict.fromkeys(("window", "sliding_window", "mask: window"), "mask: window-512 in experiment: mechanisms"),
    **{name: f"normalizer: {name}" for name in NORMALIZERS},
}
_NO_KEY = {
    "bias": "no key adds another bias than alibi; row_diagnostics(scores + bias, divisor) in Python does",
    "flash": "FlashAttention has the same weights but for rounding, for which there is the key arithmetic",
    "mla": "DeepSeek's MLA is a rule of scaling with the width of its scores as d_k, see docs/your-model.md",
}
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


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


class ConfigError(UsageError):
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
        ConfigError: the file is unreadable or has faults; the message lists all, but a syntax error hides the others,
            and a wrong value hides that a sweep is too large.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")  # other bytes become forbidden characters
        document = Document(text)
    except OSError as error:
        raise ConfigError(path, [Fault(0, 0, f"cannot read: {error.strerror}")]) from None
    except YamlError as error:
        raise ConfigError(path, error.args) from None
    config = Config(0, (), text)
    try:
        checked: Any = config_model().model_validate(document.value)
        sweeps = tuple(_sweep(name, block) for name, block in checked.sweeps.items())
        config = Config(checked.seed, sweeps, text)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _note(document, detail)
    blocks = document.value.get("sweeps") if isinstance(document.value, dict) else None
    blocks = blocks if isinstance(blocks, dict) else {}
    for name, body in blocks.items():
        for key, problem in _problems_of_block(name, body, blocks):
            document.fault(("sweeps", name, *key), problem, of_key=True)
    for sweep in () if document.faults else config.sweeps:
        for key, problem in islice(_problems(sweep), 1):
            document.fault(("sweeps", sweep.name, *key), problem)
    if document.faults:
        raise ConfigError(path, document.faults)
    return config


def _problems_of_block(name: str, body: Any, blocks: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """The faults of a sweep's block that no model expresses, each with its key below the block."""
    alike = [other for other in blocks if other != name and other.lower() == name.lower()]
    if alike:
        yield (), f"got the sweep name {name!r}, expected a name that differs from {alike[0]!r} by more than case"
    experiment = body.get("experiment") if isinstance(body, dict) else None
    if experiment in experiment_names() and load_experiment(experiment).has_precision:
        if not body.keys() & {"trials", "precision"}:
            yield ("trials",), "missing key; expected trials or precision"
        if body.keys() >= {"trials", "precision"}:
            yield ("precision",), "got both precision and trials, expected one of them"
        if "max_trials" in body and "precision" not in body:
            yield ("max_trials",), "got max_trials without precision, expected both"


def _note(document: Document, error: ErrorDetails) -> None:
    """Note one of pydantic's errors as a fault of the document."""
    kind, path, value, experiment = error["type"], error["loc"], error["input"], ""
    if path[2:]:  # after the name of a sweep, pydantic has that of its experiment
        experiment, path = str(path[2]), (*path[:2], *path[3:])
    names = re.findall("'(.*?)'", error.get("ctx", {}).get("expected", ""))
    if kind.startswith("union_tag"):
        path, names, value = (*path, "experiment"), experiment_names(), value.get("experiment")
    expected = _OUR_MESSAGES.get(kind) or re.sub(", got '.*?'", "", error["msg"])
    for theirs, ours in _OUR_WORDS.items():
        expected = expected.replace(theirs, ours)
    if names:
        expected = f"expected one of {', '.join(names)}{did_you_mean(nearest(value, names))}"
    if not path:
        expected = "expected the keys seed and sweeps"
    if kind == "extra_forbidden":
        document.fault(path, f"got an unknown key, {_known_keys(path, experiment)}", of_key=True)
    elif kind in ("missing", "union_tag_not_found"):
        document.fault(path, expected if kind == "missing" else f"missing key; {expected}")
    elif experiment == "[key]":
        document.fault(path, f"got the sweep name {value[:80]!r}, {expected}", of_key=True)
    else:
        got = document.written(path)
        key = ["", *(part for part in path if isinstance(part, str))][-1]
        hint = did_you_mean(_other_word(f"{key}: {got}", experiment)) if experiment else ""
        document.fault(path, f"got {got}, {expected}{hint}")


def _known_keys(path: KeyPath, experiment: str) -> str:
    """The keys that a mapping with an unknown one may have, required ones first, and the one that it may mean."""
    key, known, hint = str(path[-1]), ["seed", "sweeps"], ""
    if experiment:
        fields = sweep_model(experiment).model_fields
        known = sorted(fields, key=lambda name: not fields[name].is_required())
        if "variants" in path:
            known = axis_names(load_experiment(experiment).cell)
        hint = did_you_mean(_other_word(key, experiment))
        owners = [name for name in experiment_names() if key in cell_fields(load_experiment(name).cell)]
        if owners and experiment not in owners:
            hint = f"; {' and '.join(owners)} {'has' if len(owners) == 1 else 'have'} this key"
        if key.lower() in _NO_KEY:
            hint = f"; {_NO_KEY[key.lower()]}"
    return f"expected one of {', '.join(known)}{hint or did_you_mean(nearest(key[:80], known))}"


def _other_word(word: str, experiment: str) -> str | None:
    """The key of an experiment, perhaps with its value, that others call by this word; or that of the only other one.

    >>> _other_word("softcapping", "saturation"), _other_word("mask: window-8", "saturation")
    ('softcap in experiment: mechanisms', 'mask: window-512 in experiment: mechanisms')
    """
    meant = _OTHER_WORDS.get(re.sub(r"-\d+$", "", word.lower()), "")
    key = re.split(r"\W", meant)[0]
    if key in {"experiment", *sweep_model(experiment).model_fields}:
        return meant
    owners = [name for name in experiment_names() if key in cell_fields(load_experiment(name).cell)]
    return f"{meant} in experiment: {owners[0]}" if len(owners) == 1 else None


def _sweep(name: str, block: Any) -> Sweep:
    """The sweep of a valid block."""
    experiment = load_experiment(block.experiment)
    values = {key: getattr(block, key) for key in cell_fields(experiment.cell)}
    # The axes that each variant names, in the order of the cell.
    variants = tuple(
        {key: getattr(one, key) for key in values if key in one.model_fields_set} for one in block.variants
    )
    precision = getattr(block, "precision", None)
    trials = block.max_trials if precision else block.trials
    sweep = Sweep(name, experiment, values, trials, (), precision, variants)
    spanned = {key: tuple(dict.fromkeys(value for grid in sweep.grids() for value in grid[key])) for key in values}
    return replace(sweep, figures=getattr(block, "figures", ()) or default_figures(experiment.name, spanned))


def _problems(sweep: Sweep) -> Iterator[tuple[KeyPath, str]]:
    """What makes a sweep impossible, each with its key below the block; whoever asks for the next may wait for long.

    A sweep with a precision counts with its `max_trials`.
    """
    points = sum(math.prod(map(len, grid.values())) for grid in sweep.grids())
    if points > _MAX_CELLS:
        yield (), f"got a grid of {points} cells and scalings, expected at most {_MAX_CELLS}"
    cells = sweep.cells()
    largest = max(cells, key=lambda cell: cell.memory)
    if (needed := largest.memory / 2**30) > _MAX_GIB:
        got = f"got the cell {describe(largest)}, which needs {needed:.3g} GiB per worker"
        yield (), f"{got}, expected at most {_MAX_GIB} GiB"
    chunks = sum(math.ceil(sweep.trials / cell.chunk_trials) for cell in cells)
    if chunks > _MAX_CHUNKS:
        yield (), f"got {sweep.trials} trials in {chunks} chunks of work, expected at most {_MAX_CHUNKS} chunks"
    rows = sum(cell.table_rows(sweep.trials) for cell in cells)
    if rows > _MAX_ROWS:
        yield (), f"got a table of {rows} rows, expected at most {_MAX_ROWS}"
    for problem in filter(None, (cell.problem() for cell in cells)):
        key, _, text = problem.partition(": ")
        yield (key,), text
    for cell, count in Counter(cells).items():
        if count > 1:
            yield ("variants",), f"got the cell {describe(cell)} twice, expected each cell once"


@dataclass(frozen=True)
class _Spelled:
    """An annotation of numbers: in the JSON schema, text such as 2^6, 1/3 or a range may stand for them."""

    ranges: bool = False

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core)
        pattern = "|".join([POWER, FRACTION, *([RANGE] if self.ranges else [])])
        said = {"patternErrorMessage": f"expected a number such as 64, 2^6 or 1/2{', or 4..512*2' * self.ranges}"}
        return {**schema, "type": [schema["type"], "string"], "pattern": f"^(?:{pattern})$", **said}


class _OneOrMore:
    """An annotation of groups of values: in the JSON schema, one value or a list of different ones."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        one = handler(core)["items"]["items"]
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1, "uniqueItems": True}]}


_Whole = Annotated[int, _Spelled()]


@cache
def config_model() -> type[BaseModel]:
    """The pydantic model of a whole config."""
    blocks: Any = Union[tuple(map(sweep_model, experiment_names()))]  # noqa: UP007
    names: Any = Annotated[str, AfterValidator(_sweep_name)]
    sweeps: Any = dict[names, Annotated[blocks, Field(discriminator="experiment")]]
    seed = Field(ge=0, le=2**128 - 1, description="root seed of all draws")
    about = "one block per sweep; its name becomes that of its table"
    pattern: Any = {"propertyNames": {"pattern": f"^{_NAME}$"}}
    described = Field(min_length=1, description=about, json_schema_extra=pattern)
    return create_model("Config", __config__=_STRICT, seed=(_Whole, seed), sweeps=(sweeps, described))


def _sweep_name(name: str) -> str:
    if not re.fullmatch(_NAME, name) or name.lower() == "columns":  # columns.csv has the columns of all sweeps
        raise ValueError("expected a letter, then letters, digits and underscores, at most 64 characters, not columns")
    return name


@cache
def sweep_model(name: str) -> type[BaseModel]:
    """The pydantic model of the sweeps of an experiment: the fields of its cell as lists, then trials and figures.

    An experiment with a precise metric also has `precision`, between 0 and 1, and `max_trials`, by default 100,000;
    `trials` is then optional, and the loader requires one of the two.
    """
    experiment = load_experiment(name)
    kinds, usual = cell_fields(experiment.cell), defaults(experiment.cell)
    lists = {key: _values_of(kind) for key, kind in kinds.items()}
    kind_of = Field(description="the kind of measurement; it decides which other keys the sweep has")
    fields: dict[str, Any] = {"experiment": (Literal[name], kind_of)}
    for key, kind in kinds.items():
        meaning = next((note.text for note in get_args(kind) if isinstance(note, Meaning)), None)
        about: dict[str, Any] = {"description": meaning}
        if key in usual:  # by a factory, because pydantic would look for a JSON form of the default itself
            about["default_factory"] = partial(tuple, [usual[key]])
            about["json_schema_extra"] = {"default": as_json(usual[key])}
        fields[key] = (lists[key], Field(**about))
    axes: dict[str, Any] = {axis: (lists[axis], None) for axis in axis_names(experiment.cell)}
    variant: Any = create_model(f"{name}_variant", __config__=_STRICT, **axes)
    about_variants = "grids that together make the sweep; each names the axes that it changes, and {} changes none"
    fields["variants"] = (list[variant], Field((), min_length=1, description=about_variants))
    number: Any = partial(Field, le=_MAX_TRIALS)
    least = None if experiment.has_precision else ...
    about_trials = "independent draws of each cell, or runs of each rule"
    fields["trials"] = (_Whole, number(least, ge=experiment.min_trials, description=about_trials))
    either: dict[str, Any] = {}
    if experiment.has_precision:
        about_precision = "relative standard error that decides the number of trials, in place of trials"
        fields["precision"] = (Annotated[float, _Spelled()], Field(None, gt=0, lt=1, description=about_precision))
        about_most = "largest number of trials of a cell, beside precision"
        fields["max_trials"] = (_Whole, number(100_000, ge=MIN_TRIALS, description=about_most))
        either["oneOf"] = [{"required": ["trials"]}, {"required": ["precision"]}]
        either["dependencies"] = {"max_trials": ["precision"]}
    if names := figures_of(name):
        about_figures = "figures to draw; without this key, those that suit the axes"
        fields["figures"] = (_values_of(Literal[tuple(names)]), Field((), description=about_figures))
    return create_model(name, __config__=_STRICT | ConfigDict(json_schema_extra=either), **fields)


def _values_of(kind: Any) -> Any:
    """One value of a type or a list of different ones, as a tuple; a range stands for whole numbers.

    Numbers are strict: 8.0, read as the number 8, is a whole number, but text such as "8" is none. A type that parses
    its own names appears in the JSON schema by its name, for which `experiments.config.schema` fills in the values.
    """
    item: Any = get_args(kind)[0] if get_origin(kind) is tuple else kind
    bare = get_args(item)[0] if get_origin(item) is Annotated else item
    if parse := getattr(bare, "parse", None):
        reader = PlainValidator(lambda value: parse("" if value is None else str(value)))
        item = Annotated[bare, reader, WithJsonSchema({"type": bare.__name__})]
    elif bare in (int, float):
        item = Annotated[item, _Spelled(ranges=bare is int)]
    spread = BeforeValidator(lambda value: tuple(with_range(value)) if bare is int else (value,))
    group: Any = Annotated[tuple[item, ...], spread]
    listed = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else (value,))
    return Annotated[tuple[group, ...], listed, AfterValidator(_joined), _OneOrMore()]


def _joined(groups: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    """The values of all groups; an error without any, and for the first with a value that an earlier one has."""
    if not groups:
        raise ValueError("expected at least one value")
    values: dict[Any, None] = {}
    for i, group in enumerate(groups):
        if values.keys() & group:
            refused = PydanticCustomError("refused", "expected each value once in the list")
            twice = InitErrorDetails(type=refused, loc=(i,), input=group[0])
            raise ValidationError.from_exception_data("list", [twice])
        values |= dict.fromkeys(group)
    return tuple(values)
