"""The command line: python -m experiments COMMAND [SWEEP ...] [--config FILE] [--results DIR] [--jobs N].

A sweep is a block of the config; a chunk is a group of trials that one worker measures.

Exit status: 0 success; 1 failed measurement or check; 2 bad config or bad usage; 130 Ctrl-C; 143 SIGTERM.
"""

# Each command imports its dependencies when it runs, so that other commands and the workers start without them.

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.commands.options import (
    ConfigFile,
    Incomplete,
    Jobs,
    Names,
    Results,
    Scheduler,
    SchedulerFile,
    Wish,
)
from experiments.commands.outcome import UsageError, outcome
from experiments.folders import HOME, SHIPPED_CONFIG, default_results

if TYPE_CHECKING:
    from experiments.harness.config import Config
    from experiments.harness.grid import Sweep
    from experiments.harness.run import Workers

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help=__doc__)


@app.command(name="all")
def all_parts(
    names: Names = None,
    config: ConfigFile = SHIPPED_CONFIG,
    results: Results = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    scheduler_file: SchedulerFile = None,
) -> None:
    """Measure sweeps, draw their figures, check their tables and write the page.

    In the folder `results`, it also updates the published statements and the worked examples.

    A problem in one part does not stop the others; all problems are reported at the end.
    """
    with outcome(config, results, jobs, scheduler, scheduler_file, measures=True):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments.harness.problems import attempt
        from experiments.steps import examples, statements
        from experiments.steps import sweeps as steps

        workers = _workers(jobs, scheduler, scheduler_file)
        parts: list[Callable[[], object]] = [
            partial(steps.measure, loaded, sweeps, folder, workers, jobs=jobs),
            partial(steps.draw, loaded, sweeps, folder, jobs=jobs),
            partial(steps.check, loaded, sweeps, folder),
        ]
        if not names and statements.is_home(folder):
            parts += [
                partial(statements.update_statements, folder, workers, jobs),
                partial(examples.write_examples, folder),
                partial(examples.draw_examples, folder, jobs=jobs),
            ]
        if not names:
            parts.append(partial(steps.write_page, loaded, folder, config))
        attempt(parts)


@app.command()
def run(
    names: Names = None,
    config: ConfigFile = SHIPPED_CONFIG,
    results: Results = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    scheduler_file: SchedulerFile = None,
) -> None:
    """Measure the missing chunks of sweeps and write their tables."""
    with outcome(config, results, jobs, scheduler, scheduler_file, measures=True):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments.steps.sweeps import measure

        measure(loaded, sweeps, folder, _workers(jobs, scheduler, scheduler_file), jobs=jobs)


@app.command(name="draw")
def draw_figures(names: Names = None, config: ConfigFile = SHIPPED_CONFIG, results: Results = None) -> None:
    """Draw the figures of sweeps from their tables."""
    with outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments.steps.sweeps import draw

        draw(loaded, sweeps, folder)


