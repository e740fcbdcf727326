"""The page's section on where results come from: whether each sweep is complete, the versions that
made it, and the verdict of the command `check`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from experiments.config.errors import counted
from experiments.tables.all_results import AllResults
from experiments.tables.analyse import agreement
from experiments.tables.stored import Stored, read_sidecar
from experiments.tables.verdicts import Agreement

_PROVENANCE = ("sweep", "experiment", "trials", "table", "check", "measuring code")
_SHOWN_DIGITS = 12  # of its hash


class Provenance(NamedTuple):
    """The origin of results.

    Attributes:
        versions: of the libraries that made the tables; all of them if tables differ.
        sweeps: rows of a table, a row per sweep of the config.
        missing: the sweeps without a sound table.
        check: the comparison of all sweeps with theory.
    """

    versions: Mapping[str, str]
    sweeps: Sequence[Mapping[str, str]]
    missing: Sequence[str]
    check: Agreement


def provenance(all_results: AllResults) -> Provenance:
    """Seed, versions, the state of every sweep, and the verdict of `check` on the sound tables."""
    versions: dict[str, set[str]] = {}
    rows = []
    for sweep in all_results.config.sweeps:
        row = dict.fromkeys(_PROVENANCE, "–")
        row |= {"sweep": sweep.name, "experiment": sweep.experiment.name}
        rows.append(row)
        if sweep.name in all_results.unsound:
            row["table"] = f"missing: {all_results.unsound[sweep.name]}"
            continue
        made = read_sidecar(Stored(all_results.folder, sweep).sidecar)
        for name, version in made["versions"].items():
            versions.setdefault(name, set()).add(version)
        results = all_results[sweep.name]
        table = results.measured
        trials = table.get("trials", pd.Series(sweep.trials))
        ends = dict.fromkeys((trials.min(), trials.max()))
        row["trials"] = " to ".join(f"{n:,}" for n in ends)
        cells = counted(len(sweep.cells), "cell")
        state = f"complete: {counted(len(table), 'row')} for {cells}"
        row["table"] = "; ".join([state, *made.get("failed", [])])
        row["check"] = agreement([results]).verdict() or "–"
        row["measuring code"] = made["source"][:_SHOWN_DIGITS]
    listed = {name: " and ".join(sorted(some)) for name, some in versions.items()}
    return Provenance(listed, rows, [*all_results.unsound], agreement(all_results.values()))
