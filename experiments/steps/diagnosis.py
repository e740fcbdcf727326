"""The steps of a diagnosis: read queries and keys, diagnose each head, write the table and draw the figure.

The shipped example makes its own file of arrays and then takes the same way.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.folders import DIAGNOSIS, DIAGNOSIS_FIGURE, DIAGNOSIS_TABLE, HOME, diagnosis_path
from experiments.harness.files import write_atomically, write_files
from experiments.harness.tables import csv_bytes
from experiments.steps.reporter import ALOUD, Reporter, tell
from experiments.steps.sweeps import DRAWN

if TYPE_CHECKING:
    import pandas as pd

ARRAYS = "qk.npz"
_YOUR_OWN = "The shipped example. For your own arrays: make diagnose Q=q.npy K=k.npy [MASK=causal] [SCALING=RULE]"
_SOURCES = "files.txt"  # in the folder of a diagnosis: it does not replace that of other files of the same name
_ANOTHER = "choose another folder with OUT=DIR (--out DIR)"


def diagnosed(
    files: Sequence[Path], *, scaling: str | None, mask: str | None, axes: str | None, out: Path | None
) -> Callable[[], None]:
    """Diagnose queries and keys in files; nothing is written yet.

    Args:
        files: one file with q and k, or one for each.
        scaling: a scaling rule; None for d_k^1/2.
        mask: `causal`, `none` or None.
        axes: names of the leading axes of q, separated by commas; None for the usual ones.
        out: the folder of the table and the figure; None for one in results/diagnosis with the name of the first file.

    Returns:
        A function that prints the result, writes its table and draws its figure.

    Raises:
        ValueError: a file holds no valid queries and keys, an option is unknown or does not fit them, or the folder by
            default has the diagnosis of other files.
    """
    from experiments.diagnosis.files import read_heads
    from experiments.diagnosis.table import axes_of, diagnosis_table

    folder = HOME / DIAGNOSIS / files[0].stem if out is None else out
    if folder.resolve() == diagnosis_path(HOME, DIAGNOSIS_TABLE).parent.resolve():
        raise ValueError(f"{folder} has the shipped example; {_ANOTHER}")
    record, sources = folder / _SOURCES, b"".join(os.fsencode(path.resolve()) + b"\n" for path in files)
    if out is None and record.exists() and record.read_bytes() != sources:
        raise ValueError(f"{folder} has the diagnosis of other files, listed in {record}; {_ANOTHER}")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: expected a folder, got the file {folder}")
    heads = read_heads(files)
    table = diagnosis_table(heads, scaling or "d_k^1/2", mask, axes)
    order = ", ".join([*axes_of(heads[0], axes), "position", "d_k"])
    title = f"Diagnosis of {' and '.join(map(str, files))}, q of shape {heads[0].q.shape} read as ({order})"
    return partial(_report, title, table, folder, sources)


def _report(title: str, table: "pd.DataFrame", folder: Path, sources: bytes) -> None:
    from experiments.harness.compare import update

    _tell(title, table)
    write_atomically(folder / _SOURCES, sources)  # first, so that no table of other files replaces this one
    tell(update(folder / DIAGNOSIS_TABLE, csv_bytes(table)).of(folder / DIAGNOSIS_TABLE))
    write_files(folder / DIAGNOSIS_FIGURE, _figure(folder / DIAGNOSIS_TABLE))
    tell(f"drew {folder / DIAGNOSIS_FIGURE}.png")


def diagnose_example(results: Path) -> None:
    """Bring the shipped example in a folder of results up to date, and print its diagnosis."""
    from experiments.diagnosis.table import SHIPPED_LAYERS, read_diagnosis

    report = Reporter(verbose=True, say=tell)
    write_diagnosis(results, report)
    draw_diagnosis(results, report)
    title = f"\nDiagnosis of {diagnosis_path(results, ARRAYS)}\n{SHIPPED_LAYERS}"
    _tell(title, read_diagnosis(diagnosis_path(results, DIAGNOSIS_TABLE)))
    tell(_YOUR_OWN)


def write_diagnosis(results: Path, report: Reporter = ALOUD) -> None:
    """Write the arrays and the table of the shipped example to diagnosis/training, unless they are up to date."""
    from experiments.harness.products import Product, build

    files = tuple(diagnosis_path(results, name) for name in (DIAGNOSIS_TABLE, ARRAYS))
    build(results, [Product(files, _example)], report.made)


def _example() -> list[bytes]:
    """The table of the shipped example, and its arrays."""
    from experiments.diagnosis.example import npz_bytes, trained_heads
    from experiments.diagnosis.files import HeadArrays
    from experiments.diagnosis.table import diagnosis_table

    q, k = trained_heads()
    return [csv_bytes(diagnosis_table([HeadArrays(None, None, q, k)])), npz_bytes(q, k)]


def draw_diagnosis(results: Path, report: Reporter = ALOUD) -> None:
    """Draw the figure of the shipped example unless it is up to date; nothing without its table."""
    from experiments.harness.products import Product, build

    table = diagnosis_path(results, DIAGNOSIS_TABLE)
    files = tuple(table.with_name(f"{DIAGNOSIS_FIGURE}{suffix}") for suffix in DRAWN)
    if table.exists():
        build(results, [Product(files, partial(_contents, table), (table,))], report.made)


def _contents(table: Path) -> list[bytes]:
    return [*_figure(table).values()]


def _figure(table: Path) -> dict[str, bytes]:
    """The files of the figure of a table, by suffix."""
    from experiments.diagnosis.table import gaussian_curves, read_diagnosis
    from experiments.figures.heads import render_heads

    heads = read_diagnosis(table)
    return render_heads(heads, gaussian_curves(heads))


def _tell(title: str, table: "pd.DataFrame") -> None:
    """Print the sizes of a diagnosis, its sharpest heads, and what holds of some of them."""
    from experiments.diagnosis.table import LEGEND, sharpest, sizes, summary

    tell(f"{title}\n{sizes(table)}\n")
    tell(sharpest(table), wrap=False)
    tell("\n".join(["", LEGEND, "", *summary(table), ""]))
