"""Tables on disk: SWEEP.csv beside SWEEP.json, which says what it is a table of and vouches for its bytes."""

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy

from experiments.harness.compare import how_alike
from experiments.harness.config import Config
from experiments.harness.grid import Sweep

DIGITS = "%.10g"


class TableError(Exception):
    """A table that is missing, incomplete, altered, or not of this config."""


def write_sweep(
    results: Path, config: Config, sweep: Sweep, table: pd.DataFrame, derived: Mapping[str, pd.DataFrame]
) -> dict[Path, str]:
    """Write the table of a sweep, the tables derived from it, and last the JSON that vouches for them.

    Returns:
        For each table's file, how it compares with the one that was there before.
    """
    frames = {"measured": table, **derived}
    contents = {kind: csv_bytes(frame) for kind, frame in frames.items()}
    paths = {kind: results / csv_name(sweep.name, kind) for kind in contents}
    alike = {path: how_alike(_old(path), contents[kind]) for kind, path in paths.items()}
    for kind in _kinds_before(results, sweep.name) - set(contents):
        (results / csv_name(sweep.name, kind)).unlink(missing_ok=True)  # derived from an earlier table, not from this
    for kind, path in paths.items():
        write_whole(path, contents[kind])
    record = {
        "sweep": sweep.name,
        "seed": config.seed,
        "parameters": sweep.parameters(),
        "versions": {"numpy": np.__version__, "scipy": scipy.__version__},
        "sha256": {kind: hashlib.sha256(content).hexdigest() for kind, content in contents.items()},
    }
    write_whole(results / f"{sweep.name}.json", (json.dumps(record, indent=1) + "\n").encode())
    return alike


def read_sweep(results: Path, config: Config, sweep: Sweep) -> dict[str, pd.DataFrame]:
    """The table of a sweep as `measured`, and the tables derived from it; `TableError` if one cannot be trusted."""
    record = _read_record(results / f"{sweep.name}.json")
    got, expected = record["parameters"], sweep.parameters()
    differing = [key for key in {**expected, **got} if got.get(key) != expected.get(key)]
    if record.get("seed") != config.seed:
        differing, got, expected = ["seed"], record, {"seed": config.seed}
    if differing:
        key = differing[0]
        was = f"got {key} {json.dumps(got.get(key))}, expected {json.dumps(expected.get(key))}"
        raise TableError(f"{results / sweep.name}.csv was not measured with this config: {was}")
    tables = {}
    for kind, checksum in record["sha256"].items():
        path = results / csv_name(sweep.name, kind)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise TableError(f"{path}: {error.strerror}") from None
        got = hashlib.sha256(content).hexdigest()
        if got != checksum:
            raise TableError(f"{path} was altered: got SHA-256 {got[:12]}..., expected {checksum[:12]}...")
        tables[kind] = pd.read_csv(io.BytesIO(content))
    return tables


def csv_name(sweep: str, kind: str) -> str:
    """The file of a table: SWEEP.csv of what was measured, SWEEP-KIND.csv of what is derived from it."""
    return f"{sweep}.csv" if kind == "measured" else f"{sweep}-{kind}.csv"


def csv_bytes(table: pd.DataFrame) -> bytes:
    """A table as CSV, floats with ten significant digits, missing values empty."""
    text: str = table.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    return text.encode()


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, f"cannot be written: {error.strerror}", str(path)) from None


def _old(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


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
