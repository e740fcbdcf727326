"""The command line: python -m experiments COMMAND [SWEEP ...] [--config FILE] [--results DIR] [--jobs N].

A sweep is a block of the config. A chunk is a group of trials that one worker measures. A pilot is a sample of 200
trials of a cell; it tells how many trials a wanted precision needs.

Exit status: 0 success; 1 failed measurement or check; 2 bad config or bad usage; 130 Ctrl-C; 143 SIGTERM.
"""

# Each command imports its dependencies when it runs, so that other commands and the workers start without them.

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from experiments.commands import Mask, Request, UsageError, Wish, about_sweeps, need_root, number, outcome, whole_from
from experiments.folders import HOME

SWEEPS = ("names", "config", "results", "verbose")
WORKERS = ("jobs", "scheduler", "scheduler_file")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help=__doc__)


def _print_version(wanted: bool) -> None:
    if wanted:
        import sdpa

        typer.echo(f"sdpa-suite {sdpa.__version__}")
        raise typer.Exit


@app.callback()
def _options_of_all(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print name and version, and exit."),
    ] = False,
) -> None:
    pass


@about_sweeps(app, *SWEEPS, *WORKERS, "format", "yes", name="all", measures=True)
def all_parts(request: Request) -> None:
    """Measure sweeps, draw their figures, check their tables and write the page.

    In the folder `results`, it also updates the published statements, the worked examples and the shipped diagnosis.

    A problem in one part does not stop the others; all problems are reported at the end.
    """
    loaded, sweeps, folder = request.load()
    from experiments.harness.problems import attempt
    from experiments.page.parts import page_path
    from experiments.steps import diagnosis, examples, statements
    from experiments.steps import sweeps as steps
    from experiments.steps.measuring import measure
    from experiments.steps.reporter import reporter

    jobs, formats = request.jobs, request.further_formats
    with reporter(verbose=request.verbose) as report:
        workers = request.workers(report.line)
        parts: list[Callable[[], object]] = [
            partial(measure, loaded, sweeps, folder, workers, jobs=jobs, limit=request.limit, report=report),
            partial(steps.write_overview, loaded, folder, report),
            partial(steps.draw, loaded, sweeps, folder, jobs=jobs, formats=formats, report=report),
            partial(steps.check, loaded, sweeps, folder, report=report),
        ]
        if not request.names and statements.is_home(folder):
            parts += [
                partial(statements.update_statements, loaded, folder, report),
                partial(examples.write_examples, folder, report),
                partial(diagnosis.write_diagnosis, folder, report),
                partial(diagnosis.draw_diagnosis, folder, report),
            ]
        if not request.names:
            parts.append(partial(steps.write_page, loaded, folder, request.config, report=report))
        attempt(parts)
    if not request.names:
        report.next(f"open {page_path(folder)} in a browser")


@about_sweeps(app, *SWEEPS, *WORKERS, "yes", measures=True)
def run(request: Request) -> None:
    """Measure the missing chunks of sweeps and write their tables."""
    loaded, sweeps, folder = request.load()
    from experiments.harness.problems import attempt
    from experiments.steps.measuring import measure
    from experiments.steps.reporter import reporter
    from experiments.steps.sweeps import write_overview

    with reporter(verbose=request.verbose) as report:
        workers, limit = request.workers(report.line), request.limit
        parts: list[Callable[[], object]] = [
            partial(measure, loaded, sweeps, folder, workers, jobs=request.jobs, limit=limit, report=report),
            partial(write_overview, loaded, folder, report),
        ]
        attempt(parts)


@about_sweeps(app, *SWEEPS, "format")
def draw(request: Request) -> None:
    """Draw the figures of sweeps from their tables."""
    loaded, sweeps, folder = request.load()
    from experiments.steps.reporter import reporter
    from experiments.steps.sweeps import draw

    with reporter(verbose=request.verbose) as report:
        draw(loaded, sweeps, folder, formats=request.further_formats, report=report)


@about_sweeps(app, *SWEEPS)
def check(request: Request) -> None:
    """Compare tables with the config and their checksums, and measured values with exact ones; list leftover files."""
    loaded, sweeps, folder = request.load()
    from experiments.steps.reporter import reporter
    from experiments.steps.sweeps import check

    with reporter(verbose=request.verbose) as report:
        check(loaded, sweeps, folder, report=report)


@about_sweeps(app, "config", "results", "incomplete", "verbose")
def page(request: Request) -> None:
    """Write the page, index.html in the results folder, and draw its figures."""
    loaded, _, folder = request.load()
    from experiments.page.parts import page_path
    from experiments.steps import diagnosis, examples, statements
    from experiments.steps import sweeps as steps
    from experiments.steps.reporter import reporter

    with reporter(verbose=request.verbose) as report:
        whole = steps.whole_sweeps(loaded, folder, incomplete=request.incomplete)
        steps.draw(loaded, whole, folder, report=report)
        if statements.is_home(folder):
            examples.write_examples(folder, report)
            diagnosis.draw_diagnosis(folder, report)
        steps.write_page(loaded, folder, request.config, incomplete=request.incomplete, report=report)
    report.next(f"open {page_path(folder)} in a browser")


@about_sweeps(app, *SWEEPS, *WORKERS)
def plan(request: Request) -> None:
    """Print the chunks that a run would measure, and roughly how much time and memory it would take."""
    loaded, sweeps, folder = request.load()
    from experiments.harness.files import STORE
    from experiments.harness.plan import exceeds, plan_lines
    from experiments.harness.run import find_work
    from experiments.harness.store import Store
    from experiments.steps.sweeps import leftover_lines

    workers, limit = request.workers(), request.limit
    work = find_work(Store(folder / STORE, loaded.seed), sweeps)
    lines = plan_lines(loaded, sweeps, folder, work, workers, limit)
    print("\n".join([*lines, *leftover_lines(loaded, folder)]))
    print(f"next: {request.as_typed('make all', yes=exceeds(limit, work, workers))}")


