"""The config file, read and checked: every fault at once, each with its line and column."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import Experiment, load_experiment
from experiments.harness.figures import default_figures, figures_of
from experiments.harness.grid import Sweep, cell_fields, defaults, describe
from experiments.harness.yaml_text import Document, Fault, KeyPath, YamlError, dotted
from experiments.statistics.intervals import MIN_TRIALS

RESERVED = (
    "columns",
    "calibration",
    "cost",
    "suite",
    "config",
    "manifest",
    "benchmarks",
    "figures",
    "index",
)
_SWEEP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_MOST_CELLS = 100_000
_MOST_ROWS = 200_000
_MOST_CHUNKS = 500_000  # days of work, and a record each
_MOST_MEMORY = 4 * 2**30
_MOST_TRIALS = 10**12
_SEED = TypeAdapter(Annotated[int, Field(strict=True), Ge(0), Le(2**128 - 1)])


@dataclass(frozen=True)
class Config:
    """A whole config: the root seed, the sweeps in the order in which they are written, and the text of the file."""

    seed: int
    sweeps: tuple[Sweep, ...]
    text: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of what is swept and drawn; comments and layout of the file do not count."""
        swept = [[sweep.name, sweep.parameters(), sweep.figures] for sweep in self.sweeps]
        return hashlib.sha256(json.dumps([self.seed, swept]).encode()).hexdigest()


class ConfigError(Exception):
    """A config that is refused; one line per fault, as FILE:LINE:COLUMN: what, got, expected."""

    def __init__(self, path: Path, faults: list[Fault]) -> None:
        ordered = sorted(faults, key=lambda fault: (fault.line, fault.column))
        lines = (f"{path}:{fault.line}:{fault.column}: {fault.message}" for fault in ordered)
        super().__init__("\n".join("".join(c if c.isprintable() else repr(c)[1:-1] for c in line) for line in lines))


