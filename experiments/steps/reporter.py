"""What a command says: sentences as it works, and at the end counts, verdicts and flags.

Steps tell the reporter what they did; it alone decides what a reader sees. Unchanged tables and figures become counts,
and captions stay in their files; with `-v` every sentence appears. Problems and flags always appear in full.
"""

import io
import os
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.text import Text

from experiments.folders import drawn_texts
from experiments.harness.problems import counted

if TYPE_CHECKING:
    from experiments.harness.compare import Change

SECONDS_BETWEEN_LINES = 30  # in a log, to show that a long run is alive
_SHARE_BETWEEN_LINES = 0.1  # of the elapsed time, so that the log of a longer run stays short
_BAR_WIDTH = 16  # so that a line fits 80 columns
GOOD, FLAGGED = "green", "yellow"
TABLES, FIGURES = "tables", "figures"
_NEED_A_LOOK = ("different", "removed")

Say = Callable[[str], object]
WIDTH = 100  # columns
Advance = Callable[[str, float], None]


class _Terminal(Console):
    """A console whose command goes on when the reader of its output leaves."""

    def on_broken_pipe(self) -> None:
        discard_output()


class Reporter:
    """The sentences, counts and flags of one command.

    On a terminal, labels have colours, as `rich` chooses them: none with `NO_COLOR`, some with `FORCE_COLOR` even in a
    pipe.

    Args:
        verbose: True to print every sentence; otherwise files that need no look are only counted.
        say: prints a line; None for standard output, above the progress bar if there is one.
    """

    def __init__(self, *, verbose: bool = False, say: Say | None = None) -> None:
        self.verbose = verbose
        self._say = say
        self._counts: dict[str, Counter[str]] = {TABLES: Counter(), FIGURES: Counter()}
        self._verdicts: list[tuple[str, str, str | None]] = []
        self._flags = 0

    def line(self, text: str, style: str | None = None) -> None:
        """Print a line."""
        if self._say:
            self._say(text)
        else:
            self._console.out(text, style=style, highlight=False)

    def detail(self, text: str) -> None:
        """Print a line if the reporter is verbose."""
        if self.verbose:
            self.line(text)

    def flag(self, text: str) -> None:
        """Print a line about something that deserves a look, and count it."""
        self._flags += 1
        self.line(text, FLAGGED)

    def table(self, path: Path, change: "Change") -> None:
        """Count a table by its change, and name it if it is different or removed."""
        self._counts[TABLES][change.kind] += 1
        self.line(change.of(path)) if change.kind in _NEED_A_LOOK else self.detail(change.of(path))

    def current(self, path: Path) -> None:
        """Count a table that is up to date."""
        self._counts[TABLES]["up to date"] += 1
        self.detail(f"{path}: up to date")

    def figure(self, path: Path, caption: str, *, drawn: bool) -> None:
        """Count a figure that was drawn or is up to date."""
        self._counts[FIGURES]["drawn" if drawn else "up to date"] += 1
        self.detail(f"{'drew' if drawn else 'kept'} {path}: {caption}")

    def made(self, path: Path, change: "Change | None") -> None:
        """Count a product that was made, or is up to date if there is no change."""
        if path.suffix == ".png":
            self.figure(path, drawn_texts(path).caption, drawn=change is not None)
        elif change:
            self.table(path, change)
        else:
            self.current(path)

    def made_quietly(self, path: Path, change: "Change | None") -> None:
        """Print a line about a file that covers all sweeps, if the reporter is verbose."""
        self.detail(f"wrote {path}: {path.stat().st_size / 1e6:.2f} MB" if change else f"{path}: up to date")

    def verdict(self, label: str, text: str, style: str | None = GOOD) -> None:
        """Keep a verdict of the command for `end`."""
        self._verdicts.append((label, text, style))

    def progress(self, seconds: float) -> AbstractContextManager[Advance]:
        """The progress of work of this many estimated seconds of one worker."""
        return reporting(self._console, seconds)

    def end(self, *, failed: bool) -> None:
        """Print the counts, the verdicts and the number of flags; after a failure, do not say that there is none."""
        for noun, counts in self._counts.items():
            if counts:
                self._labelled(noun, ", ".join(f"{count} {state}" for state, count in counts.items()))
        for label, text, style in self._verdicts:
            self._labelled(label, text, style)
        if self._flags:
            self._labelled("flagged", f"{counted(self._flags, 'line')} above", FLAGGED)
        elif self._verdicts and not failed:
            self._labelled("flagged", "nothing", GOOD)

    def next(self, text: str) -> None:
        """Print what the reader can do next."""
        self._labelled("next", text)

    def _labelled(self, label: str, text: str, style: str | None = None) -> None:
        if self._say:
            self._say(f"{label}: {text}")
            return
        self._console.out(f"{label}:", style=style, highlight=False, end=" ")
        self._console.out(text, highlight=False)

    @cached_property
    def _console(self) -> Console:
        return _Terminal()


@contextmanager
def reporter(*, verbose: bool) -> Iterator[Reporter]:
    """The reporter of a command; its counts and verdicts appear at the end of the block, also after an error."""
    report = Reporter(verbose=verbose)
    try:
        yield report
    except BaseException:
        report.end(failed=True)
        raise
    report.end(failed=False)


ALOUD = Reporter(verbose=True)  # for callers that want every sentence and no summary


class _Times(ProgressColumn):
    """The elapsed and the remaining time, in words."""

    def render(self, task: Task) -> Text:
        return Text(_times(task))


@contextmanager
def reporting(console: Console, total_seconds: float) -> Iterator[Advance]:
    """A function that counts finished work: the name of its sweep or step, and its estimated seconds of one worker.

    So the share done follows time rather than the number of chunks. On a terminal a bar is visible during the block; in
    a log, a line appears now and then.
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


def tell(text: str, *, wrap: bool = True) -> None:
    """Print a text, even to a pager that closes early or a terminal that lacks a character.

    Args:
        text: of any number of lines.
        wrap: wrap each line between words; False for a table.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        print("\n".join(map(wrapped, text.split("\n"))) if wrap else text, flush=True)
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Give up standard output after its reader has left; as the documentation of Python's signal module advises."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def wrapped(line: str) -> str:
    """A line, wrapped between words."""
    if len(line) <= WIDTH:
        return line
    return textwrap.fill(line, WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)
