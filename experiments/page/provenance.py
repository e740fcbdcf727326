"""The origin of the results: the state of each sweep's tables, and the verdict of the check."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.analysis.agreement import DisagreementError, agreement
from experiments.analysis.check import check_table
from experiments.harness.config import Config
from experiments.harness.grid import Sweep
from experiments.harness.tables import TableError, is_current, read_sweep
from experiments.harness.wording import counted

_SHOWN_DIGITS = 12  # of a SHA-256


@dataclass(frozen=True)
class SweepState:
    """One sweep: whether its tables are whole, and the fingerprints of the source that made them.

    Attributes:
        name, experiment: of the sweep.
        trials: per cell, as a number or a range in words; empty without tables.
        found: the state of its tables, or their problem, in words.
        whole: True if the page shows it.
        agreement: the summary of its comparison with theory.
        measuring, tables: the first 12 digits of the fingerprints of the code.
    """

    name: str
    experiment: str
    trials: str
    found: str
    whole: bool
    agreement: str = ""
    measuring: str = ""
    tables: str = ""


@dataclass(frozen=True)
class Provenance:
    """The page's statement of its own origin.

    Attributes:
        seed: the root seed.
        versions: of the libraries that made the tables, by name.
        sweeps: in the order of the config.
        verdict: the summary of the comparison of all sweeps with theory.
        alarm: the message of the check if it raises its alarm; otherwise empty.
    """

    seed: int
    versions: Mapping[str, str]
    sweeps: tuple[SweepState, ...]
    verdict: str
    alarm: str

    @property
    def missing(self) -> tuple[SweepState, ...]:
        """The sweeps without a sound table."""
        return tuple(sweep for sweep in self.sweeps if not sweep.whole)


def sound_tables(
    config: Config, results: Path, *, incomplete: bool
) -> tuple[dict[str, dict[str, pd.DataFrame]], dict[str, str]]:
    """The sound and whole tables of every sweep, and the problems of all others.

    Args:
        config: the config of the results.
        results: the folder.
        incomplete: allow problems.

    Returns:
        Tables by sweep and kind; and a message for each sweep without sound tables.

    Raises:
        TableError: there is a problem, and `incomplete` is false.
    """
    tables, problems = {}, {}
    for sweep in config.sweeps:
        try:
            read = read_sweep(results, config, sweep)
            check_table(sweep, read)
            tables[sweep.name] = read
        except TableError as error:
            problems[sweep.name] = str(error)
    if problems and not incomplete:
        remedy = (
            "to write a page marked as incomplete, with the same --config and --results:"
            " .venv/bin/python -m experiments page --incomplete"
        )
        raise TableError("\n".join([*problems.values(), remedy]))
    return tables, problems


def provenance(
    config: Config, results: Path, tables: Mapping[str, Mapping[str, pd.DataFrame]], problems: Mapping[str, str]
) -> Provenance:
    """Seed, versions, the state of every sweep, and the verdict of `check` on the tables.

    Args:
        config: the config of the results.
        results: the folder, for the versions and fingerprints in each SWEEP.json.
        tables, problems: from `sound_tables`.
    """
    states: list[SweepState] = []
    versions: dict[str, str] = {}
    for sweep in config.sweeps:
        if sweep.name in problems:
            states.append(SweepState(sweep.name, sweep.experiment.name, "", problems[sweep.name], whole=False))
            continue
        made = json.loads((results / f"{sweep.name}.json").read_bytes())
        versions |= made["versions"]
        states.append(_state(config, results, sweep, tables, made["fingerprint"]))
    whole = agreement([sweep for sweep in config.sweeps if sweep.name in tables], tables)
    try:
        whole.raise_alarm()
        alarm = ""
    except DisagreementError as error:
        alarm = str(error)
    return Provenance(config.seed, versions, tuple(states), whole.summary(), alarm)


def _state(
    config: Config,
    results: Path,
    sweep: Sweep,
    tables: Mapping[str, Mapping[str, pd.DataFrame]],
    fingerprint: Mapping[str, str],
) -> SweepState:
    """The state of a sweep with sound tables, which may come from another version of the source."""
    table = tables[sweep.name]["measured"]
    rows, cells = len(table), len(sweep.cells())
    trials = sorted({*table["trials"]}) if "trials" in table else [sweep.trials]
    found = f"complete: {counted(rows, 'row')} for {counted(cells, 'cell')}"
    if not is_current(results, config, sweep):
        found += "; another version of the source or of the libraries made it"
    return SweepState(
        sweep.name,
        sweep.experiment.name,
        " to ".join(f"{count:,}" for count in dict.fromkeys((trials[0], trials[-1]))),
        found,
        whole=True,
        agreement=agreement([sweep], tables).summary(),
        measuring=fingerprint["measuring"][:_SHOWN_DIGITS],
        tables=fingerprint["tables"][:_SHOWN_DIGITS],
    )
