"""What a user asked for: the config, the sweeps, the folder and the workers, from the options of a command."""

# Imports are within functions, so that commands start without the packages that they do not need.

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.commands.outcome import UsageError
from experiments.folders import SHIPPED_CONFIG, default_results

if TYPE_CHECKING:
    from experiments.harness.config import Config
    from experiments.harness.grid import Sweep
    from experiments.harness.run import Workers

_ROOT = Path(__file__).parents[2]
_FORMATS = ("png", "svg", "pdf")


def need_root() -> None:
    """Raise `UsageError` unless the current folder has the shipped config: default paths are relative to the root."""
    if not SHIPPED_CONFIG.exists():
        raise UsageError(f"run it in the repository root {_ROOT}, got the folder {Path.cwd()} without {SHIPPED_CONFIG}")


def load(config: Path, names: list[str] | None, results: Path | None) -> tuple["Config", tuple["Sweep", ...], Path]:
    """The config, the requested sweeps, and the folder of their tables.

    Args:
        config: path of the config.
        names: names of sweeps; None or none for all.
        results: the folder of the tables; None for the default of the config.

    Raises:
        ConfigError: the config is invalid.
        UsageError: the shipped config is not in this folder, a sweep is unknown, or the default results folder of the
            config belongs to something else.
    """
    from experiments.harness.config import load_config

    if config == SHIPPED_CONFIG:
        need_root()
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


def workers(
    jobs: int | None,
    scheduler: str | None = None,
    scheduler_file: Path | None = None,
    say: Callable[[str], object] = print,
) -> "Workers":
    """The processes that measure: those of a cluster, or that many here, by default one per processor.

    Args:
        jobs, scheduler, scheduler_file: as the user gave them.
        say: prints a line about the workers of a cluster, at once.

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
        from experiments.harness.cluster import DaskCluster
    except ModuleNotFoundError as error:
        raise UsageError(f"a cluster needs the package {error.name}; install it with: make cluster") from None
    return DaskCluster(cluster, say)


def longest_run(scheduler: str | None, scheduler_file: Path | None, *, yes: bool) -> float | None:
    """The longest estimate, in seconds, of a run that starts without consent; None for no limit.

    A cluster has no limit: its workers come and go, so nobody knows the time before the run.
    """
    from experiments.harness.plan import LONGEST

    return None if yes or scheduler or scheduler_file else LONGEST


def further_formats(formats: str) -> list[str]:
    """The formats besides PNG that the option --format asks for.

    Args:
        formats: names separated by commas.

    Raises:
        UsageError: a name is none of the formats.

    >>> further_formats("png"), further_formats("svg,pdf")
    ([], ['svg', 'pdf'])
    """
    names = [name.strip() for name in formats.split(",")]
    for name in names:
        if name not in _FORMATS:
            expected = ", ".join(_FORMATS)
            raise UsageError(f"--format: got the format {name!r}, expected some of {expected}, separated by commas")
    return [name for name in names if name != "png"]
