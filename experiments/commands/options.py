"""The options that several commands share, each declared once."""

from pathlib import Path
from typing import Annotated

import typer


def _print_version(wanted: bool) -> None:
    if wanted:
        import sdpa

        typer.echo(f"sdpa-suite {sdpa.__version__}")
        raise typer.Exit


Names = Annotated[
    list[str] | None, typer.Argument(metavar="SWEEP", help="Names of sweeps in the config. Default: all.")
]
ConfigFile = Annotated[Path, typer.Option("--config", metavar="FILE", help="Config that defines the sweeps.")]
Results = Annotated[
    Path | None,
    typer.Option(
        "--results",
        metavar="DIR",
        help="Results folder. Default: results, or results/NAME for another config NAME.yaml.",
    ),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Worker processes. Default: one per processor.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Measure on the Dask cluster with this scheduler, such as tcp://host:8786."),
]
SchedulerFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Measure on the Dask cluster whose scheduler wrote this file.")
]
Formats = Annotated[
    str,
    typer.Option(
        "--format", metavar="NAMES", help="Formats of the sweeps' figures: png,svg,pdf. PNG and SVG are always drawn."
    ),
]
Wish = Annotated[float | None, typer.Option(metavar="VALUE", help="The wanted value of this metric.")]
Incomplete = Annotated[
    bool, typer.Option("--incomplete", help="Write the page even if sweeps are missing; the page then says so.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print a line about each table, figure and test, and captions.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Start even if the estimate is longer than an hour.")]
Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print name and version, and exit.")
]
