"""Files of a results folder: written whole or not at all, and a lock that lets in one run at a
time.

Tables, records, drawings and the page all go through `write_atomically`: a kill or a full disk
leaves the old file.
"""

import fcntl
import hashlib
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.config.errors import BusyError, FolderError, UsageError

_TEMPORARY = ".sdpa-part"  # of no file that a user may keep among results
_LOCK = ".lock"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that readers see the old one or the new one, never a part, even if this
    process is killed.

    The content goes to a temporary file in the same folder, which then replaces the old file. The
    function makes missing folders. A killed process may leave its temporary file; `locked` removes
    it.

    Raises:
        OSError: the file cannot be written; it names the path, and the old file is unchanged.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=_TEMPORARY
        )
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
        raise OSError(error.errno, f"cannot write: {error.strerror}", str(path)) from None


def require_folder(path: Path) -> Path:
    """The path, of a folder or of nothing yet; `UsageError` if it is, or lies below, a file."""
    for part in (path, *path.parents):
        if part.exists() and not part.is_dir():
            raise UsageError(
                f"{path}: expected a folder, got {'a file' if part == path else f'the file {part}'}"
            )
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a results folder against other runs, and remove the partial files of killed runs.

    The operating system releases the lock when the process ends, however it ends. The lock is
    exclusive also within a process: a second lock on the same folder fails. It makes the folder if
    it is missing.

    Args:
        folder: of results; folders below it that have their own lock file keep their partial files.

    Raises:
        BusyError: another run holds it; the message names its process.
        FolderError: the folder is not writable.
    """
    lock_file = folder / _LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise FolderError(f"{folder}: cannot write: {error.strerror}") from None
    with os.fdopen(handle, "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = lock.read() or "another run"
            raise BusyError(
                f"{folder} is in use by {holder}; wait for it, or choose another folder"
            ) from None
        lock.truncate()
        lock.write(f"process {os.getpid()} on {platform.node()}")
        lock.flush()
        for path, below, _ in os.walk(folder):
            # A folder with a lock of its own belongs to another config or step, which may be
            # writing to it.
            below[:] = [name for name in below if not (Path(path) / name / _LOCK).exists()]
            for leftover in Path(path).glob(f".*{_TEMPORARY}"):
                leftover.unlink(missing_ok=True)
        yield


def checksum(path: Path) -> str:
    """SHA-256 of a file as 64 hexadecimal digits; empty if the file does not exist.

    >>> checksum(Path("no such file"))
    ''
    """
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
