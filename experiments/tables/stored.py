"""Tables on disk: SWEEP.csv for people, derived/SWEEP/all_metrics.csv with the complete main table,
the derived tables, and SWEEP.json with their parameters and checksums.

Every CSV but SWEEP.csv begins with the columns of `IDENTITY`, which tables in memory lack, because
their sweep is known there. The JSON file vouches for the tables (the sidecar). A table is sound if the sidecar has
the parameters of the config and the checksum of the table. The sidecar also names the commit that
measured the values, and the hash of its measuring code.
"""

import hashlib
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.config.errors import TableError
from experiments.config.paths import SUMMARY, csv_name, sidecar_path
from experiments.config.sweep import Sweep
from experiments.measuring.columns import RULES, names
from experiments.measuring.experiment import MEASURED
from experiments.measuring.metric import FEW_DRAWS
from experiments.running.files import checksum, write_atomically
from experiments.running.fingerprint import commit, measuring_source, versions
from experiments.tables.changes import Change, update
from experiments.tables.layout import (
    IDENTITY,
    csv_bytes,
    summary_columns,
    with_intervals,
    written_columns,
)
from experiments.tables.products import keep_record, ledger, record

if TYPE_CHECKING:
    from experiments.tables.results import Results

Sidecar = dict[str, Any]  # the content of SWEEP.json


def write_sweep(
    results: Path, found: "Results", origin: Sidecar | None = None
) -> dict[Path, Change]:
    """Write the tables of a sweep, and last the JSON that vouches for them.

    A run that ends halfway thus leaves tables that do not match their JSON, and the next run writes
    them again. Tables that are equal to rounding stay. Derived tables that the sweep no longer has
    are removed, unless somebody changed them.

    Args:
        results: the folder.
        found: the results of the sweep.
        origin: of values measured earlier: what their sidecar has beside its checksums.
    """
    sweep = found.sweep
    same = is_measured_alike(results, sweep)
    sidecar = sidecar_path(results, sweep.name)
    values = (sweep.name, sweep.experiment.name, sweep.seed)
    identity = dict(zip(names(IDENTITY), values, strict=True))
    tables = {**found, MEASURED: found.measured[names(written_columns(sweep.experiment))]}
    contents = {
        kind: csv_bytes(table.assign(**identity)[[*identity, *table.columns]])
        for kind, table in tables.items()
    }
    contents[SUMMARY] = csv_bytes(found.measured[summary_columns(found)])
    paths = {kind: results / csv_name(sweep.name, kind) for kind in contents}
    before: Sidecar = {"sha256": {}}
    with suppress(TableError):
        before = read_sidecar(sidecar)
    changes = {path: update(path, contents[kind]) for kind, path in paths.items()}
    made = {
        **made_of(sweep),
        "measured_at": before.get("measured_at") if same else commit(),
        **(origin or {}),
        "sha256": {kind: checksum(path) for kind, path in paths.items()},
    }
    if found.failed:
        made["failed"] = [*map(str, found.failed)]
    content = (json.dumps(made, indent=1) + "\n").encode()
    if not sidecar.exists() or sidecar.read_bytes() != content:
        write_atomically(sidecar, content)
    for kind in sorted(set(before["sha256"]) - set(contents)):
        path = results / csv_name(sweep.name, kind)
        if checksum(path) == before["sha256"][kind]:
            path.unlink()  # the suite derived it from an earlier table, and nobody changed it since
            changes[path] = Change("removed", "the sweep no longer has it")
    keep_record(results, sidecar.name, record([sidecar]))
    return changes


def measured_part(content: bytes) -> bytes:
    r"""A main table without its exact columns and those of `IDENTITY`.

    >>> measured_part(b"seed,d_k,entropy,entropy_exact\n0,4,1.50,1.5\n")
    b'd_k,entropy\n4,1.50\n'
    """
    import pandas as pd

    table = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    others = (name for name in table if name not in names(IDENTITY))
    return csv_bytes(table[[name for name in others if not name.endswith("_exact")]])


def is_made(results: Path, sweep: Sweep) -> bool:
    """True if the source of the suite and the libraries of today wrote the tables of a sweep."""
    sidecar = sidecar_path(results, sweep.name)
    return ledger(results).get(sidecar.name) == record([sidecar])


