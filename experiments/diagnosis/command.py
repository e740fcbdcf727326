"""A diagnosis: read queries and keys, diagnose each head, write the table and draw the figure.

The shipped example is a pretrained BERT: `make model` writes its tables, and everything else reads
them.
"""

import io
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.diagnosis import minilm, model
from experiments.diagnosis.files import HeadArrays, read_heads, read_scores
from experiments.diagnosis.table import (
    axes_of,
    diagnosis_table,
    gaussian_curves,
    read_diagnosis,
)
from experiments.diagnosis.words import advice, legend, sharpest, sizes, summary
from experiments.engine.files import checksum, write_atomically
from experiments.engine.products import Product, build
from experiments.engine.reporter import VERBOSE, Reporter, tell
from experiments.errors import TableError
from experiments.paths import (
    DIAGNOSIS,
    DIAGNOSIS_FIGURE,
    DIAGNOSIS_TABLE,
    DRAWN,
    HOME,
    diagnosis_path,
)
from sdpa.diagnosis.heads import hidden_scores
from sdpa.row_maps import RowMap

_MODEL_TABLES = (DIAGNOSIS_TABLE, *model.TABLES.values())
_ARRAYS, _SIDECAR = "qk.npz", "model.json"
_SAMPLE = (slice(8), slice(2), slice(None), slice(32))  # of sequences, layers, heads and positions


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
    if folder.resolve() == diagnosis_path(HOME, DIAGNOSIS_TABLE).parent.resolve():
        raise ValueError(
            f"{folder} has the shipped example; choose another folder with OUT=DIR (--out DIR)"
        )
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
    for suffix, content in zip(DRAWN, _drawn_heads(path), strict=True):
        write_atomically(figure.with_suffix(suffix), content)
    tell(f"wrote {path}\ndrew {figure}")


def diagnose_example(results: Path) -> None:
    """Print the shipped diagnosis of a pretrained model in a folder of results."""
    path = diagnosis_path(results, DIAGNOSIS_TABLE)
    _tell(f"Diagnosis of all-MiniLM-L6-v2 on prose, {path}", read_diagnosis(path))
    tell(
        "The shipped example. For your own arrays: make diagnose Q=q.npy K=k.npy [MASK=causal] "
        "[SCALING=RULE]"
    )


def measure_model(results: Path, report: Reporter = VERBOSE) -> None:
    """Record and diagnose the pretrained model, write its tables and their sidecar, and draw its
    figures.

    Raises:
        UsageError: the model is not installed.
    """
    made_of = model.checksums(minilm.pretrained())
    files = tuple(diagnosis_path(results, name) for name in (*_MODEL_TABLES, _ARRAYS))
    build(results, [Product(files, _model_files, parameters=made_of)], report)
    made_of |= {path.name: checksum(path) for path in files}
    sidecar = {"package": minilm.PACKAGE, "sequences": model.SEQUENCES, "sha256": made_of}
    text = json.dumps(sidecar, indent=2) + "\n"
    write_atomically(diagnosis_path(results, _SIDECAR), text.encode())
    write_diagnosis(results, report)


def _model_files() -> list[bytes]:
    """The tables of the pretrained model, and a sample of its queries and keys in half
    precision.
    """
    found = minilm.pretrained()
    q, k = minilm.queries_and_keys(found.weights, model.sequences(found, "prose", model.LENGTH))
    tables = model.tables(model.measured(found))
    sample = io.BytesIO()
    np.savez(sample, q=q[_SAMPLE].astype(np.float16), k=k[_SAMPLE].astype(np.float16))
    shipped = diagnosis_table([HeadArrays(None, None, q, k)])
    written = map(csv_bytes, (shipped, tables["heads"], tables["layers"]))
    return [*written, sample.getvalue()]


def write_diagnosis(results: Path, report: Reporter = VERBOSE) -> None:
    """Draw the figures of the shipped tables, unless they are up to date.

    Raises:
        TableError: a table is not the one that `measure_model` wrote.
        FindingError: the tables do not support a sentence.
    """
    sidecar = diagnosis_path(results, _SIDECAR)
    written = json.loads(sidecar.read_bytes())["sha256"] if sidecar.exists() else {}
    inputs = tuple(diagnosis_path(results, name) for name in _MODEL_TABLES)
    shipped = (*inputs, diagnosis_path(results, _ARRAYS))
    if altered := [str(path) for path in shipped if checksum(path) != written.get(path.name)]:
        raise TableError(f"altered or missing: {', '.join(altered)}; make model writes them again")
    from experiments.diagnosis.model_figures import slide  # takes a second to load

    figures = {DIAGNOSIS_FIGURE: partial(_drawn_heads, inputs[0]), "slide": partial(slide, results)}
    for name, draw in figures.items():
        drawn = tuple(diagnosis_path(results, f"{name}{suffix}") for suffix in DRAWN)
        build(results, [Product(drawn, draw, inputs)], report)


def _drawn_heads(table: Path) -> list[bytes]:
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
