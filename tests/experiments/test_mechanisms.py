"""The experiment `mechanisms`: plain loops over the same draws."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.kinds.mechanisms.cell import EXPERIMENT, MECHANISM_METRICS, Cell, MaskName, Sink
from experiments.measuring.experiment import MEASURED
from sdpa.row_maps import NORMALIZERS
from tests.plain_attention import entropy
from tests.plain_rows import RULES, score_variance
from tests.sdpa.test_row_maps import plain_jacobian, plain_weights

CELL = Cell(d_k=4, n_keys=7, n_queries=5, scaling=RULES)
CHANGES = [
    {"sink": Sink(0.5)},
    *(
        {"normalizer": normalizer, "softcap": 1.5, "mask": MaskName("causal"), "query_std": 3.0}
        for normalizer in NORMALIZERS.values()
    ),
    {"mask": MaskName("window-3"), "softcap": 2.0, "sink": Sink(-1.0)},
    {"mask": MaskName("local-2"), "sink": Sink(0.3), "key_mean": 0.8},
]


# Keys before a query's own and after it that each mask shows.
REACH = {
    "none": (99, 99),
    "causal": (99, 0),
    "window-3": (2, 0),
    "local-2": (2, 2),
}


def table(cell):
    measured = EXPERIMENT.measure(cell, 3, np.random.default_rng(0))
    return EXPERIMENT.tabulate(cell, measured)[MEASURED]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_every_metric_is_that_of_plain_loops_over_the_same_draws(change):
    cell = replace(CELL, **change)
    rng = np.random.default_rng(0)
    gradients = rng.spawn(1)[0].standard_normal((3, 5, 7))
    keys, queries_of = cell.draw(3, rng)
    queries, first = queries_of(slice(0, 5)), cell.n_keys - cell.n_queries
    for row, rule in zip(table(cell), cell.scaling, strict=True):
        found, all_scores = [], []
        for draw, i in np.ndindex(3, 5):
            own = first + i
            back, ahead = REACH[cell.mask]
            seen = [j for j in range(7) if -back <= j - own <= ahead]
            divisor = rule.divisor(4, 7)
            q, k = queries[draw, i], keys[draw]
            scores = [math.fsum(q * k[j]) / divisor for j in seen]
            all_scores += scores
            bias = [0.0] * len(seen)
            if cell.normalizer.name == "sigmoid":  # its n counts all keys
                bias = [math.log(len(seen) / 7)] * len(seen)
            weights = plain_weights(scores, cell.row_map, bias)
            jacobian = plain_jacobian(scores, cell.row_map, bias)
            total = math.fsum(weights)
            of_row = {
                "visible_mass": total,
                "max_weight": max(weights),
                "entropy": entropy([w / total for w in weights]),
                "jacobian_norm": np.linalg.norm(jacobian),
                "weight_jacobian_norm": np.linalg.norm(jacobian @ k[seen]) / divisor,
                "query_gradient_norm": np.linalg.norm(gradients[draw, i, seen] @ jacobian @ k[seen])
                / divisor,
            }
            found.append(of_row)
        rows = pd.DataFrame(found)
        means = ("visible_mass", "max_weight", "entropy")
        norms = ("jacobian_norm", "weight_jacobian_norm", "query_gradient_norm")
        medians = [f"{name}_median" for name in norms]
        roots = {"jacobian_norm": "jacobian_norm", "query_gradient_norm": "weight_jacobian_norm"}
        assert {"score_variance", *means, *roots, *medians} == {m.name for m in MECHANISM_METRICS}
        variance = score_variance(np.reshape(all_scores, (3, -1)))
        assert row["score_variance"] == pytest.approx(variance, rel=1e-9)
        for name in means:
            assert row[name] == pytest.approx(rows[name].mean(), rel=1e-9), name
        for name, of_row in roots.items():
            root = math.sqrt((rows[of_row] ** 2).mean())
            assert row[name] == pytest.approx(root, rel=1e-6), name
        for name in norms:
            # The quantile of a histogram, whose bins are below 2% wide.
            median = rows[name].median()
            assert row[f"{name}_median"] == pytest.approx(median, rel=0.02), name
