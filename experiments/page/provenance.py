"""The origin of the results: the state of each sweep's tables, and the verdict of the check."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.analysis.agreement import DisagreementError, agreement
from experiments.analysis.overview import check_table
from experiments.harness.config import Config
from experiments.harness.problems import counted
from experiments.harness.tables import TableError, is_current, read_sweep

SweepTables = Mapping[str, Mapping[str, pd.DataFrame]]  # by sweep and kind
_SHOWN_DIGITS = 12  # of a SHA-256


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


def provenance(config: Config, results: Path, tables: SweepTables, problems: Mapping[str, str]) -> dict[str, Any]:
    """Seed, versions, the state of every sweep, and the verdict of `check` on the tables.

    Args:
        config: the config of the results.
        results: the folder, for the versions and fingerprints in each SWEEP.json.
        tables, problems: from `sound_tables`.

    Returns:
        `versions` of the libraries that made the tables; `sweeps`, rows of a table with the fields below;
        `verdict` of the comparison of all sweeps with theory, and `alarm`, its message; both empty if there is none.
    """
    fields = ("sweep", "experiment", "trials", "table", "check", "measured by", "analysed by")
    versions: dict[str, str] = {}
    rows = []
    for sweep in config.sweeps:
        if sweep.name in problems:
            values = [sweep.name, sweep.experiment.name, "–", f"missing: {problems[sweep.name]}", "–", "–", "–"]
        else:
            made = json.loads((results / f"{sweep.name}.json").read_bytes())
            versions |= made["versions"]
            table = tables[sweep.name]["measured"]
            trials = sorted({*table["trials"]}) if "trials" in table else [sweep.trials]
            state = f"complete: {counted(len(table), 'row')} for {counted(len(sweep.cells()), 'cell')}"
            if not is_current(results, config, sweep):
                state += "; another version of the source or of the libraries made it"
            span = " to ".join(f"{n:,}" for n in dict.fromkeys((trials[0], trials[-1])))
            values = [sweep.name, sweep.experiment.name, span, state, agreement([sweep], tables).verdict() or "–"]
            values += [made["fingerprint"][part][:_SHOWN_DIGITS] for part in ("measuring", "tables")]
        rows.append(dict(zip(fields, values, strict=True)))
    whole = agreement([sweep for sweep in config.sweeps if sweep.name in tables], tables)
    try:
        whole.raise_alarm()
        alarm = ""
    except DisagreementError as error:
        alarm = str(error)
    return {
        "versions": versions,
        "sweeps": rows,
        "missing": list(problems),
        "verdict": "; ".join(filter(None, [whole.verdict(), whole.gaps_in_short()])),
        "alarm": alarm,
    }
