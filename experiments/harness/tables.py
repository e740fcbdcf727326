"""Tables on disk: SWEEP.csv beside SWEEP.json, which says what it is a table of and vouches for its bytes.

What is derived from a sweep's table is SWEEP-KIND.csv; its verdicts are rows of the one verdicts.csv of all sweeps.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness.config import Config
from experiments.harness.files import write_whole
from experiments.harness.fingerprint import analysis_fingerprint, measuring_fingerprint, versions
from experiments.harness.grid import Sweep
from experiments.harness.paths import VERDICTS

if TYPE_CHECKING:
    import pandas as pd  # what is there is checked without it

DIGITS = "%.10g"


class TableError(Exception):
    """A table that is missing, incomplete, altered, or not of this config."""


def write_sweep(results: Path, config: Config, sweep: Sweep, tables: "Mapping[str, pd.DataFrame]") -> dict[Path, str]:
    """Write the table of a sweep (`measured`), what is derived from it, and last the JSON that vouches for them.

    Returns:
        For each table's file, how it compares with the one that was there before.
    """
    from experiments.harness.compare import how_alike

    contents = {kind: csv_bytes(frame) for kind, frame in tables.items()}
    paths = {kind: results / csv_name(sweep.name, kind) for kind in contents}
    alike = {path: how_alike(_old(path, sweep.name), contents[kind]) for kind, path in paths.items()}
    for kind in _kinds_before(results, sweep.name) - {*contents, VERDICTS}:
        (results / csv_name(sweep.name, kind)).unlink(missing_ok=True)  # derived from an earlier table, not from this
    for kind, path in paths.items():
        write_whole(path, _among_others(path, config, sweep, contents[kind]) if kind == VERDICTS else contents[kind])
    record = {
        **_provenance(config, sweep),
        "sha256": {kind: hashlib.sha256(content).hexdigest() for kind, content in contents.items()},
    }
    write_whole(results / f"{sweep.name}.json", (json.dumps(record, indent=1) + "\n").encode())
    return alike


def is_current(results: Path, config: Config, sweep: Sweep) -> bool:
    """Whether the tables of a sweep are sound, of this config, and made by this source and these libraries."""
    try:
        _contents(results, config, sweep)
        record = _read_record(results / f"{sweep.name}.json")
    except TableError:
        return False
    return record | _provenance(config, sweep) == record


def _provenance(config: Config, sweep: Sweep) -> dict[str, Any]:
    """What decides the tables of a sweep."""
    fingerprint = {"measuring": measuring_fingerprint(sweep.experiment), "analysis": analysis_fingerprint()}
    return {
        "sweep": sweep.name,
        "seed": config.seed,
        "parameters": sweep.parameters(),
        "fingerprint": fingerprint,
        "versions": versions(),
    }


def read_sweep(results: Path, config: Config, sweep: Sweep) -> "dict[str, pd.DataFrame]":
    """The table of a sweep as `measured`, and the tables derived from it; `TableError` if one cannot be trusted."""
    import pandas as pd

    return {kind: pd.read_csv(io.BytesIO(content)) for kind, content in _contents(results, config, sweep).items()}


def check_sound(results: Path, config: Config, sweep: Sweep) -> None:
    """Raise `TableError` if a table of a sweep cannot be trusted."""
    _contents(results, config, sweep)


def _contents(results: Path, config: Config, sweep: Sweep) -> dict[str, bytes]:
    """The bytes of a sweep's tables, which are of this config and as they were written."""
    record = _read_record(results / f"{sweep.name}.json")
    got, expected = record["parameters"], sweep.parameters()
    differing = [key for key in {**expected, **got} if got.get(key) != expected.get(key)]
    if record.get("seed") != config.seed:
        differing, got, expected = ["seed"], record, {"seed": config.seed}
    if differing:
        key = differing[0]
        was = f"got {key} {json.dumps(got.get(key))}, expected {json.dumps(expected.get(key))}"
        raise TableError(f"{results / sweep.name}.csv was not measured with this config: {was}")
    contents = {}
    for kind, checksum in record["sha256"].items():
        path = results / csv_name(sweep.name, kind)
        try:
            content = _own_rows(path, sweep.name)
        except OSError as error:
            raise TableError(f"{path}: {error.strerror}") from None
        got = hashlib.sha256(content).hexdigest()
        if got != checksum:
            raise TableError(f"{path} was altered: got SHA-256 {got[:12]}..., expected {checksum[:12]}...")
        contents[kind] = content
    return contents


def csv_name(sweep: str, kind: str) -> str:
    """The file of a table: SWEEP.csv of what was measured, verdicts.csv for all sweeps, else SWEEP-KIND.csv."""
    return {"measured": f"{sweep}.csv", VERDICTS: f"{VERDICTS}.csv"}.get(kind, f"{sweep}-{kind}.csv")


def csv_bytes(table: "pd.DataFrame") -> bytes:
    """A table as CSV, floats with ten significant digits, missing values empty."""
    text: str = table.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    return text.encode()


def _own_rows(path: Path, sweep: str) -> bytes:
    """What a file holds of a sweep: all of it, but of the file that sweeps share the header and the sweep's rows."""
    content = path.read_bytes()
    if path.name != csv_name(sweep, VERDICTS):
        return content
    header, *rows = content.splitlines(keepends=True) or [b""]
    return header + b"".join(row for row in rows if row.startswith(f"{sweep},".encode()))


def _among_others(path: Path, config: Config, sweep: Sweep, content: bytes) -> bytes:
    """The shared file with the rows of one sweep anew, those of the config's others as they are, in its order."""
    header, *_ = content.splitlines(keepends=True)
    rows = {other.name: _own_rows(path, other.name) for other in config.sweeps} if path.exists() else {}
    rows = {name: old.removeprefix(header) for name, old in rows.items() if old.startswith(header)}
    rows[sweep.name] = content.removeprefix(header)
    return header + b"".join(rows.get(other.name, b"") for other in config.sweeps)


def _old(path: Path, sweep: str) -> bytes | None:
    """What was there of a sweep before; nothing, if the file that sweeps share has no row of it."""
    content = _own_rows(path, sweep) if path.exists() else None
    shared = path.name == csv_name(sweep, VERDICTS)
    return None if shared and content and content.count(b"\n") == 1 else content


def _kinds_before(results: Path, sweep: str) -> set[str]:
    """What an earlier run of a sweep derived, by name."""
    try:
        return {kind for kind in _read_record(results / f"{sweep}.json")["sha256"] if kind.isidentifier()}
    except TableError:
        return set()


def _read_record(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise TableError(f"{path.with_suffix('.csv')} is missing or incomplete: {path.name} is not there") from None
    except (OSError, ValueError) as error:
        raise TableError(f"{path} cannot be read: {error}") from None
    record: dict[str, Any] = content if isinstance(content, dict) else {}
    checksums = record.get("sha256")
    if not isinstance(record.get("parameters"), dict) or not isinstance(checksums, dict) or "measured" not in checksums:
        raise TableError(f"{path}: expected the record of a sweep, with its parameters and checksums")
    return record