@app.command(name="check")
def check_results(names: Names = None, config: ConfigFile = SHIPPED_CONFIG, results: Results = None) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones; list leftover files."""
    with outcome(config, results):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments.steps.sweeps import check

        check(loaded, sweeps, folder)


@app.command()
def page(config: ConfigFile = SHIPPED_CONFIG, results: Results = None, incomplete: Incomplete = False) -> None:
    """Write the page, index.html in the results folder, and draw its figures."""
    with outcome(config, results):
        loaded, _, folder = _load(config, None, results)
        from experiments.steps import examples, statements
        from experiments.steps import sweeps as steps

        steps.draw(loaded, steps.whole_sweeps(loaded, folder, incomplete=incomplete), folder)
        if statements.is_home(folder):
            examples.draw_examples(folder)
        steps.write_page(loaded, folder, config, incomplete=incomplete)


@app.command()
def plan(
    names: Names = None,
    config: ConfigFile = SHIPPED_CONFIG,
    results: Results = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    scheduler_file: SchedulerFile = None,
) -> None:
    """Print the chunks that a run would measure, and roughly how much time and memory it would take."""
    with outcome(config, results, jobs, scheduler, scheduler_file):
        loaded, sweeps, folder = _load(config, names, results)
        from experiments.harness.plan import plan_lines
        from experiments.steps.orphans import find_orphans

        lines = plan_lines(loaded, sweeps, folder, _workers(jobs, scheduler, scheduler_file))
        print("\n".join([*lines, *find_orphans(folder, loaded).lines()]))


@app.command()
def walk(
    example: Annotated[str | None, typer.Argument(help="Name of an example; omit it to list all.")] = None,
    q: Annotated[Path | None, typer.Option("--q", metavar="FILE", help="Your queries, as CSV.")] = None,
    k: Annotated[Path | None, typer.Option("--k", metavar="FILE", help="Your keys, as CSV.")] = None,
    v: Annotated[Path | None, typer.Option("--v", metavar="FILE", help="Your values, as CSV.")] = None,
    scaling: Annotated[str | None, typer.Option(metavar="RULE", help="Scaling rule. Default: d_k^1/2.")] = None,
    mask: Annotated[
        str | None,
        typer.Option(metavar="causal", help="Each query sees only the keys up to its own position. Default: no mask."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Output folder. Default: results/walk.")] = None,
) -> None:
    """Walk through a worked example step by step, or through attention on your own matrices."""
    with outcome(SHIPPED_CONFIG, None):
        from experiments.steps.examples import walk_any

        walk_any(example, q, k, v, scaling=scaling, mask=mask, out=out)


@app.command(name="prune")
def prune_results(config: ConfigFile = SHIPPED_CONFIG, results: Results = None) -> None:
    """Remove tables and figures that the suite wrote for sweeps that the config no longer has."""
    with outcome(config, results):
        loaded, _, folder = _load(config, None, results)
        from experiments.steps.sweeps import prune

        prune(loaded, folder)


@app.command(name="statements")
def show_statements(jobs: Jobs = None) -> None:
    """Compare published statements with measurements and computations; list wrong and misleading ones."""
    with outcome(SHIPPED_CONFIG, None, jobs):
        from experiments.steps import statements

        statements.update_statements(HOME, _workers(jobs), jobs)
        print(statements.statement_summary(HOME))


@app.command()
def cost() -> None:
    """Measure the time and memory of attention on this machine, and how both grow."""
    with outcome(SHIPPED_CONFIG, None):
        from experiments.steps import benchmarks

        print(benchmarks.time_attention(HOME))


@app.command()
def calibrate(
    full: Annotated[
        bool, typer.Option("--full", help="Run all configs under 300 root seeds each, and write tables.")
    ] = False,
    again: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CONFIG]...", help="Run these configs alone, and write their rows of the tables."),
    ] = None,
) -> None:
    """Run the check under many root seeds; count its false alarms and the planted faults that it finds."""
    with outcome(SHIPPED_CONFIG, None):
        from experiments.steps import calibration

        calibration.calibrate(HOME, full=full, again=again or ())


@app.command(name="bench")
def run_bench() -> None:
    """Compare the suite's speed with that of other ways to measure, and with the least work that a plain way needs."""
    with outcome(SHIPPED_CONFIG, None):
        loaded, _, folder = _load(SHIPPED_CONFIG, None, None)
        from experiments.steps import benchmarks

        print(benchmarks.time_suite(loaded, folder))
        print(benchmarks.time_cluster(folder))


