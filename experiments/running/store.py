"""Finished chunks on disk, one record each, so that no measurement is lost or repeated.

The store writes a record whole. Its parts are: a line with the SHA-256 of everything after it; a
line with its stamp (parameters, seed, source, versions); and the packed measurement.
The file's name follows from the parameters and the seed alone. A record by other source or other
versions is stale; the next run replaces it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experiments.config.errors import Problem
from experiments.measuring.chunk import Chunk
from experiments.measuring.experiment import Measurement
from experiments.running.files import write_atomically
from experiments.running.fingerprint import hash_of, measuring_source, stamp

_FORMAT = 3  # of a record; raise it with every change of what this module or `packing` writes

State = Literal["sound", "missing", "stale", "damaged"]


class RecordError(Problem):
    """A record that is unreadable or belongs to another chunk."""


@dataclass(frozen=True)
class Store:
    """The records of one results folder."""

    folder: Path

    def path(self, chunk: Chunk) -> Path:
        """The path of a chunk's record, whether or not the record exists: a folder of two digits, a
        name of 32.

        It depends on the parameters and the seed, not on the source, so that a new record replaces
        a stale one.
        """
        name = hash_of([chunk.parameters(), chunk.seed])
        return self.folder / name[:2] / name[2:34]

    def state(self, chunk: Chunk) -> State:
        """The state of the record of a chunk.

        `sound`: its checksum and its stamp are right; `missing`: there is none; `damaged`: its
        checksum is wrong; `stale`: another version of the source or of the libraries made it.
        """
        return self._opened(chunk)[0]

    def write(self, chunk: Chunk, packed: bytes) -> None:
        """Write the record of a chunk from its packed measurement."""
        rest = _stamp(chunk) + b"\n" + packed
        checksum = hashlib.sha256(rest).hexdigest().encode()
        write_atomically(self.path(chunk), checksum + b"\n" + rest)

    def read(self, chunk: Chunk) -> Measurement:
        """The measurement of a chunk, equal to the bit to the one that was written.

        Raises:
            RecordError: the record is missing, damaged, stale or another chunk's.
        """
        state, packed = self._opened(chunk)
        if state != "sound":
            raise RecordError(
                f"{self.path(chunk)}: expected the record of chunk {chunk.index}, got one that is "
                f"{state}"
            )
        return chunk.unpacked(packed)

    def _opened(self, chunk: Chunk) -> tuple[State, bytes]:
        """The state of a record, and the packed measurement in it."""
        # First of all, because the hash is that of the source as a process first sees it: an edit
        # while a run measures does not count for what it writes.
        expected = _stamp(chunk)
        try:
            checksum, _, rest = self.path(chunk).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return "missing", b""
        if checksum != hashlib.sha256(rest).hexdigest().encode():
            return "damaged", b""
        got, _, packed = rest.partition(b"\n")
        return "sound" if got == expected else "stale", packed


def _stamp(chunk: Chunk) -> bytes:
    """The stamp of a chunk, of the source that measures it."""
    inputs = [chunk.parameters(), chunk.seed, _FORMAT]
    return stamp(inputs, measuring_source(chunk.experiment)).encode()
