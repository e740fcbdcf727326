"""The whole experiment on one page: what does dividing q·k by sqrt(d_k) do to attention?

Standard normal queries and keys, 64 of each, for d_k = 4 to 512 and four divisors: d_k^0 (unscaled),
d_k^(1/3), d_k^(1/2) and d_k^(2/3). `python experiments/one_page.py [PICTURE]` takes a few seconds.
The suite adds exact values, more draws and many more cases (results/dimension.csv). This page
imports nothing of it, so that each checks the other (tests/experiments/test_one_page.py).
"""

import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
import seaborn as sns
from numpy import ndarray

WIDTHS = [4, 8, 16, 32, 64, 128, 256, 512]
EXPONENTS = {"unscaled": 0, "d_k^1/3": 1 / 3, "d_k^1/2": 1 / 2, "d_k^2/3": 2 / 3}
TOKENS = 64  # queries, and keys
GROUPS = 20  # of independent draws: their spread gives the standard errors
DRAWS = 10  # of Q and K in each group


def softmax(scores: ndarray) -> ndarray:
    """exp(s) / sum exp(s) of each row, without its maximum, so that nothing overflows."""
    w: ndarray = np.exp(scores - scores.max(axis=-1, keepdims=True))
    w /= w.sum(axis=-1, keepdims=True)
    return w


def query_gradients(w: ndarray, keys: ndarray, g: ndarray, divisor: float) -> ndarray:
    """dL/dq = K^T J g / divisor of each query, where J = diag(w) - w w^T and g = dL/dw."""
    gradients: ndarray = w * (g - (w * g).sum(axis=-1, keepdims=True)) @ keys / divisor
    return gradients


def measure(d_k: int, rng: np.random.Generator) -> Iterator[tuple[str, str, float]]:
    """Four metrics of a group of draws: all divisors see the same Q, K and gradients g."""
    queries, keys = rng.standard_normal((2, DRAWS, TOKENS, d_k))
    g = rng.standard_normal((DRAWS, TOKENS, TOKENS))
    scores = queries @ keys.transpose(0, 2, 1)
    for rule, exponent in EXPONENTS.items():
        divisor = d_k**exponent
        scaled = scores / divisor
        w = softmax(scaled)
        logarithms = np.log(np.maximum(w, np.finfo(float).tiny))  # 0 log 0 = 0
        gradients = query_gradients(w, keys, g, divisor)
        yield rule, "variance of a score", scaled.var()
        yield rule, "largest weight", w.max(axis=-1).mean()
        yield rule, "entropy, nats", -(w * logarithms).sum(axis=-1).mean()
        yield rule, "median |dL/dq|", np.median(np.linalg.norm(gradients, axis=-1))


def experiment(seed: int = 0) -> pd.DataFrame:
    """One row for each width, divisor and metric: the mean over groups, and its standard error."""
    rows = [
        (d_k, *measured)
        for d_k in WIDTHS
        for group in range(GROUPS)
        for measured in measure(d_k, np.random.default_rng([seed, d_k, group]))
    ]
    table = pd.DataFrame(rows, columns=["d_k", "scaling", "metric", "value"])
    groups = table.groupby(["d_k", "scaling", "metric"], sort=False).value
    return groups.agg(value="mean", se="sem").reset_index()


def draw(table: pd.DataFrame, path: str) -> None:
    """A panel for each metric, a line for each divisor, over d_k."""
    panels = {"col": "metric", "col_wrap": 2, "height": 3, "facet_kws": {"sharey": False}}
    grid = sns.relplot(table, x="d_k", y="value", hue="scaling", kind="line", **panels)
    grid.set(xscale="log", yscale="log", xticks=WIDTHS, xticklabels=WIDTHS)
    grid.set_titles("{col_name}").savefig(path)


if __name__ == "__main__":
    measured = experiment()
    print(measured.pivot_table("value", ["metric", "scaling"], "d_k").round(3).to_string())
    draw(measured, sys.argv[1] if len(sys.argv) > 1 else "one_page.png")
