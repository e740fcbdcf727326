"""The rows of `mechanisms` against plain loops; the kernel does the rest."""

import math
from dataclasses import replace

import numpy as np
import pytest

from experiments.kinds.mechanisms.cell import KERNEL, Cell, Sink
from experiments.measuring.sampling import MaskName
from sdpa.masks import allowed_keys
from sdpa.row_maps import NORMALIZERS
from tests.plain_attention import entropy
from tests.plain_maps import plain_jacobian, plain_weights
from tests.plain_rows import RULES

CELL = Cell(d_k=4, n_keys=7, n_queries=5, scaling=RULES)
CHANGES = [
    {"sink": Sink(0.5)},
    *(
        {"normalizer": normalizer, "softcap": 1.5, "mask": MaskName("causal")}
        for normalizer in NORMALIZERS.values()
    ),
    {"mask": MaskName("window-3"), "softcap": 2.0, "sink": Sink(-1.0)},
    {"mask": MaskName("local-2"), "sink": Sink(0.3)},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_the_rows_of_a_map_are_those_of_plain_loops(change):
    cell, rng = replace(CELL, **change), np.random.default_rng(0)
    q, k, g = (rng.standard_normal(shape) for shape in ((3, 5, 4), (3, 7, 4), (3, 5, 7)))
    seen = allowed_keys(cell.mask, (5, 7))
    visible = cell.visible(slice(0, 5))
    assert seen.all() if visible is None else (seen == visible).all()
    scores = np.where(seen, q @ k.mT, -np.inf)
    rows = KERNEL.softmax(cell, scores, k, g)._asdict()
    for rule, draw, i in np.ndindex(2, 3, 5):
        divisor, keys = (1.0, 2.0)[rule], k[draw, seen[i]]
        # the n of sigmoid counts all keys
        bias = math.log(len(keys) / 7) if cell.normalizer.name == "sigmoid" else 0.0
        given = scores[draw, i, seen[i]] / divisor, cell.row_map, bias
        weights, jacobian = plain_weights(*given), plain_jacobian(*given)
        total = math.fsum(weights)
        to_query = jacobian @ keys / divisor
        expected = {
            "max_weight": max(weights),
            "visible_mass": total,
            "entropy": entropy([w / total for w in weights]),
            "jacobian_norm": np.linalg.norm(jacobian),
            "weight_jacobian_norm": np.linalg.norm(to_query),
            "query_gradient_norm": np.linalg.norm(g[draw, i, seen[i]] @ to_query),
        }
        actual = {name: values[rule, draw, i] for name, values in rows.items()}
        assert actual == pytest.approx(expected, rel=1e-6)
