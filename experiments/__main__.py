"""The command line: python -m experiments COMMAND [SWEEP ...] [--config FILE] [--results DIR]
[--jobs N].

A sweep is a block of the config. A chunk is a group of trials that one worker measures. A pilot is
a sample of 200 trials of a cell; it tells how many trials a wanted precision needs.

Exit status: 0 success; 1 failed measurement or check; 2 bad config or bad usage; 130 Ctrl-C; 143
SIGTERM.
"""

# Commands import what takes long to load, such as pandas, when they run.

import atexit
import gc
import os
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from experiments.commands import check as checks
from experiments.commands.job import Job
from experiments.commands.measure import SECONDS_OF_ROW, analyse_again, measure, plan_lines
from experiments.commands.request import Commands, command, exit_on_error
from experiments.commands.watch import at_every_save
from experiments.config.errors import UsageError, attempt
from experiments.config.paths import SHIPPED_RESULTS
from experiments.running.files import locked, require_folder, write_atomically
from experiments.studies import contributions, require_study
from experiments.tables.leftovers import leftovers, remove
from experiments.tables.reporter import FLAGGED
from experiments.tables.stored import Stored
from sdpa.masks import MASKS, MEANINGS

SWEEPS = ("sweep", "config", "results", "verbose")
WORKERS = ("jobs", "scheduler")
_SECONDS_OF_PAGE = 5  # roughly
Mask = Annotated[
    str | None,
    Option(
        metavar="|".join(MASKS),
        help=f"The keys that a query sees. {MEANINGS}. Default: none.",
    ),
]
Rule = Annotated[str | None, Option(metavar="RULE", help="Scaling rule. Default: d_k^1/2.")]

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help=__doc__,
)


@command(app, *SWEEPS, *WORKERS, "format", name="all")
def all_parts(job: Job) -> None:
    """Measure sweeps, draw their figures, check their tables, and write the page.

    Sweeps that you name come first on the page.

    A problem in one part does not stop the others; all problems are reported at the end.
    """
    if due := [sweep for sweep in job.sweeps if not Stored(job.folder, sweep).is_current]:
        # A figure without a drawing ends here, before anything is measured.
        from experiments.figures import rendering  # noqa: F401

        rows = SECONDS_OF_ROW * sum(len(sweep.cells) for sweep in due)
        figures = sum(len(sweep.figures) for sweep in due)
        job.report.bar.to_come = {
            "tables": rows,
            "figures": figures,
            "page": _SECONDS_OF_PAGE,
        }
    made = measure, checks.write_columns, _draw, checks.check
    _do(job, *made, _page, _name_leftovers)


@command(app, *SWEEPS, *WORKERS, "format", start=at_every_save)
def watch(job: Job) -> None:
    """At every save of the config, measure sweeps, draw their figures, and name tables that changed."""
    _do(job, measure, checks.write_columns, _draw)


@command(app, *SWEEPS, *WORKERS)
def run(job: Job) -> None:
    """Measure the missing chunks of sweeps and write their tables; make calls it results."""
    _do(job, measure, checks.write_columns)


@command(app, *SWEEPS)
def analyse(job: Job) -> None:
    """Make tables again from the measured values in them, where these took hours."""
    analyse_again(job)


@command(app, *SWEEPS, "jobs", "format")
def draw(job: Job) -> None:
    """Draw the figures of sweeps from their tables; make calls it figures."""
    _do(job, _draw)


