"""The options that several commands share, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

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
Jobs = Annotated[int | None, typer.Option(metavar="N", min=1, help="Worker processes. Default: one per processor.")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Measure on the Dask cluster with this scheduler, such as tcp://host:8786."),
]
SchedulerFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Measure on the Dask cluster whose scheduler wrote this file.")
]
Wish = Annotated[float | None, typer.Option(metavar="VALUE", help="The wanted value of this metric.")]
Incomplete = Annotated[
    bool, typer.Option("--incomplete", help="Write the page even if sweeps are missing; the page then says so.")
]
