"""Tables on disk: SWEEP.csv for people, derived/SWEEP/all_metrics.csv with the complete main table,
the derived tables, and SWEEP.json with their parameters and checksums.

Every CSV but SWEEP.csv begins with the columns of `IDENTITY`, which tables in memory lack, because
their sweep is known there. The JSON file vouches for the tables (the sidecar). A table is sound if the sidecar has
the parameters of the config and the checksum of the table. The sidecar also has the hash of the code
that measured the values, and neither a time nor a commit: equal tables have equal sidecars.
"""

import hashlib
import io
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.config.errors import TableError
from experiments.config.paths import ALL_METRICS, DERIVED, SUMMARY
from experiments.config.sweep import Sweep
from experiments.kinds.figures import SUMMARIES
from experiments.measuring.columns import RULES, names
from experiments.measuring.experiment import MEASURED
from experiments.measuring.metric import FEW_DRAWS
from experiments.running.files import checksum, write_atomically
from experiments.running.fingerprint import measuring_source, tables_source, versions
from experiments.tables.changes import Change, update
from experiments.tables.layout import (
    IDENTITY,
    csv_contents,
)
from experiments.tables.products import Product, keep_record

if TYPE_CHECKING:
    from experiments.tables.results import Results

Sidecar = dict[str, Any]  # the content of SWEEP.json


def csv_name(sweep: str, kind: str) -> str:
    """The path of a table below a results folder: SWEEP.csv for the summary, else
    derived/SWEEP/KIND.csv; the main table is ALL_METRICS there.

    >>> csv_name("dimension", "summary"), csv_name("dimension", "measured")
    ('dimension.csv', 'derived/dimension/all_metrics.csv')
    """
    if kind == SUMMARY:
        return f"{sweep}.csv"
    return f"{DERIVED}/{sweep}/{ALL_METRICS if kind == MEASURED else kind}.csv"


def sidecar_path(folder: Path, sweep: str) -> Path:
    """The file beside a sweep's table, with its parameters, checksums and origin.

    >>> sidecar_path(Path("results"), "dimension").as_posix()
    'results/dimension.json'
    """
    return folder / f"{sweep}.json"


