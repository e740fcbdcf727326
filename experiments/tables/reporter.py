"""The words of a command: sentences as it works, and at the end counts, verdicts and flags.

Steps tell the reporter what they did; it alone decides what a reader sees. Unchanged tables and
figures become counts; with `-v` every sentence appears. Problems and flags always appear in full.
"""

import io
import math
import os
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import Progress

from experiments.config.errors import counted
from experiments.tables.changes import Change

GOOD = "green"
FLAGGED = "yellow"
WIDTH = 100  # columns
_SECONDS_BETWEEN_LINES = 30  # in a log, to show that a long run is alive
Say = Callable[[str], object]
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

    def __init__(self, console: Console, say: Say) -> None:
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

        def advance(subject: str, amount: float) -> None:
            words = f"{name}: {subject}"
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


class _Terminal(Console):
    """A console whose command goes on when the reader of its output leaves."""

    def on_broken_pipe(self) -> None:
        """Give up standard output, as the documentation of Python's signal module advises."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Reporter:
    """The sentences, counts and flags of one command; a context that ends with a summary.

    On a terminal, labels have colours, as `rich` chooses them: none with `NO_COLOR`, some with
    `FORCE_COLOR` even in a pipe.

    Args:
        verbose: True to print every sentence; otherwise files that need no look are only counted.
        say: prints a line; None for standard output, above the progress bar if there is one.
    """

    def __init__(self, *, verbose: bool = False, say: Say | None = None) -> None:
        self.verbose = verbose
        self._say = say
        self._console = _Terminal()
        self.bar = Bar(self._console, self.line)
        self._counts: dict[str, Counter[str]] = {"tables": Counter(), "figures": Counter()}
        self._verdicts: list[tuple[str, str, str | None]] = []
        self._flags = 0
        self._next = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self.bar.stop()
        for noun, counts in self._counts.items():
            if counts:
                self._print(noun, ", ".join(f"{count} {state}" for state, count in counts.items()))
        for verdict in self._verdicts:
            self._print(*verdict)
        if self._flags:
            self._print("warnings", f"{counted(self._flags, 'line')} above", FLAGGED)
        elif self._verdicts and not error:
            self._print("warnings", "none", GOOD)
        if self._next and not error:
            self._print("next", self._next)

    def line(self, text: str) -> None:
        """Print a line."""
        self._print("", text)

    def detail(self, text: str) -> None:
        """Print a line if the reporter is verbose."""
        if self.verbose:
            self.line(text)

    def flag(self, text: str) -> None:
        """Print a line about something that deserves a look, and count it."""
        self._flags += 1
        self._print("", text, FLAGGED)

    def made(self, path: Path, change: Change | None) -> None:
        """Count a table or figure, up to date if there is no change; name one that needs a look."""
        if path.suffix == ".png":
            self._counts["figures"]["drawn" if change else "up to date"] += 1
            self.detail(f"{'drew' if change else 'kept'} {path}")
            return
        self._counts["tables"][change.kind if change else "up to date"] += 1
        if change and change.kind in ("different", "removed"):
            self.line(change.of(path))
        else:
            self.made_quietly(path, change)

    def made_quietly(self, path: Path, change: Change | None) -> None:
        """Print a line about a file if the reporter is verbose."""
        self.detail(change.of(path) if change else f"{path}: up to date")

    def verdict(self, label: str, text: str, style: str | None = GOOD) -> None:
        """Keep a verdict of the command for the summary."""
        self._verdicts.append((label, text, style))

    def next(self, text: str) -> None:
        """Keep for the summary what the reader can do next."""
        self._next = text

    def _print(self, label: str, text: str, style: str | None = None) -> None:
        if self._say:
            self._say(f"{label}: {text}" if label else text)
            return
        if label:
            self._console.out(f"{label}:", style=style, highlight=False, end=" ")
        self._console.out(text, style=None if label else style, highlight=False)


def tell(text: str) -> None:
    """Print a text wrapped between words, even to a pager that closes early or a terminal that
    lacks a character.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    _Terminal().out("\n".join(map(wrapped, text.split("\n"))), highlight=False)


def wrapped(line: str) -> str:
    """A line, wrapped between words."""
    return (
        textwrap.fill(
            line, WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False
        )
        or line
    )