def is_measured_alike(results: Path, sweep: Sweep) -> bool:
    """True if sound tables have values measured by the source and libraries of today."""
    sidecar = sidecar_path(results, sweep.name)
    return not why_stale(results, sweep) and (
        read_sidecar(sidecar).items() >= made_of(sweep).items()
    )


def why_stale(results: Path, sweep: Sweep) -> str:
    """The reason why the tables of a sweep are not whole or not those of this config; empty if they
    are.
    """
    try:
        sound_contents(results, sweep)
        made = read_sidecar(sidecar_path(results, sweep.name))
    except TableError as error:
        return str(error)
    return "; ".join(made.get("failed", []))


def made_of(sweep: Sweep) -> Sidecar:
    """Everything that determines the measured values of a sweep, as JSON values."""
    return {
        "sweep": sweep.name,
        "seed": sweep.seed,
        "parameters": sweep.parameters(),
        "source": measuring_source(sweep.experiment),
        "versions": versions("numpy", "scipy", "pandas"),
    }


def read_sweep(results: Path, sweep: Sweep) -> "Results":
    """The results of a sweep, without the columns of `IDENTITY`.

    Raises:
        TableError: a table is missing, altered, or from another config.
    """
    import pandas as pd

    from experiments.tables.results import Results

    text = {FEW_DRAWS: str, RULES: str}
    tables = {}
    contents = sound_contents(results, sweep)
    del contents[SUMMARY]
    for kind, content in contents.items():
        own = pd.read_csv(
            io.BytesIO(content), dtype=text, usecols=lambda name: name not in names(IDENTITY)
        )
        # A table as read has one block of memory per column; pandas warns if columns are added to
        # more than a hundred.
        table = own.copy()
        # An empty field is a list of no metrics there, elsewhere a missing number.
        tables[kind] = table.fillna({FEW_DRAWS: ""})
    expected = names(written_columns(sweep.experiment))
    if others := sorted({*tables[MEASURED]} ^ {*expected}):
        path = results / csv_name(sweep.name, MEASURED)
        raise TableError(
            f"{path} is of an earlier version, which differs in {others[0]}; make all writes it"
        )
    tables[MEASURED] = with_intervals(sweep.experiment, tables[MEASURED])
    return Results(sweep, tables)


def sound_contents(results: Path, sweep: Sweep) -> dict[str, bytes]:
    """The bytes of a sweep's tables by kind, after a check of their config and their checksums."""
    sidecar = read_sidecar(sidecar_path(results, sweep.name))
    got = {"seed": sidecar.get("seed"), **sidecar["parameters"]}
    expected = {"seed": sweep.seed, **sweep.parameters()}
    for key in {**expected, **got}:
        if got.get(key) != expected.get(key):
            was = f"got {key} {json.dumps(got.get(key))}, expected {json.dumps(expected.get(key))}"
            raise TableError(f"{results / sweep.name}.csv is from another config: {was}")
    contents = {}
    for kind, sha256 in sidecar["sha256"].items():
        path = results / csv_name(sweep.name, kind)
        try:
            contents[kind] = path.read_bytes()
        except OSError as error:
            raise TableError(f"{path}: {error.strerror}") from None
        found = hashlib.sha256(contents[kind]).hexdigest()
        if found != sha256:
            raise TableError(
                f"{path} has been altered: got SHA-256 {found[:12]}..., expected {sha256[:12]}..."
            )
    return contents


def read_sidecar(path: Path) -> Sidecar:
    """The content of SWEEP.json; `TableError` if it is missing or invalid."""
    try:
        sidecar: Sidecar = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise TableError(
            f"{path.with_suffix('.csv')} is missing or incomplete: found no {path.name}"
        ) from None
    except (OSError, ValueError) as error:
        raise TableError(f"{path}: cannot read: {error}") from None
    is_whole = isinstance(sidecar, dict) and {"parameters", "sha256"} <= sidecar.keys()
    if is_whole and not {MEASURED, SUMMARY} <= sidecar["sha256"].keys():
        lacks = f"expected checksums of {MEASURED} and {SUMMARY}"
        raise TableError(f"{path} is of an earlier version: {lacks}, got {[*sidecar['sha256']]}")
    if not is_whole or not all(map(str.isidentifier, sidecar["sha256"])):  # kinds become paths
        raise TableError(f"{path}: expected the parameters and checksums of a sweep")
    return sidecar
