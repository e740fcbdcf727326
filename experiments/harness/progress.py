"""Progress of a run: on a terminal a bar with the sweep and the remaining time, in a log the same as occasional lines.

Work counts in estimated seconds of one worker (`Experiment.seconds_per_trial`), so that the share done follows time
rather than the number of chunks.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.text import Text

SECONDS_BETWEEN_LINES = 30  # in a log, to show that a long run is alive
_SHARE_BETWEEN_LINES = 0.1  # of the elapsed time, so that the log of a longer run stays short
_BAR_WIDTH = 16  # so that a line fits 80 columns

Advance = Callable[[str, float], None]


class _Times(ProgressColumn):
    """The elapsed and the remaining time, in words."""

    def render(self, task: Task) -> Text:
        return Text(_times(task))


@contextmanager
def reporting(console: Console, total_seconds: float) -> Iterator[Advance]:
    """A function that counts finished work: the name of its sweep or step, and its estimated seconds of one worker.

    On a terminal a bar is visible during the block and disappears at its end; in a log, a line appears now and then.

    Args:
        console: shows the progress, and lines above the bar.
        total_seconds: estimated work of the whole run, in seconds of one worker.
    """
    columns = (TextColumn("{task.description}"), BarColumn(_BAR_WIDTH), TaskProgressColumn(), _Times())
    # Without a terminal nobody starts the bar, and it only keeps count.
    progress = Progress(*columns, console=console, transient=True)
    of_run = progress.add_task("starting", total=total_seconds)
    last_line = time.monotonic()

    def advance(sweep: str, seconds: float) -> None:
        nonlocal last_line
        progress.update(of_run, advance=seconds, description=sweep)
        now, (task,) = time.monotonic(), progress.tasks
        pause = max(SECONDS_BETWEEN_LINES, _SHARE_BETWEEN_LINES * (task.elapsed or 0))
        if not console.is_terminal and now - last_line >= pause:
            console.out(f"{sweep}: {task.percentage:.0f}% of the run, {_times(task)}", highlight=False)
            last_line = now

    with progress if console.is_terminal else nullcontext():
        yield advance


def _times(task: Task) -> str:
    """`elapsed 0:00:02, about 0:03:50 remaining`, the second part while work is left and has an estimate."""
    elapsed = f"elapsed {timedelta(seconds=int(task.elapsed or 0))}"
    if task.finished or task.time_remaining is None:
        return elapsed
    return f"{elapsed}, about {timedelta(seconds=int(task.time_remaining))} remaining"
