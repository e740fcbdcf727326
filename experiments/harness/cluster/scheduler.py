"""The connection to the scheduler of a Dask cluster; TLS comes from Dask's own configuration."""

import asyncio
import json
import logging
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from distributed import Client
from distributed.versions import VersionMismatchWarning

from experiments.harness.problems import MeasurementError

_FILE_SECONDS = 10  # that the scheduler may take to write its file
_CONNECT_SECONDS = 10
_SILENT_SECONDS = 15  # that the scheduler may take to answer
_CLOSE_SECONDS = 5


class ClusterError(MeasurementError):
    """The cluster is out of reach or cannot measure the chunks; the message names its address or a worker."""


@dataclass(frozen=True)
class Scheduler:
    """A scheduler that this process is connected to.

    Attributes:
        client: the connection, asynchronous.
        name: its address or scheduler file, for messages.
    """

    client: Client
    name: str

    async def statuses_of_workers(self) -> dict[str, str]:
        """The status of each connected worker, by address.

        Raises:
            ClusterError: the scheduler does not answer.
        """
        try:
            async with asyncio.timeout(_SILENT_SECONDS):
                answer = await self.client.scheduler.identity(n_workers=-1)
        except (OSError, TimeoutError):
            raise ClusterError(f"the scheduler at {self.name} does not answer") from None
        return {address: worker["status"] for address, worker in answer["workers"].items()}

    @property
    def is_connected(self) -> bool:
        """False if the client has lost the scheduler, if only for a moment."""
        return bool(self.client.status == "running")

    def check(self) -> None:
        """Raise the error of a lost scheduler if the client is no longer connected."""
        if not self.is_connected:
            raise self.loss()

    def loss(self) -> ClusterError:
        """The error of a run whose client has lost the scheduler."""
        return ClusterError(f"lost the scheduler at {self.name}")


@asynccontextmanager
async def connected(where: str | Path) -> AsyncIterator[Scheduler]:
    """The scheduler at an address, or the one that wrote a scheduler file.

    Raises:
        ClusterError: nothing answers at the address, or the scheduler file does not exist or has no address.
    """
    address = await _written_address(where) if isinstance(where, Path) else where
    # `dispatch` and `members` report a lost scheduler and the versions of workers in their own words.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore", VersionMismatchWarning)
    client = None
    try:
        try:
            client = Client(address, asynchronous=True, timeout=_CONNECT_SECONDS, set_as_default=False)
            # Dask's own limit does not end the wait for a server of another protocol, such as that of its dashboard.
            async with asyncio.timeout(_CONNECT_SECONDS + 1):
                await client
        except Exception as error:  # no answer, no address, no certificate
            reason = str(error) or f"expected an answer of Dask within {_CONNECT_SECONDS} s, got none"
            raise ClusterError(f"no scheduler answers at {where}: {reason}") from None
        yield Scheduler(client, str(where))
    finally:
        if client:  # also one that never connected: Dask would warn of it when the process ends
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await client.close()


async def _written_address(file: Path) -> str:
    """The address in a scheduler file; a scheduler that has just started may still write it."""
    deadline = time.monotonic() + _FILE_SECONDS
    while True:
        try:
            return str(json.loads(file.read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError, LookupError, TypeError):
            if time.monotonic() > deadline:
                found = "a file without an address" if file.exists() else "nothing"
                expected = "expected the file that `dask scheduler --scheduler-file` writes"
                raise ClusterError(f"{file}: {expected}, got {found}") from None
        await asyncio.sleep(0.1)