@app.command()
def design(
    d_k: Annotated[int, typer.Option("--d-k", metavar="N", min=1, help="Width of queries and keys.")],
    n_keys: Annotated[int, typer.Option("--n-keys", metavar="N", min=2, help="Keys of a row.")],
    entropy_share: Wish = None,
    effective_keys: Wish = None,
    max_weight: Wish = None,
    row_variance: Wish = None,
    inputs: Annotated[str, typer.Option(help="Law of the entries, as in a config.")] = "gaussian",
    query_mean: Annotated[float, typer.Option(help="Mean of the entries of queries.")] = 0.0,
    key_mean: Annotated[float, typer.Option(help="Mean of the entries of keys.")] = 0.0,
    query_std: Annotated[float, typer.Option(help="Standard deviation of the entries of queries.")] = 1.0,
    key_std: Annotated[float, typer.Option(help="Standard deviation of the entries of keys.")] = 1.0,
    correlation: Annotated[float, typer.Option(help="Of a query and its own key, from -1 to 1.")] = 0.0,
    spectrum: Annotated[float, typer.Option(help="Power of the covariance spectrum, as in a config.")] = 0.0,
    normalize: Annotated[str, typer.Option(metavar="none|l2|rms", help="Normalization of queries and keys.")] = "none",
    mask: Annotated[str, typer.Option(metavar="none|causal", help="causal: rows of 1 to N keys.")] = "none",
) -> None:
    """Find the divisor that gives a row a wanted entropy, effective number of keys, largest weight or variance."""
    with outcome(SHIPPED_CONFIG, None):
        from experiments.steps.design import designed, law_of, shortest_under, wanted

        try:
            target, value = wanted(
                {
                    "entropy_share": entropy_share,
                    "effective_keys": effective_keys,
                    "max_weight": max_weight,
                    "row_variance": row_variance,
                }
            )
            law = law_of(
                inputs,
                query_mean=query_mean,
                key_mean=key_mean,
                query_std=query_std,
                key_std=key_std,
                correlation=correlation,
                spectrum=spectrum,
                normalize=normalize,
            )
            for line in designed(target, value, d_k, n_keys, law, shortest_under(mask)):
                print(line)
        except ValueError as error:
            raise UsageError(str(error)) from None


@app.command()
def readme() -> None:
    """Rewrite the generated parts of README.md and docs/ from results/."""
    with outcome(SHIPPED_CONFIG, None):
        from experiments.steps.markdown import rewrite_pages

        rewrite_pages()


def _load(config: Path, names: list[str] | None, results: Path | None) -> tuple["Config", tuple["Sweep", ...], Path]:
    """The config, the requested sweeps, and the folder of their tables.

    Args:
        config: path of the config.
        names: names of sweeps; None or none for all.
        results: the folder of the tables; None for the default of the config.

    Raises:
        ConfigError: the config is invalid.
        UsageError: a sweep is unknown, or the default results folder of the config belongs to something else.
    """
    from experiments.harness.config import load_config

    loaded = load_config(config)
    known = {sweep.name: sweep for sweep in loaded.sweeps}
    for name in names or ():
        if name not in known:
            raise UsageError(f"{config}: got the sweep {name!r}, expected one of {', '.join(known)}")
    chosen = tuple(sweep for sweep in loaded.sweeps if not names or sweep.name in names)
    try:
        return loaded, chosen, results or default_results(config)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _workers(jobs: int | None, scheduler: str | None = None, scheduler_file: Path | None = None) -> "Workers":
    """The processes that measure: those of a cluster, or that many here, by default one per processor.

    Raises:
        UsageError: the options exclude each other, or Dask is not installed.
    """
    from experiments.harness.local import LocalWorkers, default_jobs

    cluster = scheduler or scheduler_file
    if not cluster:
        return LocalWorkers(jobs or default_jobs())
    if jobs or (scheduler and scheduler_file):
        raise UsageError("expected one of --jobs, --scheduler and --scheduler-file, got several")
    try:
        from experiments.harness.cluster.dask_cluster import DaskCluster
    except ModuleNotFoundError as error:
        raise UsageError(f"a cluster needs the package {error.name}; install it with: make cluster") from None
    return DaskCluster(cluster, partial(print, flush=True))  # at once in a log too: a run may wait for workers


if __name__ == "__main__":
    app(prog_name="python -m experiments")
