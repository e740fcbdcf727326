"""An audit: find the function, audit it, print the report, write its tables and draw the mass that
rows lose.
"""

import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.audit.examples import EXAMPLES
from experiments.engine.files import write_atomically
from experiments.engine.reporter import tell
from experiments.errors import UsageError
from experiments.figures.rendering import render
from experiments.figures.style import Drawing, ordered_colours, panels
from experiments.paths import AUDIT, HOME
from sdpa import audit as audited

_SMALLEST = 1e-17  # the lower end of the axis of mass
_CAPTION = (
    "Points: sum of the weights of a row, less the exact one and relative to it, mean over eight "
    "rows of normal scores, without its sign. Dashed: exact share of weights that the format of "
    "the arrays rounds to 0."
)


def audit_function(target: str, out: Path | None, **expected: Any) -> bool:
    """Audit a function, print the report, and write report.txt, two tables and a figure; True
    without findings.

    The target is PACKAGE.MODULE:FUNCTION, importable from the working folder; without `out`, files
    go to a folder of its name in results/audit. UsageError if there is no such function, ValueError
    for what `sdpa.audit` refuses.
    """
    report = audited(function_of(target), **expected)
    folder = HOME / AUDIT / target.replace(":", ".") if out is None else out
    mass = pd.DataFrame(report.lost_mass)
    files = {
        "report.txt": f"{report}\n".encode(),
        "items.csv": csv_bytes(pd.DataFrame(report.items)),
    }
    if report.lost_mass:
        files["lost_mass.csv"] = csv_bytes(mass)
        drawn = render(
            lambda: _draw(mass),
            "Mass that rows lose, over the spread of their scores",
            f"{target}. {_CAPTION}",
        )
        files |= {f"lost_mass{suffix}": content for suffix, content in drawn.items()}
    tell(f"{report}\nwrote {', '.join(files)} into {folder}")
    for name, content in files.items():
        write_atomically(folder / name, content)
    return not report.findings


def function_of(target: str) -> Callable[..., Any]:
    """The function that PACKAGE.MODULE:FUNCTION names; UsageError if there is none."""
    expected = "TARGET: expected PACKAGE.MODULE:FUNCTION, importable here"
    try:
        found: object = pkgutil.resolve_name(target)
    except (ImportError, SyntaxError, ValueError, AttributeError) as error:
        missing = (error.name if isinstance(error, ImportError) else None) or ""
        elsewhere = missing and missing.partition(".")[0] != target.partition(".")[0]
        hint = (
            f"; install {missing} into .venv, or call sdpa.audit where it is installed"
            if elsewhere
            else ""
        )
        raise UsageError(f"{expected}, got {target}: {error}{hint}") from error
    if not callable(found):
        raise UsageError(f"{expected}, got {target}, which is no function")
    return found


def list_examples() -> bool:
    """Print the functions that come with the suite, with what each does; True."""
    lines = [
        f"  TARGET={one.__module__}:{one.__name__}\n      {(one.__doc__ or '').strip()}"
        for one in EXAMPLES
    ]
    tell(
        "\n".join(
            ["To audit your function: make audit TARGET=package.module:function. Examples:", *lines]
        )
    )
    return True


def _draw(mass: pd.DataFrame) -> Drawing:
    figure, [ax] = panels(1, 1, (8.3, 4.4))
    groups = mass.groupby("n_keys")
    for (n_keys, rows), colour in zip(groups, ordered_colours(len(groups)), strict=True):
        ax.plot(
            rows["spread"],
            rows["lost"].abs().clip(_SMALLEST),
            "o-",
            color=colour,
            label=f"n_keys = {n_keys}",
        )
        ax.plot(rows["spread"], rows["tiny_share"].clip(_SMALLEST), "--", color=colour)
    ax.set(
        yscale="log", ylim=(_SMALLEST, 2), xlabel="spread of the scaled scores", ylabel="lost mass"
    )
    ax.legend()
    return figure
