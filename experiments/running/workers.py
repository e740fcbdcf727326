"""Worker processes on this machine, and the loop that receives measurements from them or from a
cluster.
"""

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits

from experiments.config.errors import UsageError, counted, in_part
from experiments.measuring.chunk import Chunk
from experiments.measuring.processor import FIXED, arithmetic, is_supported

if TYPE_CHECKING:
    from experiments.running.work import Task

_GIB = 2**30
_CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")
_QUEUED_PER_WORKER = 3
_FEW = 3
_BRIEF = 1.0  # seconds of one worker, as estimated
_LOOK_SECONDS = 2.0  # between looks for a dead worker
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class LocalWorkers:
    """Processes on this machine, started for each run; see `experiments.running.work.Workers`.

    Work of less than a second is done in a thread of this process, because starting others takes longer.
    """

    slots: int

    def __str__(self) -> str:
        return counted(self.slots, "worker")

    def measure(self, tasks: "Sequence[Task]") -> Generator["tuple[Task, bytes]", None, None]:
        """Packed measurements in the order of completion, as `experiments.running.work.Workers.measure`."""
        has_arithmetic = not is_supported() or arithmetic() == FIXED
        is_brief = has_arithmetic and sum(task.seconds for task in tasks) < _BRIEF
        _require_memory(tasks, 1 if is_brief else self.slots)
        if is_brief:
            with _thread() as thread:
                submit: Callable[..., Future[bytes]] = thread.submit
                yield from receive(partial(submit, Chunk.packed), tasks, 1)
            return
        with worker_pool(self.slots) as pool:
            in_flight = _QUEUED_PER_WORKER * self.slots
            submit = partial(pool.submit, Chunk.packed)
            yield from receive(submit, tasks, in_flight, pool.require_alive)


def _require_memory(tasks: "Sequence[Task]", slots: int) -> None:
    """`UsageError` if the largest cell, in all workers, needs more memory than the machine has."""
    largest = max(tasks, key=lambda task: task.chunk.cell.memory)
    memory, limit = largest.chunk.cell.memory, machine_memory()
    at_a_time = min(slots, len(tasks))
    if memory * at_a_time <= limit:
        return
    less = (
        f"JOBS={limit // memory} fits" if memory <= limit else "a smaller n_keys or d_k needs less"
    )
    raise UsageError(
        f"{largest.place}: needs {memory / _GIB:.3g} GiB in each of {counted(at_a_time, 'worker')}, "
        f"expected at most {limit / _GIB:.3g} GiB in all; {less}"
    )


