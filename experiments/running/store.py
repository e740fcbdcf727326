"""Finished chunks on disk, one record each, so that no measurement is lost or repeated.

The store writes a record whole. Its parts are: a line with the SHA-256 of everything after it; a
line of JSON, its stamp (parameters, seed, hash of the source, versions); and its compressed arrays.
The file's name follows from the parameters and the seed alone. A record by other source or other
versions is stale; the next run replaces it.

A sweep names the number of trials of its cells, or a pilot finds it for the precision that the
sweep requests. With e the largest relative standard error among the precise metrics in a pilot of
200 trials, a precision p needs

    trials = 1.4 * 200 (e / p)^2,   at least 20 and at most max_trials

The suite discards the draws of the pilot and estimates from other draws. If the same draws also
determined the number of trials, it would be smaller where they happen to lie close together, and
the estimates would be biased.
"""

import dataclasses
import hashlib
import io
import json
import math
import typing
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from experiments.config.errors import Problem
from experiments.config.sweep import Sweep
from experiments.measuring.chunk import Chunk
from experiments.measuring.columns import Hint, Json, as_json, cell_fields
from experiments.measuring.experiment import MEASURED, Cell, Measurement
from experiments.measuring.intervals import MIN_TRIALS
from experiments.measuring.metric import relative_error
from experiments.running.files import write_atomically
from experiments.running.fingerprint import measuring_source, versions

_FORMAT = 2  # of a record; raise it with every change of what this module writes
_COMPRESSION = 1  # the fastest: records shrink to a quarter in a hundredth of the measuring time

PILOT_TRIALS = 200
# Far above the number of any chunk that is kept.
_FIRST_PILOT_CHUNK = 2**31
# Squared relative errors of pilots of 200 trials spread by 13 to 15% around their mean (measured
# over 200 seeds at d_k = 4 and 64), and in 1 of 100 pilots lie so far below it.
_MARGIN = 1.4

State = Literal["sound", "missing", "stale", "damaged"]
Stamp = dict[str, object]
Array = npt.NDArray[np.generic]


class RecordError(Problem):
    """A record that is unreadable or belongs to another chunk."""


@dataclass(frozen=True)
class Store:
    """The records of one results folder under one root seed."""

    folder: Path
    seed: int

    def path(self, chunk: Chunk) -> Path:
        """The path of a chunk's record, whether or not the record exists: a folder of two digits, a
        name of 32.

        It depends on the parameters and the seed, not on the source, so that a new record replaces
        a stale one.
        """
        identity = json.dumps([_parameters(chunk), self.seed], sort_keys=True)
        name = hashlib.sha256(identity.encode()).hexdigest()
        return self.folder / name[:2] / name[2:34]

    def stamp(self, chunk: Chunk) -> Stamp:
        """Everything that determines the numbers of a chunk: parameters, seed, source, libraries."""
        return {
            **_parameters(chunk),
            "seed": self.seed,
            "format": _FORMAT,
            "source": measuring_source(chunk.experiment),
            "versions": versions(),
        }

    def state(self, chunk: Chunk) -> State:
        """The state of the record of a chunk.

        `sound`: its checksum and its stamp are right; `missing`: there is none; `damaged`: its
        checksum is wrong; `stale`: another version of the source or of the libraries made it.
        """
        return self._opened(chunk)[0]

    def write(self, chunk: Chunk, record: bytes) -> None:
        """Write a record from `measure_record`."""
        write_atomically(self.path(chunk), record)

    def read(self, chunk: Chunk) -> Measurement:
        """The measurement of a chunk, equal to the bit to the one that was written.

        Raises:
            RecordError: the record is missing, damaged, stale or another chunk's.
        """
        state, payload = self._opened(chunk)
        if state != "sound":
            raise RecordError(
                f"{self.path(chunk)}: expected the record of chunk {chunk.index}, got one that is "
                f"{state}"
            )
        kind = typing.get_type_hints(chunk.experiment.measure)["return"]
        with np.load(io.BytesIO(zlib.decompress(payload))) as arrays:
            measurement: Measurement = _built(kind, {**arrays}, "")
        return measurement

    def _opened(self, chunk: Chunk) -> tuple[State, bytes]:
        """The state of a record, and its compressed arrays."""
        try:
            checksum, _, rest = self.path(chunk).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return "missing", b""
        if checksum != hashlib.sha256(rest).hexdigest().encode():
            return "damaged", b""
        stamp, _, payload = rest.partition(b"\n")
        return "sound" if json.loads(stamp) == self.stamp(chunk) else "stale", payload

    def chunks(self, sweep: Sweep, cell: Cell) -> list[Chunk]:
        """The chunks of a cell, in merge order; in a sweep with a precision, its trials follow from
        the pilot, which must be in the store.

        Of T trials the standard error is that of the pilot times sqrt(PILOT_TRIALS / T). No number
        suffices if a value or an error of the pilot is 0.

        Raises:
            RecordError: a record of the pilot is not sound.
        """
        experiment, trials = sweep.experiment, sweep.trials
        if sweep.precision is not None:
            pilot = self._merged(pilot_chunks(sweep, cell))
            rows = experiment.tabulate(cell, pilot)[MEASURED]
            error = relative_error(experiment.metrics, rows)
            if math.isfinite(error):
                wanted = math.ceil(_MARGIN * PILOT_TRIALS * (error / sweep.precision) ** 2)
                trials = min(max(wanted, MIN_TRIALS), trials)
        return list(Chunk.of_cell(experiment, cell, trials))

    def measurement(self, sweep: Sweep, cell: Cell) -> Measurement:
        """The measurement of a cell.

        Raises:
            RecordError: a record is not sound.
        """
        return self._merged(self.chunks(sweep, cell))

    def _merged(self, chunks: Iterable[Chunk]) -> Measurement:
        """Chunks, merged in order. The order counts: sums of floats depend on it."""
        return reduce(lambda merged, following: merged.merge(following), map(self.read, chunks))


