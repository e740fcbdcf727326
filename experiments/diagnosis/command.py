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
    advice,
    axes_of,
    diagnosis_table,
    gaussian_curves,
    legend,
    read_diagnosis,
    sharpest,
    sizes,
    summary,
)
from experiments.engine.files import checksum, write_atomically
from experiments.engine.products import Product, build
from experiments.engine.reporter import ALOUD, Reporter, tell
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
    record, sources = folder / "files.txt", "".join(f"{path.resolve()}\n" for path in files)
    if out is None and record.exists() and record.read_text() != sources:
        raise ValueError(
            f"{folder} has the diagnosis of files listed in {record}; choose another folder with "
            f"OUT=DIR"
        )
    what, last = ("q", ("position", "d_k")) if scaling else ("scores", ("query", "key"))
    order = ", ".join([*axes_of(heads[0], axes), *last])
    title = (
        f"Diagnosis of {' and '.join(map(str, files))}, {what} of shape {heads[0].q.shape} "
        f"read as ({order})"
    )
    _tell(title, table, is_capped=softcap > 0)
    hidden = 0 if scaling else int((hidden_scores(heads[0].q) & (heads[0].q != -np.inf)).sum())
    if hidden:
        tell(
            f"Hidden keys: {hidden} of {heads[0].q.size} scores are more than 5,000 below the "
            f"largest of their row."
        )
    write_atomically(
        record, sources.encode()
    )  # first, so that no table of other files replaces this one
    write_atomically(folder / DIAGNOSIS_TABLE, csv_bytes(table))
    for suffix, content in zip(DRAWN, _drawn_heads(folder / DIAGNOSIS_TABLE), strict=True):
        write_atomically(folder / f"{DIAGNOSIS_FIGURE}{suffix}", content)
    tell(f"wrote {folder / DIAGNOSIS_TABLE}\ndrew {folder / DIAGNOSIS_FIGURE}.png")


def diagnose_example(results: Path) -> None:
    """Print the shipped diagnosis of a pretrained model in a folder of results."""
    table = read_diagnosis(diagnosis_path(results, DIAGNOSIS_TABLE))
    _tell(
        f"Diagnosis of all-MiniLM-L6-v2 on prose, {diagnosis_path(results, DIAGNOSIS_TABLE)}", table
    )
    tell(
        "The shipped example. For your own arrays: make diagnose Q=q.npy K=k.npy [MASK=causal] "
        "[SCALING=RULE]"
    )


def measure_model(results: Path, report: Reporter = ALOUD) -> None:
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
    write_atomically(
        diagnosis_path(results, _SIDECAR), (json.dumps(sidecar, indent=2) + "\n").encode()
    )
    write_diagnosis(results, report)


def _model_files() -> list[bytes]:
    """The tables of the pretrained model, and a sample of its queries and keys in half
    precision.
    """
    found = minilm.pretrained()
    q, k = minilm.queries_and_keys(found.weights, model.sequences(found, "prose", model.LENGTH))
    tables = model.tables(model.measured(found))
    np.savez(
        sample := io.BytesIO(), q=q[_SAMPLE].astype(np.float16), k=k[_SAMPLE].astype(np.float16)
    )
    written = map(
        csv_bytes,
        (diagnosis_table([HeadArrays(None, None, q, k)]), tables["heads"], tables["layers"]),
    )
    return [*written, sample.getvalue()]


def write_diagnosis(results: Path, report: Reporter = ALOUD) -> None:
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

    for name, draw in (
        (DIAGNOSIS_FIGURE, partial(_drawn_heads, inputs[0])),
        ("slide", partial(slide, results)),
    ):
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
    tell(
        "\n".join(
            ["", legend(table), "", *summary(table), "", *advice(table, is_capped=is_capped), ""]
        )
    )