def load_config(path: Path) -> Config:
    """Read a config, or raise `ConfigError` with every fault in it (a YAML syntax error alone)."""
    try:
        text = path.read_text(encoding="utf-8")
        document = Document(text)
    except OSError as error:
        raise ConfigError(path, [Fault(1, 1, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        before = error.object[: error.start].split(b"\n")
        fault = Fault(len(before), len(before[-1]) + 1, "got bytes that are not UTF-8, expected text")
        raise ConfigError(path, [fault]) from None
    except YamlError as error:
        raise ConfigError(path, error.faults) from None
    reader = _Reader(document)
    config = reader.config()
    if reader.faults:
        raise ConfigError(path, reader.faults)
    return replace(config, text=text)


class _Reader:
    """Walks the document once, collecting sweeps and faults."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.faults = list(document.faults)

    def config(self) -> Config:
        """The config as far as it can be read; to be used only if no fault was found."""
        value = self.document.value
        if not isinstance(value, dict):
            self.fault((), f"got {_shown(value)}, expected the keys seed and sweeps")
            return Config(0, ())
        self.keys((), value, ("seed", "sweeps"))
        seed = self.validated(_SEED, ("seed",), value["seed"]) if "seed" in value else None
        bodies = value.get("sweeps", {})
        if not isinstance(bodies, dict) or ("sweeps" in value and not bodies):
            self.fault(("sweeps",), f"got {_shown(bodies)}, expected a block for each sweep")
            bodies = {}
        sweeps = [self.sweep(name, body, tuple(bodies)) for name, body in bodies.items()]
        return Config(seed or 0, tuple(sweep for sweep in sweeps if sweep))

    def sweep(self, name: str, body: Any, names: tuple[str, ...]) -> Sweep | None:
        path: KeyPath = ("sweeps", name)
        if problem := _name_problem(name, names):
            self.fault(path, f"got the sweep name {name[:80]!r}, {problem}", of_key=True)
        if not isinstance(body, dict):
            self.fault(path, f"got {_shown(body)}, expected the keys of a sweep")
            return None
        experiment = body.get("experiment")
        if experiment not in experiment_names():
            got = f"got {_shown(experiment)}, " if "experiment" in body else "missing key experiment, "
            self.fault((*path, "experiment"), f"{got}expected one of {', '.join(experiment_names())}")
            for meant in get_close_matches(str(experiment), experiment_names(), n=1):
                self.resolved(name, meant, body)  # for the faults in its other keys
            return None
        return self.resolved(name, experiment, body)

    def resolved(self, name: str, experiment: str, body: dict[str, Any]) -> Sweep | None:
        path: KeyPath = ("sweeps", name)
        loaded = load_experiment(experiment)
        model = _sweep_model(loaded, figures_of(experiment))
        required = [key for key, field in model.model_fields.items() if field.is_required()]
        optional = [key for key in model.model_fields if key not in required]
        self.keys(path, body, ("experiment", *required), optional)
        known = {key: value for key, value in body.items() if key in model.model_fields}
        if "precision" in model.model_fields:
            self.trials_or_precision(path, known)
        checked = self.validated(TypeAdapter(model), path, known)
        if checked is None or self.faults:
            return None
        values = {key: getattr(checked, key) for key in cell_fields(loaded.cell)}
        precision = getattr(checked, "precision", None)
        trials = checked.max_trials if precision else checked.trials
        figures = checked.figures or default_figures(experiment, values)
        sweep = Sweep(name, experiment, values, trials, figures, precision)
        if problem := _size_problem(sweep, loaded):
            self.fault(path, problem, of_key=True)
            return None
        return sweep

    def trials_or_precision(self, path: KeyPath, known: dict[str, Any]) -> None:
        """A sweep says how many trials it takes, or which precision, with max_trials if it wants."""
        if "precision" in known and "trials" in known:
            self.fault((*path, "precision"), "got it beside trials, expected one of the two", of_key=True)
        if "precision" not in known and "max_trials" in known:
            self.fault((*path, "max_trials"), "got it without precision, expected it beside one", of_key=True)
        if "precision" not in known and "trials" not in known:
            self.fault((*path, "trials"), "missing key, expected it here")

    def keys(self, path: KeyPath, value: dict[str, Any], required: Sequence[str], optional: Sequence[str] = ()) -> None:
        expected = [*required, *optional]
        for key in value:
            if key not in expected:
                close = get_close_matches(key, expected, n=1)
                hint = f"; did you mean {close[0]}?" if close else ""
                here = f"{dotted(path)}: " if path else ""
                message = f"{here}got the unknown key {key[:80]!r}, expected one of {', '.join(expected)}{hint}"
                self.fault((*path, key), message, of_key=True, named=False)
        for key in required:
            if key not in value:
                self.fault((*path, key), "missing key, expected it here")

    def validated(self, adapter: TypeAdapter[Any], path: KeyPath, value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                if detail["type"] != "missing":  # said by `keys`
                    self.fault((*path, *detail["loc"]), self.message((*path, *detail["loc"]), detail))
            return None

    def message(self, path: KeyPath, detail: ErrorDetails) -> str:
        got = self.document.written(path) or _shown(detail["input"])
        return f"got {got[:80]}, {_expected(detail)}"

    def fault(self, path: KeyPath, message: str, *, of_key: bool = False, named: bool = True) -> None:
        place = self.document.place(path, of_key=of_key)
        self.faults.append(Fault(*place, f"{self.document.name(path)}: {message}" if named and path else message))


def _name_problem(name: str, names: tuple[str, ...]) -> str | None:
    if not _SWEEP_NAME.fullmatch(name):
        return "expected a letter, then letters, digits and underscores, at most 64"
    if name.lower() in RESERVED:
        return f"expected none of the reserved {', '.join(RESERVED)}"
    same = [other for other in names if other != name and other.lower() == name.lower()]
    return f"expected names that differ by more than case (also {same[0]!r})" if same else None


def _size_problem(sweep: Sweep, experiment: Experiment) -> str | None:
    cells = 1
    for name in sweep.values:
        cells *= len(sweep.values[name])
    if cells > _MOST_CELLS:
        return f"got a grid of {cells} cells and scalings, expected at most {_MOST_CELLS}"
    largest = max(sweep.cells(), key=experiment.memory)
    if experiment.memory(largest) > _MOST_MEMORY:
        needed = experiment.memory(largest) / 2**30
        return f"got the cell {describe(largest)}, which needs {needed:.3g} GiB per worker, expected at most 4 GiB"
    chunks = sum(math.ceil(sweep.trials / experiment.chunk_trials(cell)) for cell in sweep.cells())
    if chunks > _MOST_CHUNKS:
        return f"got {sweep.trials} trials in {chunks} chunks of work, expected at most {_MOST_CHUNKS}"
    rows = sum(experiment.table_rows(cell, sweep.trials) for cell in sweep.cells())
    if rows > _MOST_ROWS:
        return f"got a table of {rows} rows, expected at most {_MOST_ROWS}"
    return None


def _sweep_model(experiment: Experiment, figures: Sequence[str]) -> type[BaseModel]:
    """The pydantic model of a sweep: the fields of the experiment's cell as lists, then trials and figures."""
    fields: dict[str, Any] = {}
    left_out = defaults(experiment.cell)
    for key, kind in cell_fields(experiment.cell).items():
        item = get_args(kind)[0] if get_origin(kind) is tuple else kind
        fields[key] = (_list_of(_strict(item)), (left_out[key],) if key in left_out else ...)
    trials = Annotated[int, Field(strict=True), Ge(experiment.min_trials), Le(_MOST_TRIALS)]
    if experiment.relative_error is None:
        fields["trials"] = (trials, ...)
    else:
        fields["trials"] = (trials, None)
        fields["precision"] = (Annotated[float, Field(strict=True), Gt(0), Lt(1)], None)
        fields["max_trials"] = (Annotated[int, Field(strict=True), Ge(MIN_TRIALS), Le(_MOST_TRIALS)], 100_000)
    fields["figures"] = (_list_of(_one_of(figures)), None)
    return create_model("SweepBlock", __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)


def _list_of(item: Any) -> Any:
    """A list of one or more different items; a single item stands for a list of one."""
    adapter = TypeAdapter(item)

    def validate(value: Any) -> tuple[Any, ...]:
        if value == []:
            raise _refused("expected at least one value")
        items: dict[Any, None] = {}
        faults: list[InitErrorDetails] = []
        for i, given in enumerate(value if isinstance(value, list) else [value]):
            try:
                parsed = adapter.validate_python(given)
            except ValidationError as error:
                expected = [_expected(detail) for detail in error.errors(include_url=False)]
            else:
                expected = ["expected it once in the list"] if parsed in items else []
                items[parsed] = None
            faults += [InitErrorDetails(type=_refused(text), loc=(i,), input=given) for text in expected]
        if faults:
            # Raised in one piece, so that one faulty value hides no other.
            raise ValidationError.from_exception_data("list", faults)
        return tuple(items)

    return Annotated[Any, PlainValidator(validate)]


def _refused(expected: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{expected}", {"expected": expected})


def _expected(detail: ErrorDetails) -> str:
    """What was expected, of pydantic's own faults and of ours."""
    return detail["msg"].replace("Input should be ", "expected ").replace("valid integer", "whole number")


def _strict(kind: Any) -> Any:
    """A type whose values are read from YAML: strict numbers, and types that parse their own names."""
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    parse = getattr(bare, "parse", None)
    return Annotated[kind, PlainValidator(_parsed(parse))] if parse else Annotated[kind, Field(strict=True)]


def _parsed(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    def validate(value: Any) -> Any:
        try:
            return parse(value if isinstance(value, str) else str(value))
        except ValueError as error:
            raise _refused(str(error).split(", got ")[0]) from None

    return validate


def _one_of(names: Sequence[str]) -> Any:
    def validate(value: Any) -> str:
        if value not in names:
            raise _refused(f"expected one of {', '.join(names)}")
        return str(value)

    return Annotated[str, PlainValidator(validate)]


def _shown(value: Any) -> str:
    """A value as it is named in messages, short whatever it is."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return repr(value)[:80]
