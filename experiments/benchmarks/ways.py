"""The competing ways to measure a cell, and a test that they agree on the same draws.

The ways are the suite and PyTorch, each in double and in single precision, and an article's loop over trials with
powers or with products. All draw the same number of normal numbers per trial.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from experiments.benchmarks import article, pytorch
from experiments.harness.experiment import MEASURED
from experiments.harness.grid import chunks
from experiments.harness.seeds import bit_generator
from experiments.metrics import METRICS
from experiments.row_statistics import RowMeasurement, RowStatistics
from experiments.sampling import Floats, block_trials, chunk_trials
from experiments.saturation import SINGLE, STATISTICS, Cell

Metrics = dict[str, float]

ARTICLE = {"article, powers": article.with_powers, "article, products": article.with_products}
SUITES = ("suite", "suite, float32")
_IN_SINGLE = ("suite", "pytorch")  # ways that have both precisions
# The norms of the article and of PyTorch cancel in saturated rows, where they are small. Root mean squares follow from
# the other rows: in the cells of `make bench`, PyTorch's in single precision differ from the suite's by at most 1e-6.
# The suite reads medians from bins.
_TOLERANCE, _MEDIAN_TOLERANCE = {"float64": 1e-6, "float32": 1e-5}, 1e-2


@dataclass(frozen=True)
class Way:
    """A way to measure a cell.

    Attributes:
        measure: takes the cell, a number of trials, and whether to measure gradients too.
        block: the trials of a cell that it processes at once.
        chunk: the trials of a cell after which its memory no longer grows.
    """

    measure: Callable[[Cell, int, bool], object]
    block: Callable[[Cell], int]
    chunk: Callable[[Cell], int]


class DifferentOutputError(Exception):
    """Two ways give different numbers for the same draws."""


def ways() -> dict[str, Way]:
    """Every way by name, including PyTorch if it is installed; the names of single precision end in `, float32`."""
    found = {"suite": Way(measure_by_suite, block_trials, chunk_trials)}
    for name, metrics in ARTICLE.items():
        found[name] = Way(partial(_measure_by_article, metrics), lambda _: 1, lambda _: 2)
    if pytorch.is_installed():
        pytorch.use_one_thread()
        found["pytorch"] = Way(_measure_by_pytorch, block_trials, block_trials)
    return found | {f"{name}, float32": _in_single(found[name]) for name in _IN_SINGLE if name in found}


def _in_single(way: Way) -> Way:
    """The same way for the same cells in single precision."""
    return Way(
        lambda cell, trials, gradients: way.measure(_single(cell), trials, gradients),
        lambda cell: way.block(_single(cell)),
        lambda cell: way.chunk(_single(cell)),
    )


def _single(cell: Cell) -> Cell:
    """The cell in single precision."""
    return replace(cell, arithmetic=SINGLE)


def measure_by_suite(cell: Cell, trials: int, gradients: bool) -> object:
    """The measurement of a sweep: chunk after chunk, merged.

    Args:
        cell: sizes and scalings.
        trials: divided into chunks as in a run of the suite.
        gradients: measure the metrics of the query gradient too.
    """
    rng = bit_generator(0)
    counts = (chunk.trials for chunk in chunks("saturation", cell, trials))
    metrics = (metric for metric in METRICS if gradients or getattr(metric.of, "needs", "") != "gradient")
    statistics = RowStatistics(tuple(metrics))
    return reduce(RowMeasurement.merge, (statistics.measure(cell, count, rng) for count in counts))


def _measure_by_article(metrics: Callable[..., object], cell: Cell, trials: int, gradients: bool) -> object:
    exponents = [float(scaling.power_of("d_k")) for scaling in cell.scaling]
    return article.measure(cell.d_k, cell.n_keys, cell.n_queries, exponents, trials, gradients, metrics)


def _measure_by_pytorch(cell: Cell, trials: int, gradients: bool) -> None:
    sizes = (cell.d_k, cell.n_keys, cell.n_queries)
    pytorch.draw_and_measure(
        *sizes, cell.divisors(), trials, block_trials(cell), gradients=gradients, dtype=cell.arithmetic.name
    )


def compare(cell: Cell) -> None:
    """Raise `DifferentOutputError` if a way and the suite give different numbers for the draws of a block.

    Relative differences may reach 1e-6 in double precision. On draws of single precision, where the article's ways
    still compute in double precision, they may reach 1e-5; those of medians 1e-2, because the suite reads medians from
    bins. Standard errors do not count, nor PyTorch's medians: their definitions differ.

    Args:
        cell: a cell in double precision.
    """
    for of_precision in (cell, _single(cell)):
        _compare(of_precision)


def _compare(cell: Cell) -> None:
    """As `compare`, for the draws of one precision."""
    trials = max(2, block_trials(cell))
    measured = STATISTICS.measure(cell, trials, bit_generator(0))
    rows = [{**row, **_powers(measured, row["divisor"])} for row in STATISTICS.tabulate(cell, measured)[MEASURED]]
    for name, found in _metrics_by_way(cell, *_same_draws(cell, trials)).items():
        for row, values in zip(rows, found, strict=True):
            _compare_metrics(cell, name, row, values)


def _powers(measured: RowMeasurement, divisor: float) -> Metrics:
    """Means of the second to fourth power of the scaled scores."""
    powers = zip(("score_square", "score_cube", "score_fourth"), measured.moments.mean[1:].tolist(), strict=False)
    return {name: power / divisor**exponent for exponent, (name, power) in enumerate(powers, 2)}


def _compare_metrics(cell: Cell, name: str, row: Mapping[str, Any], values: Metrics) -> None:
    """Compare the metrics that both have, relative to their size or, for odd moments near 0, to that of the scores."""
    spread = row["score_square"] ** 0.5
    # Near 0 a difference is small beside these.
    scales = {"score_mean": spread, "score_cube": row["score_fourth"] ** 0.75}
    for metric in sorted({*values} & {*row}):
        if metric.endswith("_se") or (metric.endswith("_median") and name == "pytorch"):
            continue  # an article's errors divide by the number of trials, PyTorch's median is the lower of two
        expected, got = row[metric], values[metric]
        tolerance = _MEDIAN_TOLERANCE if metric.endswith("_median") else _TOLERANCE[cell.arithmetic.name]
        if not abs(got - expected) <= tolerance * max(abs(expected), scales.get(metric, 1e-6)):
            where = f"d_k = {cell.d_k}, {cell.n_keys} keys, {row['scaling']}, {cell.arithmetic}"
            raise DifferentOutputError(f"{name}, {where}: expected {metric} {expected!r} as in the suite, got {got!r}")


def _same_draws(cell: Cell, trials: int) -> tuple[Floats, Floats]:
    """The suite's draws for this many trials: keys and queries."""
    rng, size = bit_generator(0), block_trials(cell)
    drawn = []
    for first in range(0, trials, size):
        keys, blocks = cell.draw(min(size, trials - first), rng)
        drawn.append((keys, np.concatenate([queries for _, queries in blocks], axis=1)))
    keys, queries = (np.concatenate(part) for part in zip(*drawn, strict=True))
    return keys, queries


def _metrics_by_way(cell: Cell, keys: Floats, queries: Floats) -> dict[str, list[Metrics]]:
    """The metrics of given draws in every way except the suite's, one dictionary for each scaling.

    The article's ways are in double precision, PyTorch in that of the draws.
    """
    exponents = [float(scaling.power_of("d_k")) for scaling in cell.scaling]
    sizes = (cell.d_k, cell.n_keys, cell.n_queries)
    found = {}
    for name, metrics in ARTICLE.items():
        drawn = iter([array.astype(float) for trial in zip(queries, keys, strict=True) for array in trial])
        given = article.measure(*sizes, exponents, len(keys), True, metrics, lambda *_, drawn=drawn: next(drawn))
        found[name] = list(given.values())
    if pytorch.is_installed():
        import torch

        found["pytorch"] = pytorch.measure(torch.from_numpy(keys), torch.from_numpy(queries), cell.divisors())
    return found
