"""A Dask cluster on this machine whose many workers only wait: a test of the client and the scheduler.

The simulated workers speak Dask's whole protocol. Hundreds of them share a process, and they wait in its event loop.
They do without Dask's profiler, ticks and system monitor, which would keep several cores busy. The scheduler has a
process of its own with Dask's defaults.

All processes share the cores of this machine, so the records per second are a lower bound for a client and a scheduler
with cores of their own. Their processor time shows which of them limits a run. The simulation does not show the time
that records take in a real network.
"""

import asyncio
import logging
import multiprocessing
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import dask.config
import psutil
from distributed import Scheduler, Worker, get_worker

from experiments.harness.cluster.remote import Arguments

RECORD_BYTES = 60_000  # about those of a chunk of the shipped config
_PER_PROCESS = 256  # workers
_AT_ONCE = 32  # workers of a process that start together
_NEVER = "1000h"
_UNWATCHED = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": _NEVER,
    "distributed.admin.system-monitor.interval": _NEVER,
    "distributed.admin.system-monitor.gil.enabled": False,
}
_RANDOM = os.urandom(2 * RECORD_BYTES)


class _Record:
    """Random bytes that exist only as they travel: records that wait for the client take no memory."""

    def __reduce__(self) -> tuple[type, tuple[bytes]]:
        start = random.randrange(RECORD_BYTES)
        return bytes, (_RANDOM[start : start + RECORD_BYTES],)


_begun: set[str] = set()  # workers of this process that have had a group


async def wait_for_chunks(chunk_seconds: float, tasks: Sequence[Arguments], _source: str) -> tuple[list[_Record], None]:
    """Wait in a worker for as long as these chunks would take; return their records, random bytes.

    The first group of each worker takes a random part of its time. Otherwise all workers would finish together, and the
    client would rest until they finish again.
    """
    address = get_worker().address
    part = 1 if address in _begun else random.random()
    _begun.add(address)
    await asyncio.sleep(part * chunk_seconds * len(tasks))
    return [_Record() for _ in tasks], None


@dataclass(frozen=True)
class WaitingCluster:
    """A running cluster.

    Attributes:
        address: the address of its scheduler.
        scheduler: number of the scheduler's process.
    """

    address: str
    scheduler: int

    def scheduler_seconds(self) -> float:
        """Processor time of the scheduler so far."""
        times = psutil.Process(self.scheduler).cpu_times()
        return float(times.user + times.system)


@contextmanager
def waiting_cluster(workers: int) -> Iterator[WaitingCluster]:
    """Start a scheduler and that many workers; end them on exit."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    started: list[BaseProcess] = []

    def start(run: Any, *arguments: Any) -> BaseProcess:
        started.append(context.Process(target=run, args=(there, *arguments), daemon=True))
        started[-1].start()
        return started[-1]

    with tempfile.TemporaryDirectory() as folder:
        try:
            scheduler = start(_run_scheduler)
            address = here.recv()
            parts = [min(_PER_PROCESS, workers - first) for first in range(0, workers, _PER_PROCESS)]
            for part in parts:
                start(_run_workers, address, part, folder)
            for _ in parts:
                here.recv()
            assert scheduler.pid
            yield WaitingCluster(address, scheduler.pid)
        finally:
            for process in started:
                process.kill()
                process.join()


def _run_scheduler(started: Connection) -> None:
    """A scheduler, until the process is killed; sends its address."""

    async def run() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
            started.send(scheduler.address)
            await scheduler.finished()

    logging.disable()  # a client that leaves makes many lines
    asyncio.run(run())


def _run_workers(started: Connection, scheduler: str, count: int, folder: str) -> None:
    """Workers, until the process is killed; sends None when all are connected."""

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for first in range(0, count, _AT_ONCE):
                starting = (
                    # `offload` is one thread for all workers of a process, which imports what tasks need.
                    Worker(
                        scheduler,
                        host="127.0.0.1",
                        nthreads=1,
                        memory_limit=0,
                        executor="offload",
                        local_directory=folder,
                    )
                    for _ in range(first, min(first + _AT_ONCE, count))
                )
                await asyncio.gather(*(stack.enter_async_context(worker) for worker in starting))
            started.send(None)
            await asyncio.Event().wait()

    logging.disable()
    with dask.config.set(_UNWATCHED):
        asyncio.run(run())