def machine_memory() -> int:
    """Bytes of this machine, or those that its container may use, if fewer; in use or not."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # the word "max", without a limit
        memory = min(memory, int(_CONTAINER_MEMORY.read_text()))
    return memory


def default_jobs() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def helpers(jobs: int | None, tasks: int) -> Iterator[Callable[..., Future[Any]]]:
    """Processes for further work of this one; `submit(function, *arguments)` gives a future of the
    result.

    Up to three tasks are done in a thread of this process, because starting others takes longer.

    Args:
        jobs: number of processes; None for one per processor.
        tasks: number of tasks at most.
    """
    with _thread() if tasks <= _FEW else worker_pool(jobs or default_jobs()) as pool:
        yield pool.submit


@contextmanager
def _thread() -> Iterator[ThreadPoolExecutor]:
    """A thread of this process that computes as a worker does: on one thread of BLAS, also if NumPy
    was loaded before this package.
    """
    with threadpool_limits(limits=1), ThreadPoolExecutor(1) as pool:
        yield pool


class _Pool(ProcessPoolExecutor):
    """A pool whose workers start undisturbed: signals wait until the call that starts one
    returns.
    """

    def submit(self, *call: Any, **options: Any) -> Future[Any]:
        # A signal between the start of a worker and its instructions would leave a worker that
        # reads the end of a file. The worker inherits this setting, so that Ctrl-C does not
        # interrupt its imports either.
        with _held_back():
            return super().submit(*call, **options)

    def require_alive(self) -> None:
        """`BrokenProcessPool` if a worker died.

        The pool notices by itself, unless the worker had sent half a record: then it waits for the
        rest.
        """
        workers = [*(self._processes or {}).values()]
        if any(worker.exitcode is not None for worker in workers):
            raise BrokenProcessPool("a worker died while it sent a record")


@contextmanager
def worker_pool(jobs: int) -> Iterator[_Pool]:
    """Processes that compute on one thread each; an error or Ctrl-C in the block ends them."""
    # Spawned, not forked: this works the same on every system and copies no thread's lock into a
    # worker.
    with _Pool(jobs, mp_context=_SPAWN, initializer=_start_worker) as pool:
        try:
            yield pool
        except BaseException:
            _stop(pool)
            raise


def _start_worker() -> None:
    """Prepare a worker: it ignores Ctrl-C, and ends with its parent."""
    # Ctrl-C reaches every process of the terminal; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)  # see _Pool
    threading.Thread(target=_end_with_parent, daemon=True).start()


@contextmanager
def _held_back() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back until the end of the block; processes that start in it inherit
    this.

    A mask alone does not hold a signal back: another thread, such as one of BLAS, takes it, and
    Python then calls the handler in the main thread. So there are two guards, put up in this order
    and taken down in the reverse one:

        mask of this thread    the system keeps a signal waiting; a child inherits the mask
        handlers that note     another thread took the signal: its number goes to `came`
            the block runs
        handlers as before     then each noted signal is raised again, and waits for the mask
        mask as before         waiting signals reach the handlers that were there before

    So a signal that came in the block takes effect at its end, and once. Only the main thread may set
    handlers, and they run there: another thread needs the mask alone.
    """
    came: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS if is_main}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        for number in handlers:
            signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for caught in set(came):
            signal.raise_signal(caught)  # waits for the mask
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _end_with_parent() -> None:
    """End this worker when its parent is gone, for any reason."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the workers at once; the next run measures their unfinished chunks again.

        worker ──record──> pipe ──> thread of the pool ──> futures
        killed             half a record: the thread waits for the rest
                           sending end closed here: the thread reads the end of the file, and stops

    A second Ctrl-C waits until `shutdown` has returned.
    """
    with _held_back():
        for worker in list((pool._processes or {}).values()):
            worker.kill()
        # A killed worker may have sent half a record. The pool's thread would wait forever for the
        # rest, because this process also holds the sending end of the pipe. Once that is closed,
        # the thread reads the end of the file.
        if pool._result_queue is not None:
            pool._result_queue._writer.close()  # type: ignore[attr-defined]
        pool.shutdown(cancel_futures=True)


def receive(
    submit: Callable[..., Future[bytes]],
    tasks: "Iterable[Task]",
    in_flight: int,  # chunks that wait or run at a time, at most, so that memory stays bounded
    require_alive: Callable[[], object] = bool,
    deaths: type[Exception] = BrokenProcessPool,  # of a chunk whose process died
) -> Iterator["tuple[Task, bytes]"]:
    """Packed measurements in the order of completion, from the processes of this machine or of a cluster."""
    todo = iter(tasks)
    pending: dict[Future[bytes], Task] = {}
    # `concurrent.futures.wait` locks all futures one by one. Ctrl-C in the middle would leave some
    # locked, and the thread that closes the connection to a cluster would wait for them.
    done: SimpleQueue[Future[bytes]] = SimpleQueue()
    while True:
        for task in itertools.islice(todo, in_flight - len(pending)):
            with _naming(task, deaths):
                future = submit(task.chunk)
            pending[future] = task
            future.add_done_callback(done.put)
        if not pending:
            return
        try:
            ready = [done.get(timeout=_LOOK_SECONDS)]
        except Empty:
            with _naming(next(iter(pending.values())), deaths):
                require_alive()
            continue
        ready += [done.get() for _ in range(done.qsize())]
        for future in sorted(ready, key=_has_failed):  # what succeeded is kept
            task = pending.pop(future)
            with _naming(task, deaths):
                packed = future.result()
            yield task, packed


def _has_failed(future: Future[bytes]) -> bool:
    return future.cancelled() or future.exception() is not None


@contextmanager
def _naming(task: "Task", deaths: type[Exception]) -> Iterator[None]:
    """Attach the name of a chunk to the error of its measurement or of its worker.

    Arithmetic, memory and value errors come from measuring. Bugs keep their traceback.
    """
    try:
        yield
    except deaths:
        raise task.failure(
            "a worker process died at or near this cell: killed, out of memory, or by a script that "
            'calls run(...) outside of `if __name__ == "__main__":`'
        ) from None
    except (ArithmeticError, ValueError, MemoryError) as error:
        raise task.failure(f"{type(error).__name__}: {error}") from None
    except (AttributeError, LookupError, NameError, TypeError) as error:
        raise in_part(task.place, error) from None