@dataclass(frozen=True)
class Stored:
    """The files of a sweep below a results folder."""

    folder: Path
    sweep: Sweep

    @property
    def sidecar(self) -> Path:
        """The path of SWEEP.json."""
        return sidecar_path(self.folder, self.sweep.name)

    def csv(self, kind: str) -> Path:
        """The path of a table."""
        return self.folder / csv_name(self.sweep.name, kind)

    def paths(self) -> list[Path]:
        """The paths of the tables that the sidecar vouches for."""
        return [self.csv(kind) for kind in read_sidecar(self.sidecar)["sha256"]]

    def write(self, tables: "Results", origin: Sidecar | None = None) -> dict[Path, Change]:
        """Write the tables, and last the JSON that vouches for them.

        A run that ends halfway thus leaves tables that do not match their JSON, and the next run
        writes them again. Tables of the same measured values that are equal to rounding stay. Derived
        tables that the sweep no longer has are removed, unless somebody changed them.

        Args:
            tables: the results of the sweep.
            origin: of values measured earlier: what their sidecar has beside its checksums.
        """
        before: Sidecar = {"sha256": {}}
        with suppress(TableError):
            before = read_sidecar(self.sidecar)
        keeps = self.is_measured_alike or origin is not None
        paths = {kind: self.csv(kind) for kind in (*tables, SUMMARY)}
        earlier = {self.csv(name): sha256 for name, sha256 in before["sha256"].items()}
        contents = csv_contents(tables)
        changes = {path: update(path, contents[kind], keeps=keeps) for kind, path in paths.items()}
        made = {
            **self._origin(),
            **(origin or {}),
            "sha256": {kind: checksum(path) for kind, path in paths.items()},
        }
        if tables.failed:
            made["failed"] = [*map(str, tables.failed)]
        content = (json.dumps(made, indent=1) + "\n").encode()
        if not self.sidecar.exists() or self.sidecar.read_bytes() != content:
            write_atomically(self.sidecar, content)
        for table, sha256 in earlier.items():
            if table not in changes and checksum(table) == sha256:
                table.unlink()  # derived from an earlier table, and nobody changed it since
                changes[table] = Change("removed", "the sweep no longer has it")
        keep_record(self.folder, self._product, self._product.record())
        return changes

    def read(self) -> "Results":
        """The results, without the columns of `IDENTITY`.

        Raises:
            TableError: a table is missing, altered, or from another config.
        """
        import pandas as pd

        from experiments.tables.results import Results
        from experiments.tables.rows import with_cells

        text = {FEW_DRAWS: str, RULES: str}
        tables = {}
        contents = self.contents()
        del contents[SUMMARY]
        for kind, content in contents.items():
            own = pd.read_csv(
                io.BytesIO(content), dtype=text, usecols=lambda name: name not in names(IDENTITY)
            )
            # A table as read has one block of memory per column; pandas warns if columns are added
            # to more than a hundred.
            table = own.copy()
            # An empty field is a list of no metrics there, elsewhere a missing number.
            tables[kind] = table.fillna({FEW_DRAWS: ""})
        return Results(self.sweep, {**tables, MEASURED: with_cells(self.sweep, tables[MEASURED])})

    def contents(self) -> dict[str, bytes]:
        """The bytes of the tables by kind; `TableError` unless they are those of this config, and of
        their checksums.
        """
        sidecar = read_sidecar(self.sidecar)
        got = {"seed": sidecar.get("seed"), **sidecar["parameters"]}
        expected = {"seed": self.sweep.seed, **self.sweep.parameters()}
        for key in {**expected, **got}:
            if got.get(key) != expected.get(key):
                was = f"got {key} {json.dumps(got.get(key))}, expected {json.dumps(expected.get(key))}"
                if key in expected and key not in got:
                    was += f"; if it was measured so, add {key} to the parameters in {self.sidecar}"
                raise TableError(f"{self.csv(SUMMARY)} is from another config: {was}")
        contents = {}
        for kind, sha256 in sidecar["sha256"].items():
            path = self.csv(kind)
            try:
                contents[kind] = path.read_bytes()
            except OSError as error:
                raise TableError(f"{path}: {error.strerror}") from None
            actual = hashlib.sha256(contents[kind]).hexdigest()
            if actual != sha256:
                raise TableError(
                    f"{path} has been altered: got SHA-256 {actual[:12]}..., expected "
                    f"{sha256[:12]}..."
                )
        return contents

    @property
    def fault(self) -> str:
        """The reason why the tables are not whole or not those of this config; empty if they are."""
        try:
            self.contents()
            made = read_sidecar(self.sidecar)
        except TableError as error:
            return str(error)
        return "; ".join(made.get("failed", []))

    @property
    def is_current(self) -> bool:
        """True if the tables are sound, and the source of the suite and the libraries of today wrote
        them.
        """
        return self._product.state(self.folder) == "current" and not self.fault

    @property
    def _product(self) -> Product:
        """The tables as a product. Its stamp is that of the sidecar, which has their checksums."""
        declared = SUMMARIES[self.sweep.experiment.name]
        return Product((self.sidecar,), list, parameters=declared, source=tables_source())

    @property
    def is_measured_alike(self) -> bool:
        """True if sound tables have values measured by the source and libraries of today."""
        return not self.fault and read_sidecar(self.sidecar).items() >= self._origin().items()

    def _origin(self) -> Sidecar:
        """Everything that determines the measured values, as JSON values."""
        return {
            "sweep": self.sweep.name,
            "seed": self.sweep.seed,
            "parameters": self.sweep.parameters(),
            "source": measuring_source(self.sweep.experiment),
            "versions": versions("numpy", "scipy", "pandas"),
        }


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
    sums = sidecar.get("sha256", {}) if isinstance(sidecar, dict) else {}
    are_named = isinstance(sums, dict) and all(map(str.isidentifier, sums))  # kinds become paths
    if not sums or not are_named or not isinstance(sidecar.get("parameters"), dict):
        raise TableError(f"{path}: expected the parameters and checksums of a sweep")
    if not {MEASURED, SUMMARY} <= sums.keys():
        lacks = f"expected checksums of {MEASURED} and {SUMMARY}"
        raise TableError(f"{path} is of an earlier version: {lacks}, got {[*sums]}")
    return sidecar
