"""The steps of a diagnosis: read queries and keys, diagnose each head, write the table and draw the figure.

Files of arrays come in; diagnosis.csv, the figure heads and text on the terminal go out. The shipped example makes its
own file of arrays and then takes the same way.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.folders import DIAGNOSIS, DIAGNOSIS_FIGURE, DIAGNOSIS_TABLE, HOME, diagnosis_path, drawn_texts
from experiments.harness.artifacts import Artifact, Ledger
from experiments.harness.files import locked, write_atomically
from experiments.harness.tables import csv_bytes
from experiments.steps.drawing import drawing
from experiments.steps.reporter import ALOUD, Reporter
from experiments.steps.saying import tell

if TYPE_CHECKING:
    import pandas as pd

ARRAYS = "qk.npz"
_YOUR_OWN = "The shipped example. For your own arrays: make diagnose Q=q.npy K=k.npy [MASK=causal] [SCALING=RULE]"
_USUAL_RULE = "d_k^1/2"
_SOURCES = "files.txt"  # in the folder of a diagnosis: it does not replace that of other files of the same name
_ANOTHER = "choose another folder with OUT=DIR (--out DIR)"
_DRAWN_BY = f"{DIAGNOSIS}.{DIAGNOSIS_FIGURE}"
_COMPUTED_WITH = ("numpy", "scipy", "pandas")


@dataclass(frozen=True)
class Diagnosed:
    """The diagnosis of a user's files, and where to write it.

    Attributes:
        title: of the report.
        table: a row for each head.
        out: the folder of the table and the figure.
        sources: the paths of the files, one a line.
    """

    title: str
    table: "pd.DataFrame"
    out: Path
    sources: bytes


def diagnosed(
    files: Sequence[Path], *, scaling: str | None, mask: str | None, axes: str | None, out: Path | None
) -> Diagnosed:
    """The diagnosis of queries and keys in files; nothing is written.

    Args:
        files: one file with q and k, or one for each.
        scaling: a scaling rule; None for d_k^1/2.
        mask: `causal`, `none` or None.
        axes: names of the leading axes of q, separated by commas; None for the usual ones.
        out: the folder of the table and the figure; None for one in results/diagnosis with the name of the first file.

    Raises:
        ValueError: a file holds no valid queries and keys, an option is unknown or does not fit them, or the folder by
            default has the diagnosis of other files.
    """
    from experiments.diagnosis.files import read_heads
    from experiments.diagnosis.table import diagnosis_table, order_of_axes

    folder = HOME / DIAGNOSIS / files[0].stem if out is None else out
    if folder.resolve() == diagnosis_path(HOME, DIAGNOSIS_TABLE).parent.resolve():
        raise ValueError(f"{folder} has the shipped example; {_ANOTHER}")
    record, sources = folder / _SOURCES, b"".join(os.fsencode(path.resolve()) + b"\n" for path in files)
    if out is None and record.exists() and record.read_bytes() != sources:
        raise ValueError(f"{folder} has the diagnosis of other files, listed in {record}; {_ANOTHER}")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: expected a folder, got the file {folder}")
    heads = read_heads(files)
    table = diagnosis_table(heads, _USUAL_RULE if scaling is None else scaling, mask, axes)
    return Diagnosed(f"{_title(files)}, {order_of_axes(heads[0], axes)}", table, folder, sources)


def _title(files: Sequence[Path]) -> str:
    return f"Diagnosis of the attention of {' and '.join(map(str, files))}"


def report_diagnosis(found: Diagnosed) -> None:
    """Print a diagnosis, write its table and draw its figure."""
    _tell_heads(found.title, found.table)
    from experiments.harness.compare import update

    path, content = found.out / DIAGNOSIS_TABLE, csv_bytes(found.table)
    write_atomically(found.out / _SOURCES, found.sources)  # first, so that no table of other files replaces this one
    tell(update(path, content).of(path))
    tell(f"drew {found.out / DIAGNOSIS_FIGURE}.png: {_draw(found.out)}\n")
    _tell_findings(found.table)


def diagnose_example(results: Path) -> None:
    """Bring the shipped example up to date, and print its diagnosis.

    Args:
        results: the folder of the results.
    """
    from experiments.diagnosis.labels import SHIPPED_LAYERS
    from experiments.diagnosis.table import read_diagnosis

    report = Reporter(verbose=True, say=tell)
    write_diagnosis(results, report)
    draw_diagnosis(results, report)
    table = read_diagnosis(diagnosis_path(results, DIAGNOSIS_TABLE))
    _tell_heads(f"\n{_title([diagnosis_path(results, ARRAYS)])}\n{SHIPPED_LAYERS}", table)
    _tell_findings(table)
    tell(f"\n{_YOUR_OWN}")


def write_diagnosis(results: Path, report: Reporter = ALOUD) -> None:
    """Write the arrays and the table of the shipped example, unless they are up to date.

    Args:
        results: the step writes to its folder diagnosis/training.
        report: told whether the table changed.
    """
    from experiments.harness.compare import update

    path, arrays = (diagnosis_path(results, name) for name in (DIAGNOSIS_TABLE, ARRAYS))
    modules = [f"experiments.diagnosis.{name}" for name in ("example", "files", "table")]
    table, ledger = Artifact((path, arrays), tuple(modules), _COMPUTED_WITH), Ledger(path.parent)
    with locked(path.parent):
        if ledger.is_current(table):
            report.current(path)
            return
        from experiments.diagnosis.example import npz_bytes

        write_atomically(arrays, npz_bytes())
        report.table(path, update(path, csv_bytes(_example(arrays))))
        ledger.note(table)


def _example(arrays: Path) -> "pd.DataFrame":
    from experiments.diagnosis.files import read_heads
    from experiments.diagnosis.table import diagnosis_table

    return diagnosis_table(read_heads([arrays]))


def draw_diagnosis(results: Path, report: Reporter = ALOUD) -> None:
    """Draw the figure of the shipped example unless it is up to date; nothing without its table.

    Args:
        results: the step reads and writes its folder diagnosis/training.
        report: told about the figure.
    """
    table, stem = diagnosis_path(results, DIAGNOSIS_TABLE), diagnosis_path(results, DIAGNOSIS_FIGURE)
    if not table.exists():
        return
    drawn = drawing(stem, _DRAWN_BY, [table], "experiments.diagnosis.table")
    ledger = Ledger(table.parent)
    with locked(table.parent):
        is_due = not ledger.is_current(drawn)
        if is_due:
            _draw(table.parent)
            ledger.note(drawn)
    report.figure(stem.with_suffix(".png"), drawn_texts(stem).caption, drawn=is_due)


def _draw(folder: Path) -> str:
    """Draw the figure of the table in a folder; its caption."""
    from experiments.diagnosis.table import gaussian_curves, read_diagnosis
    from experiments.figures.figure import load_figure
    from experiments.figures.rendering import render

    heads = read_diagnosis(folder / DIAGNOSIS_TABLE)
    return render(load_figure(_DRAWN_BY), {"heads": heads, "curves": gaussian_curves(heads)}, folder / DIAGNOSIS_FIGURE)


def _tell_heads(title: str, table: "pd.DataFrame") -> None:
    """Print the sizes of a diagnosis and its sharpest heads."""
    from experiments.diagnosis.report import remarks, sharpest, sizes

    tell(f"{title}\n{sizes(table)}\n")
    tell(sharpest(table), wrap=False)
    tell(f"\n{remarks(table)}\n")


def _tell_findings(table: "pd.DataFrame") -> None:
    from experiments.diagnosis.findings import findings

    tell("\n".join(findings(table)))
