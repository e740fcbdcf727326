"""What a command says: sentences as it works, and at the end counts, verdicts and flags.

Steps tell the reporter what they did; it alone decides what a reader sees. Unchanged tables and figures become counts,
and captions stay in their files; with `-v` every sentence appears. Problems and flags always appear in full.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.folders import drawn_texts
from experiments.harness.wording import counted
from experiments.steps.saying import Say, discard_output

if TYPE_CHECKING:
    from rich.console import Console

    from experiments.harness.compare import Change
    from experiments.harness.progress import Advance

GOOD, FLAGGED = "green", "yellow"
TABLES, FIGURES = "tables", "figures"
_NEED_A_LOOK = ("different", "removed")


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

    def progress(self, seconds: float) -> "AbstractContextManager[Advance]":
        """The progress of work of this many estimated seconds of one worker."""
        from experiments.harness.progress import reporting

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
    def _console(self) -> "Console":
        from rich.console import Console

        class Terminal(Console):
            """A console whose command goes on when the reader of its output leaves."""

            def on_broken_pipe(self) -> None:
                discard_output()

        return Terminal()


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
