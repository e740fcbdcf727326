"""A diagnosis: read queries and keys, diagnose each head, write the table and draw the figure.

The shipped example is a pretrained BERT, whose diagnosis `make model` writes.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.diagnosis.table import diagnosis_table, gaussian_curves, read_diagnosis
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
from sdpa.heads import HeadArrays, notes
from sdpa.row_maps import PLAIN, RowMap


def split_mask(text: str | None) -> tuple[str | None, Path | None]:
    """The name of a mask and the file of one, from a text that has one of them or both.

    >>> split_mask("causal,mask.npy"), split_mask("window-512"), split_mask("mask.npy")
    (('causal', PosixPath('mask.npy')), ('window-512', None), (None, PosixPath('mask.npy')))
    """
    if not text or not Path(text).suffix:
        return text, None
    name, _, file = text.rpartition(",")
    return name or None, Path(file)


def diagnose(
    heads: Sequence[HeadArrays],
    files: Sequence[Path],
    scaling: str,
    mask: str | None,
    out: Path | None,
    row_map: RowMap = PLAIN,
) -> None:
    """Diagnose arrays of a user, print the result, write its table and draw its figure.

    Args:
        heads: the arrays in the files.
        files: those that were read.
        scaling: a scaling rule, of scores of q and k.
        mask: `causal`, `none`, a window such as `window-512`, or None.
        out: the folder of the table and the figure; None for one in results/diagnosis with the name
            of the first file.
        row_map: of scores of q and k.

    Raises:
        ValueError: an option is unknown or does not fit the arrays, or the folder is that of the
            shipped example, or by default of other files. Nothing is written then.
    """
    folder = HOME / DIAGNOSIS / files[0].stem if out is None else out
    if folder.resolve() == model_path(HOME, EXAMPLE_MODEL, "").resolve():
        raise ValueError(f"{folder} has the shipped example; choose another folder with OUT=DIR")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: expected a folder, got the file {folder}")
    table = diagnosis_table(heads, scaling, mask, row_map)
    record = folder / "files.txt"
    sources = "".join(f"{path.resolve()}\n" for path in files)
    if out is None and record.exists() and record.read_text() != sources:
        raise ValueError(
            f"{folder} has the diagnosis of files listed in {record}; choose another folder with "
            f"OUT=DIR"
        )
    first = heads[0]
    last = "position, d_k" if first.kind == "q" else "query, key"
    order = ", ".join([*first.leading, last])
    names = " and ".join(map(str, files))
    title = f"Diagnosis of {names}, {first.kind} of shape {first.q.shape} read as ({order})"
    _tell(title, table, is_capped=row_map.softcap > 0)
    for line in notes(heads):
        tell(line)
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
