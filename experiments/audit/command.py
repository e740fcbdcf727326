"""An audit: find the function, audit it, print the report, and write it with all items."""

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
from experiments.paths import AUDIT, HOME
from sdpa import audit as audited


def audit_function(target: str, out: Path | None, **expected: Any) -> bool:
    """Audit a function, print the report, and write report.txt and items.csv with all items; True
    without findings.

    The target is PACKAGE.MODULE:FUNCTION, importable from the working folder; without `out`, files
    go to a folder of its name in results/audit. UsageError if there is no such function, ValueError
    for what `sdpa.audit` refuses.
    """
    report = audited(function_of(target), **expected)
    folder = HOME / AUDIT / target.replace(":", ".") if out is None else out
    files = {
        "report.txt": f"{report.evidence}\n".encode(),
        "items.csv": csv_bytes(pd.DataFrame(report.items)),
    }
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
        hint = "; install what it imports into .venv, or call sdpa.audit where that is installed"
        is_missing = isinstance(error, ModuleNotFoundError)
        raise UsageError(f"{expected}, got {target}: {error}{hint * is_missing}") from error
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
            [
                "To audit your function: make audit TARGET=package.module:function. Examples:",
                *lines,
            ],
        )
    )
    return True