@about_sweeps(app, "config", "results")
def prune(request: Request) -> None:
    """Remove tables and figures that the suite wrote for sweeps that the config no longer has."""
    loaded, _, folder = request.load()
    from experiments.steps.sweeps import prune

    prune(loaded, folder)


@about_sweeps(app, "verbose")
def statements(request: Request) -> None:
    """Compare published statements with measurements and computations; list wrong and misleading ones."""
    need_root()
    from experiments.claims.table import read_statements, summary
    from experiments.steps import statements
    from experiments.steps.reporter import reporter

    with reporter(verbose=request.verbose) as report:
        statements.update_statements(request.load()[0], HOME, report)
    print(summary(read_statements(HOME), whole=request.verbose))


@app.command()
def walk(
    example: Annotated[str | None, typer.Argument(help="Name of an example; omit it to list all.")] = None,
    q: Annotated[Path | None, typer.Option("--q", metavar="FILE", help="Your queries, as CSV.")] = None,
    k: Annotated[Path | None, typer.Option("--k", metavar="FILE", help="Your keys, as CSV.")] = None,
    v: Annotated[Path | None, typer.Option("--v", metavar="FILE", help="Your values, as CSV.")] = None,
    scaling: Annotated[str | None, typer.Option(metavar="RULE", help="Scaling rule. Default: d_k^1/2.")] = None,
    mask: Mask = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Output folder. Default: results/walk.")] = None,
) -> None:
    """Walk through a worked example step by step, or through attention on your own matrices."""
    with outcome():
        from experiments.steps.examples import walk_any

        walk_any(example, q, k, v, scaling=scaling, mask=mask, out=out)


@app.command()
def diagnose(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE [FILE]", help="One file with q and k, or one for each; omit it for an example."),
    ] = None,
    scaling: Annotated[str | None, typer.Option(metavar="RULE", help="Scaling rule. Default: d_k^1/2.")] = None,
    mask: Mask = None,
    axes: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Leading axes of q. Default: the last ones of batch,layer,head."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Output folder. Default: results/diagnosis/NAME of the file.")
    ] = None,
) -> None:
    """Diagnose the attention of your own queries and keys, or of a layer before and after training.

    Files are .npy, .npz or .safetensors; docs/your-model.md explains them.
    """
    with outcome():
        from experiments.steps import diagnosis

        options = {"--scaling": scaling, "--mask": mask, "--axes": axes, "--out": out}
        given = [name for name, value in options.items() if value is not None]
        if not files and given:
            raise UsageError(f"{given[0]}: expected files with queries and keys (make diagnose Q=q.npy K=k.npy)")
        if not files:
            need_root()
            diagnosis.diagnose_example(HOME)
            return
        try:
            report = diagnosis.diagnosed(files, scaling=scaling, mask=mask, axes=axes, out=out)
        except ValueError as error:
            raise UsageError(str(error)) from None
        report()


@app.command()
def design(
    d_k: Annotated[int, typer.Option("--d-k", metavar="N", parser=whole_from(1), help="Width of queries and keys.")],
    n_keys: Annotated[int, typer.Option("--n-keys", metavar="N", parser=whole_from(2), help="Keys of a row.")],
    entropy_share: Wish = None,
    effective_keys: Wish = None,
    max_weight: Wish = None,
    row_variance: Wish = None,
    inputs: Annotated[str, typer.Option(help="Law of the entries, as in a config.")] = "gaussian",
    query_mean: Annotated[float, number(help="Mean of the entries of queries.")] = 0.0,
    key_mean: Annotated[float, number(help="Mean of the entries of keys.")] = 0.0,
    query_std: Annotated[float, number(help="Standard deviation of the entries of queries.")] = 1.0,
    key_std: Annotated[float, number(help="Standard deviation of the entries of keys.")] = 1.0,
    correlation: Annotated[float, number(help="Of a query and its own key, from -1 to 1.")] = 0.0,
    spectrum: Annotated[float, number(help="Power of the covariance spectrum, as in a config.")] = 0.0,
    normalize: Annotated[str, typer.Option(metavar="none|l2|rms", help="Normalization of queries and keys.")] = "none",
    mask: Annotated[str, typer.Option(metavar="none|causal", help="causal: rows of 1 to N keys.")] = "none",
) -> None:
    """Find the divisor that gives a row a wanted entropy, effective number of keys, largest weight or variance."""
    with outcome():
        from experiments.steps.design import designed, law_of, wanted
        from sdpa.attention import is_causal

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
            print("\n".join(designed(target, value, d_k, n_keys, law, 1 if is_causal(mask) else None)))
        except ValueError as error:
            raise UsageError(str(error)) from None


@app.command()
def readme() -> None:
    """Rewrite the generated parts of README.md and docs/ from results/, and config.schema.json."""
    with outcome():
        need_root()
        from experiments.steps.documents import rewrite_pages

        rewrite_pages()


@app.command()
def notebooks() -> None:
    """Run the notebooks of docs/ in clean kernels, and write their outputs into them."""
    with outcome():
        need_root()
        from experiments.steps.documents import run_notebooks

        try:
            run_notebooks()
        except ModuleNotFoundError as error:
            raise UsageError(f"notebooks need the package {error.name}; install it with: make notebooks") from None


if __name__ == "__main__":
    app(prog_name="python -m experiments")
