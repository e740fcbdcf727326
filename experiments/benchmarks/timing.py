"""Timing in one process: everything interleaved, so that a slow moment of the machine meets all alike."""

import time
from collections.abc import Callable, Mapping
from statistics import median

Task = Callable[[], object]


def seconds(task: Task) -> float:
    """How long a task takes, once."""
    started = time.perf_counter()
    task()
    return time.perf_counter() - started


def filling(task: Task, wanted: float) -> tuple[Task, int]:
    """The task so many times on end as take that many seconds, and how many: a short one alone finds a cold cache."""
    task()
    times = max(1, round(wanted / seconds(task)))

    def repeated() -> None:
        for _ in range(times):
            task()

    return repeated, times


def interleaved(tasks: Mapping[str, Task], rounds: int) -> dict[str, float]:
    """The median seconds of each task over rounds in which every task runs once, after one round that is not timed."""
    for task in tasks.values():
        task()
    timed = [{name: seconds(task) for name, task in tasks.items()} for _ in range(rounds)]
    return {name: median(one[name] for one in timed) for name in tasks}
