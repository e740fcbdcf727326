"""Timing in one process: tasks take turns, so that a slow moment of the machine affects all of them equally.

The median over rounds discards rounds in which another process interferes.
"""

import time
from collections.abc import Callable, Hashable, Mapping
from statistics import median
from typing import TypeVar

Task = Callable[[], object]
Key = TypeVar("Key", bound=Hashable)

ROUNDS = 7


def seconds(task: Task) -> float:
    """The wall-clock time that a task takes, once, in seconds."""
    started = time.perf_counter()
    task()
    return time.perf_counter() - started


def repeated(task: Task, wanted: float) -> tuple[Task, int]:
    """A task that repeats another for about this many seconds, and the number of repetitions.

    A short task that runs alone meets a cold cache.

    Args:
        task: runs twice here: once to warm up, and once to find the number of repetitions.
        wanted: seconds.
    """
    task()
    times = max(1, round(wanted / seconds(task)))

    def run() -> None:
        for _ in range(times):
            task()

    return run, times


def interleaved(tasks: Mapping[Key, Task], rounds: int = ROUNDS) -> dict[Key, float]:
    """The median seconds of each task over rounds in which every task runs once, after an untimed round.

    Args:
        tasks: by name, in the order of a round.
        rounds: timed rounds; odd numbers give a median that was measured.
    """
    for task in tasks.values():
        task()
    timed = [{name: seconds(task) for name, task in tasks.items()} for _ in range(rounds)]
    return {name: median(one[name] for one in timed) for name in tasks}
