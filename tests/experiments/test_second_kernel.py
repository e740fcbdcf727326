"""The plain kernel beside the fast one: a fault of 10% stops the measurement, and rounding never does."""

from dataclasses import fields, replace

import numpy as np
import pytest

from experiments.kinds import initialisation, saturation
from experiments.measuring import row_statistics
from sdpa import LAWS, RowDiagnostics, Scaling
from sdpa.arithmetic import FORMATS
from sdpa.initialisation import Scheme

RULES = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2", "d_k^1")))
ATTENTION = {"d_k": 5, "n_keys": 7, "n_queries": 3, "scaling": RULES}


def cell(**changes):
    return saturation.STATISTICS, saturation.Cell(**(ATTENTION | changes))


def at_initialisation():
    return initialisation.STATISTICS, initialisation.Cell(
        d_model=12, n_heads=2, n_keys=5, n_queries=3, scheme=Scheme.parse("gpt2"), scaling=RULES
    )


WITHOUT_THEORY = {
    "lognormal": cell(inputs=LAWS["lognormal"]),
    "causal, correlated": cell(mask="causal", correlation=0.5),
    "float32": cell(arithmetic=FORMATS["float32"]),
    "long": cell(d_k=600, n_keys=2000),
    "initialisation": at_initialisation(),
}


@pytest.mark.parametrize("name", [field.name for field in fields(RowDiagnostics)])
@pytest.mark.parametrize("case", WITHOUT_THEORY)
def test_finds_a_fault_of_the_kernel_without_theory(case, name, monkeypatch):
    def faulty(*args, **kwargs):
        rows = kernel(*args, **kwargs)
        return replace(rows, **{name: 1.1 * getattr(rows, name)})

    kernel, (statistics, one) = row_statistics.row_diagnostics, WITHOUT_THEORY[case]
    monkeypatch.setattr(row_statistics, "row_diagnostics", faulty)
    with np.errstate(invalid="ignore"), pytest.raises(ArithmeticError, match=f"^{name}: expected .* from the kernel"):
        statistics.measure(one, 20, np.random.default_rng(0))


def test_finds_a_wrong_score(monkeypatch):
    statistics, one = cell(n_queries=1, n_keys=2)
    draw = type(one).draw

    class Wrong(np.ndarray):
        def __matmul__(self, keys):
            return 1.000001 * (np.asarray(self) @ np.asarray(keys))

    def faulty(self, trials, rng):
        keys, queries = draw(self, trials, rng)
        return keys, lambda rows: queries(rows).view(Wrong)

    monkeypatch.setattr(type(one), "draw", faulty)
    with pytest.raises(ArithmeticError, match="score of key"):
        statistics.measure(one, 20, np.random.default_rng(0))


FAR = {"query_mean": 1e6, "key_mean": -1e6, "query_std": 1e-6, "key_std": 1e-6}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"d_k": 1, "n_keys": 2, "inputs": LAWS["rademacher"]},
        {"d_k": 1, "n_keys": 50, "query_std": 100.0, "arithmetic": FORMATS["float32"]},
        {"d_k": 1, "n_keys": 50, "query_std": 1e6, "key_std": 1e6},
        *({"d_k": 9, "n_keys": n_keys, "n_queries": 50, "query_std": 100.0} for n_keys in (2, 4, 30)),
        {"d_k": 3, "n_keys": 300, **FAR},
        {"d_k": 3, "key_mean": 10.0, "arithmetic": FORMATS["float32"]},
        {"d_k": 64, "n_keys": 3000, "correlation": 1.0},
        {"d_k": 1, "n_keys": 3000, "inputs": LAWS["lognormal"], "spectrum": 10.0},
    ],
    ids=str,
)
def test_takes_no_rounding_for_a_fault(changes, seed):
    statistics, one = cell(**changes)
    statistics.measure(one, 8, np.random.default_rng(seed))
