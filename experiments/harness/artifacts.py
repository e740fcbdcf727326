"""Artifacts: files that a command makes, and the one rule that decides whether they are up to date.

An artifact is up to date if nobody changed its files and if everything that determines them is unchanged: code,
libraries, input files and parameters. Measured chunks and the tables of a sweep record these themselves, in their
header and in SWEEP.json; the ledger of the results folder records them for all other artifacts.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.harness.files import checksum, is_same, write_atomically
from experiments.harness.fingerprint import source_fingerprint, versions


@dataclass(frozen=True)
class Artifact:
    """Files that one command makes together, and everything that determines them.

    Attributes:
        files: the files; the first names the artifact.
        code: modules that make the files; everything they import counts too.
        libraries: packages that make the files.
        inputs: files that the artifact is made from.
        parameters: further JSON values that determine the files.
    """

    files: tuple[Path, ...]
    code: tuple[str, ...]
    libraries: tuple[str, ...]
    inputs: tuple[Path, ...] = ()
    parameters: Any = None

    def decided_by(self) -> dict[str, Any]:
        """JSON values that differ if the files would: fingerprint, versions, checksums of inputs, parameters."""
        return {
            "code": source_fingerprint(*self.code),
            "libraries": versions(*self.libraries),
            "inputs": checksums(self.inputs),
            "parameters": self.parameters,
        }


@dataclass(frozen=True)
class Ledger:
    """The record of artifacts made in a folder on this machine, kept in a file that git ignores.

    `note` reads and rewrites the whole file, so that a command holds the folder's lock meanwhile.

    Attributes:
        folder: the folder of `.made.json`; names of artifacts are paths relative to it.
    """

    folder: Path

    def is_current(self, artifact: Artifact) -> bool:
        """True if nobody changed the files of an artifact, and making them again would give the same."""
        recorded = self._read().get(self._key(artifact), {})
        return is_same(recorded, artifact.decided_by() | {"files": checksums(artifact.files)})

    def is_untouched(self, artifact: Artifact) -> bool | None:
        """True if nobody changed or removed the files of an artifact since its last `note`; None without such a note.

        Unlike in `is_current`, a change of the code or of the inputs does not matter.
        """
        recorded = self._read().get(self._key(artifact))
        return None if recorded is None else recorded.get("files") == checksums(artifact.files)

    def note(self, artifact: Artifact) -> None:
        """Record an artifact whose files are complete, in place of its previous record."""
        made = {self._key(artifact): artifact.decided_by() | {"files": checksums(artifact.files)}}
        write_atomically(self._path, (json.dumps(self._read() | made, indent=1) + "\n").encode())

    def _key(self, artifact: Artifact) -> str:
        """The name of an artifact: the path of its first file relative to the folder."""
        return os.path.relpath(artifact.files[0], self.folder)

    @property
    def _path(self) -> Path:
        return self.folder / ".made.json"

    def _read(self) -> dict[str, dict[str, Any]]:
        """The recorded entries by artifact; none if the file is missing or damaged: everything is then made again."""
        try:
            content = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        entries = content.items() if isinstance(content, dict) else ()
        return {key: entry for key, entry in entries if isinstance(entry, dict)}


def checksums(files: Iterable[Path]) -> list[str]:
    """SHA-256 of files, in order; empty for each that does not exist."""
    return [checksum(path) for path in files]
