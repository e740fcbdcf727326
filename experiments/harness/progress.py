"""Progress of a run: on a terminal a bar with the sweep and the time left, in a log the same as occasional lines.

Work counts in estimated seconds of one worker (`Experiment.seconds_per_trial`), so that the share done follows time
rather than the number of chunks.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 15  # in a log, to show that a long run is alive


class Report:
    """The report of a run: the finished share of its work, and permanent lines.

    Args:
        progress: the bar; without a terminal nobody starts it, and it only keeps count.
        total_seconds: estimated work of the whole run, in seconds of one worker.
    """

    def __init__(self, progress: Progress, total_seconds: float) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=total_seconds)
        self._last_line = time.monotonic()

    def advance(self, sweep: str, seconds: float) -> None:
        """Count finished work of a sweep, in estimated seconds; in a log, print a line every 15 seconds."""
        self._progress.update(self._task, advance=seconds, description=sweep)
        console, now = self._progress.console, time.monotonic()
        if not console.is_terminal and now - self._last_line >= SECONDS_BETWEEN_LINES:
            console.print(self._progress.get_renderable())
            self._last_line = now

    def line(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        self._progress.console.out(text, highlight=False)


@contextmanager
def reporting(total_seconds: float) -> Iterator[Report]:
    """A report of a run with this estimated amount of work, in seconds of one worker.

    On a terminal the bar is visible during the block and disappears at its end.
    """
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    times = (TextColumn("elapsed"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    progress = Progress(*columns, *times, console=console, transient=True)
    with progress if console.is_terminal else nullcontext():
        yield Report(progress, total_seconds)
