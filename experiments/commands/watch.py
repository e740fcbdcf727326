"""`watch`: a run at every save of the config, in a process that has loaded everything."""

import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import typer

from experiments.commands.request import Body, Request, exit_on_error, job_of, run_command
from experiments.config.loader import ConfigError
from experiments.config.paths import FIGURE_FOLDER
from experiments.tables.reporter import Reporter

_PAUSE = 0.2  # seconds between looks at the config
_FAILED = 2  # the largest status of a run that waits for the next save


def at_every_save(asked: Request, body: Body) -> NoReturn:
    """Run a command now and at every save of its config, until Ctrl-C; errors wait for the next
    save. A config that does not exist, and an unknown sweep of a valid one, end it at the start.
    """
    seen = -1
    say = Reporter().line
    with exit_on_error(folder=lambda: asked.folder):
        try:
            job_of(asked, Reporter())
        except ConfigError:  # a save may mend it
            if not asked.config.is_file():
                raise
        while True:
            if (saved := _saved(asked.config)) == seen:
                time.sleep(_PAUSE)
                continue
            seen = saved
            try:
                run_command(asked, body)
            except typer.Exit as end:
                if end.exit_code > _FAILED:
                    raise
            figures = asked.folder / FIGURE_FOLDER
            say(f"figures in {figures}; waiting for {asked.config}; Ctrl-C ends")


def _saved(path: Path) -> int:
    """The time of the last save, in nanoseconds; 0 without the file."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0
