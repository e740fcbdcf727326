"""How far a run is: a bar that names the sweep and the time left on a terminal, a line per sweep elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 15


class Reporter(Protocol):
    """What a run tells: work done, and lines to keep."""

    def advance(self, sweep: str, seconds: float) -> None:
        """Estimated seconds of work were finished in a sweep."""
        ...

    def line(self, text: str) -> None:
        """Say something that stays on the screen."""
        ...


class _Bar:
    def __init__(self, progress: Progress, total: float) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=total)

    def advance(self, sweep: str, seconds: float) -> None:
        self._progress.update(self._task, advance=seconds, description=sweep)

    def line(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)


class _Lines:
    """Without a terminal: a line now and then, so that a log shows that a long run is alive."""

    def __init__(self, total: float) -> None:
        self._total, self._done = total, 0.0
        self._started = self._said = time.monotonic()

    def advance(self, sweep: str, seconds: float) -> None:
        self._done += seconds
        now = time.monotonic()
        if now - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = now
            left = (now - self._started) * (self._total / self._done - 1)
            self.line(f"{sweep}: {self._done / self._total:.0%} of the run done, about {left:.0f} s left")

    def line(self, text: str) -> None:
        print(text, flush=True)  # noqa: T201


@contextmanager
def reporting(total_seconds: float) -> Iterator[Reporter]:
    """A reporter for a run of about that much work."""
    console = Console()
    if not console.is_terminal:
        yield _Lines(total_seconds)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console, transient=True) as progress:
        yield _Bar(progress, total_seconds)
