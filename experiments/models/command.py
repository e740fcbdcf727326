"""`make model`: the tables, the sidecar and the figures of each pretrained model.

The first model is the example of `sdpa diagnose`, and ships a diagnosis and a sample of queries
and keys.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.analysis.written import csv_bytes
from experiments.diagnosis.table import diagnosis_table
from experiments.engine.files import checksum, write_atomically
from experiments.engine.products import Product, build
from experiments.engine.reporter import VERBOSE, Reporter
from experiments.errors import TableError, attempt
from experiments.models import heads
from experiments.models.declared import MINILM, MODELS
from experiments.models.model import Model
from experiments.models.texts import checksums
from experiments.paths import DIAGNOSIS_TABLE, DRAWN, model_path
from sdpa.heads import HeadArrays

_OF_HEADS = ("by-head.csv", "by-layer.csv")
_EXAMPLE = (DIAGNOSIS_TABLE, "qk.npz")
_SIDECAR = "model.json"
_SAMPLE = (slice(8), slice(2), slice(None), slice(32))  # of sequences, layers, heads and positions


def measure_models(results: Path, report: Reporter = VERBOSE) -> None:
    """Record and diagnose the pretrained models, write their tables and sidecars, and draw their
    figures.

    Raises:
        UsageError: a model is not installed.
    """
    made_of = {model.name: {"weights": model.load().sha256, **checksums()} for model in MODELS}
    products = [
        Product(_paths(results, model, files), partial(make, model), (), made_of[model.name])
        for model in MODELS
        for files, make in _makers(model)
    ]
    build(results, products, report)
    for model in MODELS:
        written = {path.name: checksum(path) for path in _shipped(results, model)}
        about = {"model": model.title, "package": model.package, "licence": model.licence}
        sidecar = {**about, "sha256": made_of[model.name] | written}
        text = json.dumps(sidecar, indent=2) + "\n"
        write_atomically(model_path(results, model.name, _SIDECAR), text.encode())
    write_models(results, report)


def _makers(model: Model) -> Iterator[tuple[tuple[str, ...], Callable[[Model], list[bytes]]]]:
    """Files that are made together, and the function that makes them."""
    for files, make in model.further.items():
        yield files, partial(_further, make)
    yield _OF_HEADS, _of_heads
    if model is MINILM:
        yield _EXAMPLE, _example


def _further(make: Callable[[Any], Sequence[pd.DataFrame]], model: Model) -> list[bytes]:
    return [csv_bytes(table) for table in make(model.load())]


def _of_heads(model: Model) -> list[bytes]:
    found = heads.of_network(model, model.load())
    return [csv_bytes(table) for table in heads.by_head_and_layer(found)]


def _example(model: Model) -> list[bytes]:
    """The diagnosis of the first case, and a sample of its queries and keys in half precision."""
    network, case = model.load(), model.cases[0]
    tokens = network.tokens(case.text, case.n_keys)
    q, k = network.queries_and_keys(tokens, case.weights)
    sample = io.BytesIO()
    np.savez(sample, q=q[_SAMPLE].astype(np.float16), k=k[_SAMPLE].astype(np.float16))
    return [csv_bytes(diagnosis_table([HeadArrays(None, None, q, k)])), sample.getvalue()]


def _shipped(results: Path, model: Model) -> list[Path]:
    return [path for files, _ in _makers(model) for path in _paths(results, model, files)]


def _paths(results: Path, model: Model, files: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(model_path(results, model.name, file) for file in files)


def write_models(results: Path, report: Reporter = VERBOSE) -> None:
    """Draw the figures of the shipped tables, unless they are up to date.

    Raises:
        TableError: a table is not the one that `measure_models` wrote.
        FindingError: the tables do not support a sentence.
    """
    attempt(partial(_write_model, results, model, report) for model in MODELS)


def _write_model(results: Path, model: Model, report: Reporter) -> None:
    sidecar = model_path(results, model.name, _SIDECAR)
    written = json.loads(sidecar.read_bytes())["sha256"] if sidecar.exists() else {}
    inputs = tuple(_shipped(results, model))
    if altered := [str(path) for path in inputs if checksum(path) != written.get(path.name)]:
        raise TableError(f"altered or missing: {', '.join(altered)}; make model writes them again")
    from experiments.models.figures import FIGURES  # takes a second to load

    for name, draw in FIGURES[model.name].items():
        drawn = _paths(results, model, tuple(f"{name}{suffix}" for suffix in DRAWN))
        build(results, [Product(drawn, partial(draw, results), inputs)], report)
