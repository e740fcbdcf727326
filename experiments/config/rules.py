"""Rules that no single key decides: names and trials of sweeps, and the size of their work."""

import math
import re
from collections import Counter
from collections.abc import Iterator

from experiments.config.models import NAME, Value, listed, sweep_model
from experiments.config.paths import TAKEN_BY_TABLES
from experiments.config.sweep import Sweep
from experiments.config.yaml_text import KeyPath
from experiments.kinds import experiment_names
from experiments.measuring.cells import ScaledCell
from experiments.measuring.columns import axis_values, cell_fields, describe, written
from experiments.measuring.experiment import load_experiment

_MAX_CELLS = 100_000
_MAX_ROWS = 200_000
_MAX_CHUNKS = 500_000  # days of work, and one record per chunk
_EXPECTED = (
    "expected a letter, then letters, digits and underscores, 64 at most, and none of "
    f"{', '.join(TAKEN_BY_TABLES)}"
)
KeyProblem = tuple[KeyPath, str]  # the path of a key, and the message


def block_problems(blocks: Value) -> Iterator[KeyProblem]:
    """The faults of blocks, as read, beside those of their keys; each path is below `sweeps`."""
    lowered = Counter(map(str.lower, blocks))
    for name, block in blocks.items():
        got = f"got the sweep name {name!r}"
        if not re.fullmatch(NAME, name) or name.lower() in TAKEN_BY_TABLES:
            yield (name,), f"{got}, {_EXPECTED}"
        if lowered[name.lower()] > 1:
            yield (name,), f"{got}, expected names that differ by more than case"
        if isinstance(block, dict) and block.get("experiment") in experiment_names():
            for key, message in (*_trials_problems(block), *_mask_problems(block)):
                yield (name, key), message


def _trials_problems(block: dict[str, Value]) -> Iterator[tuple[str, str]]:
    if not load_experiment(block["experiment"]).has_precision:
        return
    is_known = block.keys() <= sweep_model(block["experiment"]).model_fields.keys()
    if is_known and "trials" not in block and "precision" not in block:
        yield "trials", "missing key; expected trials or precision"
    if "trials" in block and "precision" in block:
        yield "precision", "got both precision and trials, expected one of them"
    if "max_trials" in block and "precision" not in block:
        yield "max_trials", "got max_trials without precision, expected both"


def _mask_problems(block: dict[str, Value]) -> Iterator[tuple[str, str]]:
    """A mask whose rows nobody chose: the default of n_queries would leave out all short rows."""
    keys = cell_fields(load_experiment(block["experiment"]).cell)
    if "n_queries" in block or not {"mask", "n_queries"} <= {*keys}:
        return
    variants = [part for part in listed(block.get("variants")) if isinstance(part, dict)]
    for key, part in [("mask", block), *(("variants", part) for part in variants)]:
        if "n_queries" not in part and {*map(str, listed(part.get("mask", [])))} - {"none"}:
            yield (
                key,
                "got a mask without n_queries, expected both: the queries are the last n_queries "
                "of n_keys positions, so n_queries = n_keys has rows of every length",
            )


def first_problem(sweep: Sweep) -> KeyProblem | None:
    """The first reason why a valid sweep cannot run; None without any. Its path is below the block.

    A sweep with a precision counts with its `max_trials`.
    """
    points = sum(math.prod(map(len, grid.values())) for grid in sweep.grids())
    if points > _MAX_CELLS:
        return (), f"got a grid of {points} cells and scalings, expected at most {_MAX_CELLS}"
    cells = sweep.cells
    chunks = sum(math.ceil(sweep.trials / cell.chunk_trials) for cell in cells)
    if chunks > _MAX_CHUNKS:
        got = f"got {sweep.trials} trials in {chunks} chunks of work"
        return (), f"{got}, expected at most {_MAX_CHUNKS} chunks"
    rows = sum(cell.table_rows(sweep.trials) for cell in cells)
    if rows > _MAX_ROWS:
        return (), f"got a table of {rows} rows, expected at most {_MAX_ROWS}"
    for cell in cells:
        try:
            problem = cell.problem()
        except ValueError as error:  # of a rule without a divisor at these sizes
            return (), str(error)
        if problem:
            key, _, message = problem.partition(": ")
            return (key,), message
    for cell in cells:
        if isinstance(cell, ScaledCell):
            try:
                cell.divisors()
            except ValueError as error:
                return ("scaling",), str(error)
    # A row of a file finds its cell by these texts.
    texts = [tuple(map(written, axis_values(cell).values())) for cell in cells]
    text, count = Counter(texts).most_common(1)[0]
    if count > 1:
        twice = f"got the cell {describe(cells[texts.index(text)])} twice, to ten digits"
        where: KeyPath = ("variants",) if sweep.variants else ()
        return where, f"{twice}, expected each cell once"
    return None
