"""`watch`: a run at every save of the config, in a process that has loaded everything, and what it
changed.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from experiments.commands.request import Body, Request, exit_on_error, job_of, run_command
from experiments.config.loader import ConfigError
from experiments.config.paths import FIGURE_FOLDER
from experiments.kinds.figures import metrics_of
from experiments.tables.reporter import Reporter

if TYPE_CHECKING:
    from experiments.tables.results import Results

_PAUSE = 0.2  # seconds between looks at the config
_FAILED = 2  # the largest status of a run that waits for the next save


def at_every_save(asked: Request, body: Body) -> NoReturn:
    """Run a command now and at every save of its config, until Ctrl-C; errors wait for the next
    save. A config that does not exist, and an unknown sweep of a valid one, end it at the start.
    """
    before: dict[str, Results] = {}
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
                job = run_command(asked, body)
            except typer.Exit as end:
                if end.exit_code > _FAILED:
                    raise
            else:
                now = {sweep.name: job.study[sweep.name] for sweep in job.sweeps}
                for name in before.keys() & now.keys():
                    for line in changes(before[name], now[name]):
                        say(f"{name}: {line}")
                before |= now
            figures = asked.folder / FIGURE_FOLDER
            say(f"figures in {figures}; waiting for {asked.config}; Ctrl-C ends")


def _saved(path: Path) -> int:
    """The time of the last save, in nanoseconds; 0 without the file."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


def changes(before: "Results", now: "Results") -> Iterator[str]:
    """A line for each axis of one value that has another one, and for each metric of the figures of a
    sweep that changed beyond the intervals of both: its largest relative change there, and the row.

    Rows belong together that have the same rule and the same values of all axes that vary.
    """
    old, new = before.measured, now.measured
    varied = dict.fromkeys([*now.axes.varied(old), *now.axes.varied(new)])
    keys = [name for name in (*varied, "scaling") if name in old and name in new]
    for name in now.axes.among(new, *varied):
        if name not in old:
            continue
        was, value = old[name].iloc[0], new[name].iloc[0]
        if was != value:
            yield f"all rows have {name} = {value}, not {was}"
    shown = metrics_of(now.sweep.figures)
    metrics = [name for name in now.metrics if name in shown and name in old]
    how: dict[str, Any] = {"on": keys} if keys else {"how": "cross"}  # of one row
    for name in metrics:
        both = old.merge(new, suffixes=("_before", ""), **how)
        was, low, high = (both[f"{name}{end}_before"] for end in ("", "_low", "_high"))
        is_apart = (both[f"{name}_high"] < low) | (both[f"{name}_low"] > high)
        change = (both[name] / was - 1).abs().where(is_apart, 0.0)
        if change.any():
            place = int(change.to_numpy().argmax())
            row = both.iloc[place]
            where = ", ".join(f"{key} = {row[key]}" for key in keys)
            yield f"{name} {was[place]:.4g} -> {row[name]:.4g} at {where}"
