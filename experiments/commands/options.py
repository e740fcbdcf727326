"""The options that several commands share, each declared once."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer


def _print_version(wanted: bool) -> None:
    if wanted:
        import sdpa

        typer.echo(f"sdpa-suite {sdpa.__version__}")
        raise typer.Exit


def whole_from(least: int) -> Callable[[str], int]:
    """The parser of an option for whole numbers that are not below the least."""

    def whole(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise typer.BadParameter(f"expected a whole number from {least}, got {text!r}")
        return int(text)

    return whole


def _real(text: str) -> float:
    """The parser of an option for numbers."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"expected a number, got {text!r}") from None


number = partial(typer.Option, metavar="NUMBER", parser=_real)
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
    int | None,
    typer.Option(
        "--jobs", "-j", metavar="N", parser=whole_from(1), help="Worker processes. Default: one per processor."
    ),
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
    typer.Option("--format", metavar="NAMES", help="Formats of the sweeps' figures: png,svg,pdf. PNG is always drawn."),
]
Wish = Annotated[float | None, number(help="The wanted value of this metric.")]
Mask = Annotated[
    str | None,
    typer.Option(
        metavar="none|causal", help="causal: each query sees only the keys up to its own position. Default: none."
    ),
]
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
