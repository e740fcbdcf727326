"""The progress of a command: one bar for all its phases, or in a log a line now and then."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

_SECONDS_BETWEEN_LINES = 30  # in a log, to show that a long run is alive
Advance = Callable[[str, float], None]


class Bar:
    """A bar over rough seconds of all phases, those to come included as far as a command announces
    them.

    On a terminal it is visible from its first phase to `stop`, and in a log a line appears now and
    then. Both show the time that remains at the speed of the run.

    Args:
        console: shows the bar.
        say: prints a line of a log.
    """

    def __init__(self, console: Console, say: Callable[[str], object]) -> None:
        self.to_come: dict[str, float] = {}  # rough seconds of phases that have not begun
        self._console, self._say = console, say
        self._done = 0.0  # seconds of phases that ended
        self._last_line = time.monotonic()
        self._progress = Progress(console=console, transient=True, speed_estimate_period=math.inf)
        self._task = self._progress.add_task("starting", start=False)

    @contextmanager
    def phase(self, name: str, total: float, seconds: float) -> Iterator[Advance]:
        """A function that counts finished work of a phase: the name of the work and its amount.

        Args:
            name: of the phase, such as `tables`.
            total: the amount of all its work.
            seconds: its rough time, unless it was announced.
        """
        share = self.to_come.pop(name, seconds)
        self._progress.update(self._task, total=self._done + share + sum(self.to_come.values()))
        self._progress.start_task(self._task)
        if self._console.is_terminal:
            self._progress.start()

        def advance(what: str, amount: float) -> None:
            words = f"{name}: {what}"
            self._progress.update(self._task, advance=share * amount / total, description=words)
            if not self._console.is_terminal:
                self._log(words)

        yield advance
        self._done += share
        self._progress.update(self._task, completed=self._done)

    def stop(self) -> None:
        """Remove the bar, if there is one."""
        if self._progress.live.is_started:
            self._progress.stop()

    def _log(self, words: str) -> None:
        if time.monotonic() - self._last_line < _SECONDS_BETWEEN_LINES:
            return
        self._last_line = time.monotonic()
        (task,) = self._progress.tasks
        left = task.time_remaining
        rest = f", about {math.ceil(left / 60)} min remaining" if left else ""
        self._say(f"{words}; {task.percentage:.0f}% of all{rest}")
