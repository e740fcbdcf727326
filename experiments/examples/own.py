"""The steps of attention on a user's own matrices.

CSV files go in, and the steps of `Walkthrough` come out. The module checks that shapes and names of the files fit
together, so that a message names a file instead of an array.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.examples.example import ExampleError, Step
from experiments.examples.files import Named, read_matrix
from experiments.examples.walkthrough import Walkthrough
from sdpa import Scaling, trace

_SHOWN = 5  # names in a message


def own_steps(q: Path, k: Path, v: Path | None, *, scaling: str, causal: bool) -> list[Step]:
    """Every step of attention on the matrices in these files.

    Args:
        q: file of the queries.
        k: file of the keys.
        v: file of the values; without it the steps end at the weights.
        scaling: the name of a scaling rule.
        causal: let a query see only the keys up to its own position.

    Raises:
        ExampleError: a file holds no matrix, shapes do not match, or the rule is unknown; the message says which.
    """
    queries, keys = read_matrix(q), read_matrix(k)
    values = read_matrix(v) if v else None
    (n_queries, d_k), (n_keys, width) = queries.values.shape, keys.values.shape
    if width != d_k:
        raise ExampleError(f"{k}: expected {d_k} columns, as many as {q} has, got {width}")
    if values and len(values.values) != n_keys:
        raise ExampleError(f"{v}: expected {n_keys} rows, as many as {k} has, got {len(values.values)}")
    if queries.columns and keys.columns and queries.columns != keys.columns:
        raise ExampleError(f"{k}: expected the columns {_listed(queries.columns)} of {q}, got {_listed(keys.columns)}")
    if values and values.rows and keys.rows and values.rows != keys.rows:
        raise ExampleError(f"{v}: expected the rows {_listed(keys.rows)} of {k}, got {_listed(values.rows)}")
    if causal and n_keys != n_queries:
        raise ExampleError(f"{k}: expected {n_queries} rows, as many as {q} has, for a causal mask, got {n_keys}")
    told = Walkthrough(
        trace(
            queries.values,
            keys.values,
            values.values if values else None,
            scaling=_rule(scaling),
            mask=np.tri(n_queries, dtype=bool) if causal else None,
        ),
        queries=queries.rows or _numbered("q", n_queries),
        keys=keys.rows or _numbered("k", n_keys),
        rule=_rule(scaling).name,
        widths=_widths(queries, keys),
        outputs=values.columns if values else (),
    )
    return [*told.attention(), *told.effect()]


def _rule(name: str) -> Scaling:
    """The scaling rule of that name; ExampleError for an unknown one."""
    try:
        return Scaling.parse(name)
    except ValueError as error:
        raise ExampleError(f"--scaling: {error}") from None


def _widths(queries: Named, keys: Named) -> tuple[str, ...]:
    """The names of the columns of q and k, from the header of either."""
    return queries.columns or keys.columns


def _listed(names: Sequence[str]) -> str:
    """Names for a message, only the first few if there are many."""
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _numbered(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{i + 1}" for i in range(count))