def pilot_chunks(sweep: Sweep, cell: Cell) -> list[Chunk]:
    """The chunks of a cell's pilot, of 200 trials together; none for a sweep that names its number
    of trials.
    """
    if sweep.precision is None:
        return []
    return list(Chunk.of_cell(sweep.experiment, cell, PILOT_TRIALS, _FIRST_PILOT_CHUNK))


def measure_record(chunk: Chunk, seed: int, stamp: Stamp) -> bytes:
    """Measure a chunk and make its record; runs in a worker.

    Raises:
        FloatingPointError: a number of the measurement is not finite.
    """
    arrays = dict(_flattened(chunk.measure(seed), ""))
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise FloatingPointError(
                f"expected finite numbers in {name}, got {array[~np.isfinite(array)][0]}"
            )
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    payload = zlib.compress(packed.getvalue(), _COMPRESSION)
    rest = json.dumps(stamp).encode() + b"\n" + payload
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def _parameters(chunk: Chunk) -> Stamp:
    """The parameters of a chunk, as plain JSON values."""
    fields = cell_fields(type(chunk.cell))
    cell = {name: _json_of(getattr(chunk.cell, name)) for name in fields}
    return {
        "experiment": chunk.experiment.name,
        "cell": cell,
        "chunk": chunk.index,
        "trials": chunk.trials,
    }


def _json_of(value: object) -> Json | list[Json]:
    return [as_json(item) for item in value] if isinstance(value, tuple) else as_json(value)


def _flattened(value: object, name: str) -> Iterator[tuple[str, Array]]:
    """The arrays and numbers of a measurement, keyed by their path of fields and positions.

    >>> from experiments.measuring.intervals import Limits
    >>> [(name, float(array)) for name, array in _flattened((Limits(0, 1), 2), "")]
    [('.0.low', 0.0), ('.0.high', 1.0), ('.1', 2.0)]
    """
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _flattened(getattr(value, field.name), f"{name}.{field.name}")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _flattened(item, f"{name}.{i}")
    else:
        yield name, np.asarray(value)


def _built(kind: Hint, arrays: Mapping[str, Array], name: str) -> Hint:
    """A measurement of that type from its arrays, the reverse of `_flattened`.

    Types come from the code, not from the record, so that a record builds nothing but declared
    measurements.
    """
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        each = {field: _built(hints[field], arrays, f"{name}.{field}") for field in hints}
        return kind(**each)  # type: ignore[operator]
    if typing.get_args(kind)[1:] == (...,):
        inner, _ = typing.get_args(kind)
        below = [one.removeprefix(f"{name}.") for one in arrays if one.startswith(f"{name}.")]
        places = dict.fromkeys(one.partition(".")[0] for one in below)
        return tuple(_built(inner, arrays, f"{name}.{place}") for place in places)
    return kind(arrays[name]) if kind in (int, float) else arrays[name]
