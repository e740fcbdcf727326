"""A diagnosis: read queries and keys, diagnose each head, write the table and draw the figure.

The shipped example makes its own file of arrays and then takes the same way.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.diagnosis import example
from experiments.diagnosis.files import HeadArrays, read_heads
from experiments.diagnosis.table import (
    LEGEND,
    SHIPPED_LAYERS,
    axes_of,
    diagnosis_table,
    gaussian_curves,
    read_diagnosis,
    sharpest,
    sizes,
    summary,
)
from experiments.run.files import write_atomically
from experiments.run.paths import DIAGNOSIS, DIAGNOSIS_FIGURE, DIAGNOSIS_TABLE, HOME, diagnosis_path
from experiments.run.products import Product, build
from experiments.run.reporter import ALOUD, Reporter, tell

ARRAYS = "qk.npz"
_FILES = (DIAGNOSIS_TABLE, f"{DIAGNOSIS_FIGURE}.png", f"{DIAGNOSIS_FIGURE}.txt")
_YOUR_OWN = "The shipped example. For your own arrays: make diagnose Q=q.npy K=k.npy [MASK=causal] [SCALING=RULE]"


def diagnose(files: Sequence[Path], scaling: str, mask: str | None, axes: str | None, out: Path | None) -> None:
    """Diagnose queries and keys in files, print the result, write its table and draw its figure.

    Args:
        files: one file with q and k, or one for each.
        scaling: a scaling rule.
        mask: `causal`, `none` or None.
        axes: names of the leading axes of q, separated by commas; None for the usual ones.
        out: the folder of the table and the figure; None for one in results/diagnosis with the name of the first file.

    Raises:
        ValueError: a file holds no valid queries and keys, an option is unknown or does not fit them, or the folder is
            that of the shipped example, or by default of other files. Nothing is written then.
    """
    folder = HOME / DIAGNOSIS / files[0].stem if out is None else out
    if folder.resolve() == diagnosis_path(HOME, DIAGNOSIS_TABLE).parent.resolve():
        raise ValueError(f"{folder} has the shipped example; choose another folder with OUT=DIR (--out DIR)")
    record, sources = folder / "files.txt", "".join(f"{path.resolve()}\n" for path in files)
    if out is None and record.exists() and record.read_text() != sources:
        raise ValueError(f"{folder} has the diagnosis of files listed in {record}; choose another folder with OUT=DIR")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: expected a folder, got the file {folder}")
    heads = read_heads(files)
    table = diagnosis_table(heads, scaling, mask, axes)
    order = ", ".join([*axes_of(heads[0], axes), "position", "d_k"])
    _tell(f"Diagnosis of {' and '.join(map(str, files))}, q of shape {heads[0].q.shape} read as ({order})", table)
    write_atomically(record, sources.encode())  # first, so that no table of other files replaces this one
    for name, content in zip(_FILES, _contents(table), strict=True):
        write_atomically(folder / name, content)
    tell(f"wrote {folder / DIAGNOSIS_TABLE}\ndrew {folder / DIAGNOSIS_FIGURE}.png")


def diagnose_example(results: Path) -> None:
    """Bring the shipped example in a folder of results up to date, and print its diagnosis."""
    write_diagnosis(results, Reporter(verbose=True, say=tell))
    title = f"\nDiagnosis of {diagnosis_path(results, ARRAYS)}\n{SHIPPED_LAYERS}"
    _tell(title, read_diagnosis(diagnosis_path(results, DIAGNOSIS_TABLE)))
    tell(_YOUR_OWN)


def write_diagnosis(results: Path, report: Reporter = ALOUD) -> None:
    """Write the arrays, the table and the figure of the shipped example, unless they are up to date."""
    files = tuple(diagnosis_path(results, name) for name in (*_FILES, ARRAYS))
    build(results, [Product(files, _example)], report.made)


def _example() -> list[bytes]:
    q, k = example.trained_heads()
    return [*_contents(diagnosis_table([HeadArrays(None, None, q, k)])), example.npz_bytes(q, k)]


def _contents(table: pd.DataFrame) -> list[bytes]:
    """The contents of the table of a diagnosis and of its figure, drawn of the numbers in the table's file."""
    from experiments.diagnosis.picture import render_heads  # takes a second to load

    written = csv_bytes(table)
    heads = read_diagnosis(io.BytesIO(written))
    return [written, *render_heads(heads, gaussian_curves(heads)).values()]


def _tell(title: str, table: pd.DataFrame) -> None:
    """Print the sizes of a diagnosis, its sharpest heads, and what holds of some of them."""
    tell(f"{title}\n{sizes(table)}\n")
    tell(sharpest(table), wrap=False)
    tell("\n".join(["", LEGEND, "", *summary(table), ""]))
