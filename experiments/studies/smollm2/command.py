"""`make model`: the tables, the sidecar and the figures of SmolLM2."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from experiments.config.errors import TableError
from experiments.running.files import checksum, write_atomically
from experiments.running.fingerprint import theory_source
from experiments.studies.smollm2 import divisors, model_heads
from experiments.studies.smollm2.model import PACKAGE, Pretrained, checksums, model_path, pretrained
from experiments.tables.layout import csv_bytes
from experiments.tables.products import Product, build
from experiments.tables.reporter import Reporter

_SIDECAR = "model.json"
_FIGURES = ("divisors", "layers")
# Files that are made together, and the function of the network that returns their content.
_MADE: dict[tuple[str, ...], Callable[[Pretrained], Sequence[pd.DataFrame | bytes]]] = {
    ("by-divisor.csv", "by-divisor-layer.csv", "by-divisor-head.csv"): divisors.by_divisor,
    ("by-text.csv", "smallest-loss.csv"): divisors.by_text,
    ("by-length.csv", "by-position.csv"): divisors.by_length,
    ("by-head.csv", "by-layer.csv"): model_heads.by_head_and_layer,
    ("qk.npz",): model_heads.sample,
}
_SHIPPED: tuple[str, ...] = sum(_MADE, ())


def measure_model(folder: Path, report: Reporter) -> None:
    """Run and diagnose SmolLM2, write its tables, sample and sidecar, and draw its figures.

    Raises:
        UsageError: the model is not installed.
    """
    made_of = {"weights": pretrained().sha256, **checksums()}
    products = [
        Product(_paths(folder, files), partial(_contents, files), parameters=made_of)
        for files in _MADE
    ]
    build(folder, products, report, phase="tables")
    written = {file: checksum(model_path(folder, file)) for file in _SHIPPED}
    sidecar = {
        "model": "SmolLM2-135M-Instruct",
        "package": PACKAGE,
        "licence": "Apache-2.0",
        "theory": theory_source(),
        "sha256": made_of | written,
    }
    text = json.dumps(sidecar, indent=2) + "\n"
    write_atomically(model_path(folder, _SIDECAR), text.encode())
    draw_model(folder, report)


def check_model(folder: Path, report: Reporter) -> None:
    """Name the tables of the model if the theory beside its values has changed since."""
    sidecar = model_path(folder, _SIDECAR)
    if sidecar.exists() and json.loads(sidecar.read_bytes()).get("theory") != theory_source():
        report.flag(f"{sidecar.parent}: of other theory than today's; make model writes it again")


def _contents(files: tuple[str, ...]) -> list[bytes]:
    made = _MADE[files](pretrained())
    return [content if isinstance(content, bytes) else csv_bytes(content) for content in made]


def _paths(folder: Path, files: Sequence[str]) -> tuple[Path, ...]:
    return tuple(model_path(folder, file) for file in files)


def draw_model(folder: Path, report: Reporter) -> None:
    """Draw the figures of the shipped tables, unless they are up to date.

    Raises:
        TableError: a table is not the one that `measure_model` wrote.
        Problem: the tables do not support a sentence.
    """
    sidecar = model_path(folder, _SIDECAR)
    written = json.loads(sidecar.read_bytes())["sha256"] if sidecar.exists() else {}
    inputs = _paths(folder, _SHIPPED)
    altered = [str(path) for path in inputs if checksum(path) != written.get(path.name)]
    if altered:
        raise TableError(f"altered or missing: {', '.join(altered)}; make model writes them again")
    products = []
    for name in _FIGURES:
        files = _paths(folder, [f"{name}.png"])
        products.append(Product(files, partial(_drawn, folder, name), inputs))
    build(folder, products, report, phase="figures")


def _drawn(folder: Path, name: str) -> list[bytes]:
    from experiments.studies.smollm2.figures import model_picture  # takes a second to load

    return model_picture(folder, name).render()
