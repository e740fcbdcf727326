"""Read and check a config file. All faults of one kind (syntax, then keys and values, then
combinations) are reported at once, each with its line and column.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from experiments.config.errors import UsageError
from experiments.config.messages import note
from experiments.config.models import Value, config_model
from experiments.config.paths import SHIPPED_CONFIGS
from experiments.config.rules import block_problems, first_problem
from experiments.config.sweep import Sweep, Values
from experiments.config.yaml_text import Document, Fault
from experiments.kinds.figures import default_figures
from experiments.measuring.columns import cell_fields
from experiments.measuring.experiment import load_experiment
from sdpa._names import did_you_mean


@dataclass(frozen=True)
class Config:
    """The sweeps of a config, at least one, in the order of the file."""

    sweeps: tuple[Sweep, ...]
    text: str = ""  # the file as read; empty for a config made in code
    path: Path = Path()  # as given

    @property
    def seed(self) -> int:
        """The root seed of all draws, from 0 to 2^128 - 1."""
        return self.sweeps[0].seed


class ConfigError(UsageError):
    """An invalid config; one line per fault, in the order of their positions."""


def load_config(path: Path) -> Config:
    """Read a config and all its sweeps.

    Raises:
        ConfigError: the file is unreadable or has faults. The message lists all of them, except that
            a syntax error hides the others, an unknown key hides missing ones of its mapping, and a
            wrong value hides that a sweep is too large.
    """
    try:
        # Bytes that are not UTF-8 become characters that YAML forbids.
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        document = Document(text)
    except OSError as error:
        meant = f"{path}.yaml"
        hint = did_you_mean(meant if Path(meant).exists() else None)
        raise ConfigError(f"{path}: cannot read: {error.strerror}{hint}") from None
    except Fault as fault:
        raise _error(path, [fault]) from None
    checked = _checked(document)
    if document.faults:
        raise _error(path, document.faults)
    is_shipped = path.resolve() in SHIPPED_CONFIGS
    sweeps = []
    for name, block in checked.sweeps.items():
        experiment = load_experiment(block.experiment)
        given = dict(block)
        precision = given.get("precision")
        sweep = Sweep(
            name,
            experiment,
            values={key: given[key] for key in cell_fields(experiment.cell)},
            trials=block.max_trials if precision else block.trials,
            figures=given.get("figures") or default_figures(experiment.name),
            seed=checked.seed,
            precision=precision,
            variants=tuple(map(_given, block.variants)),
            is_shipped=is_shipped,
        )
        if problem := first_problem(sweep):
            key, message = problem
            if not (block.variants or block.model_fields_set.issuperset(key)):
                message += "; the sweep leaves it at its default"
            document.fault(("sweeps", name, *key), message)
        sweeps.append(sweep)
    if document.faults:
        raise _error(path, document.faults)
    return Config(tuple(sweeps), text, path)


def _given(variant: BaseModel) -> Values:
    """The keys that a variant names, with their values, in the order of the cell."""
    return {key: values for key, values in variant if key in variant.model_fields_set}


def _error(path: Path, faults: list[Fault]) -> ConfigError:
    """FILE:LINE:COLUMN: key: got, expected; characters that do not print appear as escapes."""
    lines = []
    for fault in sorted(faults, key=lambda fault: fault.mark.index):
        line = f"{path}:{fault.mark.line + 1}:{fault.mark.column + 1}: {fault}"
        lines.append("".join(c if c.isprintable() else repr(c)[1:-1] for c in line))
    return ConfigError("\n".join(lines))


def _checked(document: Document) -> Value:
    """The model of a document, which notes the faults of keys and blocks."""
    checked = None
    try:
        checked = config_model().model_validate(document.value)
    except ValidationError as error:
        details = error.errors(include_url=False)
        unknown = {detail["loc"][:-1] for detail in details if detail["type"] == "extra_forbidden"}
        for detail in details:
            # A key that is missing beside an unknown one is probably misspelt.
            if detail["type"] != "missing" or detail["loc"][:-1] not in unknown:
                note(document, detail)
    blocks = document.value.get("sweeps")
    if isinstance(blocks, dict):
        for path, message in block_problems(blocks):
            document.fault(("sweeps", *path), message, is_key=True)
    return checked