@command(app, *SWEEPS, "jobs")
def check(job: Job) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones; name
    figures that are not of these tables.
    """
    _do(job, checks.check_figures, checks.check, _check_studies, _name_leftovers)


@command(app, *SWEEPS, "jobs")
def page(job: Job) -> None:
    """Write the page, index.html in the results folder, and draw its figures.

    Sweeps that you name come first.

    It names the sweeps without sound tables at its top; if there are any, the status is 1.
    """
    _do(job, _draw, _page)


@command(app, *SWEEPS, *WORKERS)
def plan(job: Job) -> None:
    """Print the chunks that a run would measure, and roughly how much time and memory it would
    take.
    """
    for line in plan_lines(job):
        job.report.line(line)
    _name_leftovers(job)


@command(app, "config", "results", name="clear-leftovers")
def clear_leftovers(job: Job) -> None:
    """Remove the files of sweeps and figures that the config no longer has, as the suite wrote them.

    The folder must have sound tables of every sweep of the config: else it may be that of another one.
    """
    for sweep in job.sweeps:
        if fault := Stored(job.folder, sweep).fault:
            expected = f"expected the tables of all sweeps of {job.config.path}"
            raise UsageError(f"{job.folder}: {expected}, got: {fault}; nothing is removed")
    with locked(job.folder):
        for path in chain(*leftovers(job.config, job.folder).values()):
            remove(path)
            job.report.line(f"removed {path}")


def _do(job: Job, *steps: Callable[[Job], None]) -> None:
    """Do the steps of a command in order, each even if others fail."""
    attempt(partial(step, job) for step in steps)


def _draw(job: Job) -> None:
    from experiments.figures.draw import draw_sweeps

    draw_sweeps(job.all_results, job.sweeps, jobs=job.jobs, formats=job.formats, report=job.report)


def _check_studies(job: Job) -> None:
    for study in contributions():
        if study.check:
            study.check(job.folder, job.report)


def _name_leftovers(job: Job) -> None:
    if names := leftovers(job.config, job.folder):
        text = f"{', '.join(names)}, not in the config; make clear-leftovers removes their files"
        job.report.verdict("left over", text, FLAGGED)


def _page(job: Job) -> None:
    from experiments.page.index import write_page

    write_page(job.all_results, job.names, job.report)
    job.report.next(f"open {job.folder / 'index.html'} in a browser")


@app.command()
def walk(
    example: Annotated[
        str | None, Argument(help="Name of an example; omit it to list all.")
    ] = None,
    q: Annotated[Path | None, Option(metavar="FILE", help="Your queries, as CSV.")] = None,
    k: Annotated[Path | None, Option(metavar="FILE", help="Your keys, as CSV.")] = None,
    v: Annotated[Path | None, Option(metavar="FILE", help="Your values, as CSV.")] = None,
    scaling: Rule = None,
    mask: Mask = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Output folder. Default: results/walk.")
    ] = None,
) -> None:
    """Walk through a worked example step by step, or through attention on your own matrices."""
    with exit_on_error():
        require_study("examples")
        from experiments.studies.examples import walk as examples

        has_own = any((q, k, v, scaling, mask, out))
        if example and has_own:
            got = f"got {example} and options of matrices"
            raise UsageError(f"expected an example or your own matrices, {got}")
        if example:
            examples.walk(example)
        elif q and k:
            folder = require_folder(out or SHIPPED_RESULTS / "walk")
            examples.walk_own([q, k, v], scaling or "d_k^1/2", mask or "none", folder)
        elif has_own:
            raise UsageError(
                "expected both queries and keys, as --q FILE --k FILE (make walk Q=FILE K=FILE)"
            )
        else:
            examples.list_all()


@command(app, "verbose")
def model(job: Job) -> None:
    """Diagnose every head of a pretrained language model, and run it under other divisors."""
    require_study("smollm2")
    from experiments.studies.smollm2 import command as models

    models.measure_model(SHIPPED_RESULTS, job.report)


@command(app, "verbose")
def readme(job: Job) -> None:
    """Write what follows from no sweep alone, such as worked examples and figures of trained models, and
    the generated parts of README.md, docs/ and results/.
    """
    from experiments.page.blocks import rewrite

    writers = [study.write for study in contributions() if study.write]
    attempt(partial(write, SHIPPED_RESULTS, job.report) for write in writers)
    pages = [Path("README.md"), *Path("docs").glob("*.md"), *SHIPPED_RESULTS.rglob("*.md")]
    texts = {path: path.read_text("utf-8") for path in pages}
    for path, text in rewrite(texts, SHIPPED_RESULTS).items():
        write_atomically(path, text.encode())


def main() -> None:
    """Run a command. Its options may come from make: as variables of the environment that
    SDPA_GIVEN names.
    """
    names = os.environ.get("SDPA_GIVEN", "").split()
    values: dict[str, str | list[str]] = {}
    for name in names:
        if given := os.environ.get(name):
            values[name.lower()] = [given] if name == "SWEEP" else given
    atexit.register(gc.freeze)  # nothing looks for garbage among all objects at the end
    commands: Any = typer.main.get_command(app)
    commands(
        prog_name="python -m experiments", default_map=dict.fromkeys(commands.commands, values)
    )


if __name__ == "__main__":
    main()
