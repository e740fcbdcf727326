"""A diagnosis: read queries and keys, diagnose each head, write the table and draw the figure.

The shipped example is a pretrained BERT, whose diagnosis `make model` writes.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.diagnosis.files import read_heads, read_scores
from experiments.diagnosis.table import (
    axes_of,
    diagnosis_table,
    gaussian_curves,
    read_diagnosis,
)
from experiments.diagnosis.words import advice, legend, sharpest, sizes, summary
from experiments.engine.files import write_atomically
from experiments.engine.reporter import tell
from experiments.paths import (
    DIAGNOSIS,
    DIAGNOSIS_FIGURE,
    DIAGNOSIS_TABLE,
    DRAWN,
    EXAMPLE_MODEL,
    HOME,
    model_path,
)
from sdpa.diagnosis.heads import hidden_scores
from sdpa.row_maps import RowMap


def diagnose(
    files: Sequence[Path],
    scaling: str | None,
    mask: str | None,
    axes: str | None,
    out: Path | None,
    softcap: float = 0.0,
    sink: float | None = None,
) -> None:
    """Diagnose queries and keys in files, or scores in one, print the result, write its table and
    draw its figure.

    Args:
        files: one file with q and k, or one for each; one with scores.
        scaling: a scaling rule; None for scores, which are divided already.
        mask: `causal`, `none`, a window such as `window-512`, or None.
        axes: names of the leading axes of q, separated by commas; None for the usual ones.
        out: the folder of the table and the figure; None for one in results/diagnosis with the name
            of the first file.
        softcap, sink: as in `sdpa.row_maps.RowMap`, of scores of q and k.

    Raises:
        ValueError: a file holds no valid queries and keys, an option is unknown or does not fit
            them, or the folder is that of the shipped example, or by default of other files.
            Nothing is written then.
    """
    folder = HOME / DIAGNOSIS / files[0].stem if out is None else out
    if folder.resolve() == model_path(HOME, EXAMPLE_MODEL, "").resolve():
        raise ValueError(f"{folder} has the shipped example; choose another folder with OUT=DIR")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: expected a folder, got the file {folder}")
    heads = read_heads(files) if scaling else read_scores(files[0])
    table = diagnosis_table(heads, scaling or "unscaled", mask, axes, RowMap(softcap, sink))
    record = folder / "files.txt"
    sources = "".join(f"{path.resolve()}\n" for path in files)
    if out is None and record.exists() and record.read_text() != sources:
        raise ValueError(
            f"{folder} has the diagnosis of files listed in {record}; choose another folder with "
            f"OUT=DIR"
        )
    first = heads[0].q
    what, last = ("q", ("position", "d_k")) if scaling else ("scores", ("query", "key"))
    order = ", ".join([*axes_of(heads[0], axes), *last])
    names = " and ".join(map(str, files))
    title = f"Diagnosis of {names}, {what} of shape {first.shape} read as ({order})"
    _tell(title, table, is_capped=softcap > 0)
    hidden = 0 if scaling else int((hidden_scores(first) & (first != -np.inf)).sum())
    if hidden:
        tell(
            f"Hidden keys: {hidden} of {first.size} scores are more than 5,000 below the "
            f"largest of their row."
        )
    # The record comes first, so that no table of other files replaces this one.
    write_atomically(record, sources.encode())
    path = folder / DIAGNOSIS_TABLE
    write_atomically(path, csv_bytes(table))
    figure = folder / f"{DIAGNOSIS_FIGURE}.png"
    for suffix, content in zip(DRAWN, draw_table(path), strict=True):
        write_atomically(figure.with_suffix(suffix), content)
    tell(f"wrote {path}\ndrew {figure}")


def diagnose_example(results: Path) -> None:
    """Print the shipped diagnosis of a pretrained model in a folder of results."""
    path = model_path(results, EXAMPLE_MODEL, DIAGNOSIS_TABLE)
    _tell(f"Diagnosis of all-MiniLM-L6-v2 on prose, {path}", read_diagnosis(path))
    tell(
        "The shipped example. For your own arrays: make diagnose Q=q.npy K=k.npy [MASK=causal] "
        "[SCALING=RULE]"
    )


def draw_table(table: Path) -> list[bytes]:
    """The figure of a diagnosis, drawn of the numbers in the file of its table."""
    from experiments.diagnosis.picture import render_heads  # takes a second to load

    heads = read_diagnosis(table)
    return [*render_heads(heads, gaussian_curves(heads)).values()]


def _tell(title: str, table: pd.DataFrame, *, is_capped: bool = False) -> None:
    """Print the sizes of a diagnosis, its sharpest heads, what holds of some of them, and what to
    do.
    """
    tell(f"{title}\n{sizes(table)}\n")
    tell(sharpest(table), wrap=False)
    told = summary(table), advice(table, is_capped=is_capped)
    tell("\n".join(["", legend(table), "", *told[0], "", *told[1], ""]))
