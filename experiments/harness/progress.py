"""How far a run is: a bar that names the sweep and the time left on a terminal, a line per sweep elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


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
    def advance(self, sweep: str, seconds: float) -> None:
        pass

    def line(self, text: str) -> None:
        print(text, flush=True)  # noqa: T201


@contextmanager
def reporting(total_seconds: float) -> Iterator[Reporter]:
    """A reporter for a run of about that much work."""
    console = Console()
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=console, transient=True) as progress:
        yield _Bar(progress, total_seconds)
