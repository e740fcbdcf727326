"""`make model`: the tables, the sidecar and the figures of each pretrained model."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from experiments.analysis.written import csv_bytes
from experiments.errors import TableError, attempt
from experiments.files import checksum, write_atomically
from experiments.models.declared import MODELS
from experiments.models.model import Model
from experiments.models.texts import checksums
from experiments.output.products import Product, build
from experiments.output.reporter import Reporter
from experiments.paths import DRAWN, model_path
from experiments.running.fingerprint import theory_source

_SIDECAR = "model.json"


def measure_models(results: Path, report: Reporter) -> None:
    """Record and diagnose the pretrained models, write their tables and sidecars, and draw their
    figures.

    Raises:
        UsageError: a model is not installed.
    """
    made_of = {model.name: {"weights": model.load().sha256, **checksums()} for model in MODELS}
    products = [
        Product(
            _paths(results, model, files),
            partial(_contents, model, files),
            parameters=made_of[model.name],
        )
        for model in MODELS
        for files in model.made
    ]
    build(results, products, report)
    for model in MODELS:
        written = {path.name: checksum(path) for path in _shipped(results, model)}
        sidecar = {
            "model": model.title,
            "package": model.package,
            "licence": model.licence,
            "sha256": made_of[model.name] | written,
            "theory": theory_source(),
        }
        text = json.dumps(sidecar, indent=2) + "\n"
        write_atomically(model_path(results, model.name, _SIDECAR), text.encode())
    write_models(results, report)


def outdated(results: Path) -> Iterator[str]:
    """A line for each model whose tables have laws of another theory than that of this source.

    Laws are means over sequences that no table has: only the model can give them again.
    """
    for model in MODELS:
        sidecar = model_path(results, model.name, _SIDECAR)
        is_there = sidecar.exists()
        if is_there and json.loads(sidecar.read_bytes()).get("theory") != theory_source():
            yield (
                f"{sidecar.parent}: another or an unknown version of sdpa.theory made the columns of "
                "laws; make model makes them again"
            )


def _contents(model: Model, files: tuple[str, ...]) -> list[bytes]:
    made = model.made[files](model.load())
    return [each if isinstance(each, bytes) else csv_bytes(each) for each in made]


def _shipped(results: Path, model: Model) -> tuple[Path, ...]:
    return tuple(path for files in model.made for path in _paths(results, model, files))


def _paths(results: Path, model: Model, files: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(model_path(results, model.name, file) for file in files)


def write_models(results: Path, report: Reporter) -> None:
    """Draw the figures of the shipped tables, unless they are up to date.

    Raises:
        TableError: a table is not the one that `measure_models` wrote.
        FindingError: the tables do not support a sentence.
    """
    attempt(partial(_write_model, results, model, report) for model in MODELS)


def _write_model(results: Path, model: Model, report: Reporter) -> None:
    sidecar = model_path(results, model.name, _SIDECAR)
    written = json.loads(sidecar.read_bytes())["sha256"] if sidecar.exists() else {}
    inputs = _shipped(results, model)
    altered = [str(path) for path in inputs if checksum(path) != written.get(path.name)]
    if altered:
        raise TableError(f"altered or missing: {', '.join(altered)}; make model writes them again")
    for name in model.figures:
        drawn = _paths(results, model, tuple(f"{name}{suffix}" for suffix in DRAWN))
        make = partial(_drawn, results, model, name)
        build(results, [Product(drawn, make, inputs)], report)


def _drawn(results: Path, model: Model, name: str) -> list[bytes]:
    from experiments.models.figures import render_model  # takes a second to load

    return render_model(results, model, name)
