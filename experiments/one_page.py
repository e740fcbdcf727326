"""The whole experiment on one page: what does dividing q·k by sqrt(d_k) do to attention?

Standard normal queries and keys, 64 of each, for four divisors: d_k^0 (unscaled) to d_k^(2/3).
It takes a few seconds, and writes a picture with its table beside it. It imports nothing of the
suite, so that each checks the other (tests/experiments/test_one_page.py).
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from threadpoolctl import threadpool_limits

WIDTHS = [4, 8, 16, 32, 64, 128, 256, 512]
EXPONENTS = {"unscaled": 0, "d_k^1/3": 1 / 3, "d_k^1/2": 1 / 2, "d_k^2/3": 2 / 3}
TOKENS = 64  # queries, and keys
GROUPS = 20  # of independent draws: their spread gives the standard errors
DRAWS = 5  # of Q and K in each group
LOGARITHMIC = ["variance of a score", "median |dL/dq|"]  # axes; the other metrics are bounded


def softmax(scores: np.ndarray) -> np.ndarray:
    """exp(s) / sum exp(s) of each row, without its maximum, so that nothing overflows."""
    w: np.ndarray = np.exp(scores - scores.max(axis=-1, keepdims=True))
    w /= w.sum(axis=-1, keepdims=True)
    return w


def measure(d_k: int, rng: np.random.Generator) -> Iterator[tuple[str, str, float]]:
    """Four metrics of a group of draws: all divisors see the same Q, K and gradients g."""
    queries, keys = rng.standard_normal((2, DRAWS, TOKENS, d_k))
    g = rng.standard_normal((DRAWS, TOKENS, TOKENS))
    scores = queries @ keys.transpose(0, 2, 1)
    for rule, exponent in EXPONENTS.items():
        divisor = d_k**exponent
        w = softmax(scores / divisor)
        logs = np.log(np.maximum(w, np.finfo(float).tiny))  # 0 log 0 = 0
        # dL/dq = K^T J g / divisor of each query, where J = diag(w) - w w^T and g = dL/dw
        gradients = w * (g - (w * g).sum(axis=-1, keepdims=True)) @ keys / divisor
        yield rule, "variance of a score", (scores / divisor).var()
        yield rule, "largest weight", w.max(axis=-1).mean()
        yield rule, "entropy, nats", -(w * logs).sum(axis=-1).mean()
        yield rule, "median |dL/dq|", np.median(np.linalg.norm(gradients, axis=-1))


def experiment(seed: int = 0) -> pd.DataFrame:
    """One row for each width, divisor and metric: the mean over groups, and its standard error."""
    rows = [
        (d_k, *measured)
        for d_k in WIDTHS
        for group in range(GROUPS)
        for measured in measure(d_k, np.random.default_rng([seed, d_k, group]))
    ]
    names = ["d_k", "scaling", "metric"]
    groups = pd.DataFrame(rows, columns=[*names, "value"]).groupby(names, sort=False).value
    return groups.agg(value="mean", se="sem").reset_index()


def draw(table: pd.DataFrame, path: Path) -> None:
    """A panel for each metric, a line for each divisor, over d_k; bars are 95% intervals."""
    rows = table.assign(d_k=table.d_k.astype(str), error=1.96 * table.se)  # names: evenly spaced
    grid = sns.FacetGrid(rows, col="metric", hue="scaling", col_wrap=2, aspect=1.2, sharey=False)
    grid.map(plt.errorbar, "d_k", "value", "error", capsize=3).add_legend()
    for metric in LOGARITHMIC:
        grid.axes_dict[metric].set_yscale("log")
    grid.set_titles("{col_name}").set_ylabels("").savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", nargs="?", type=Path, default="one_page.png")
    picture = parser.parse_args().picture
    with threadpool_limits(1):  # on matrices this small, threads would wait for each other
        measured = experiment()
    measured.to_csv(picture.with_suffix(".csv"), index=False, float_format="%.6g")
    print(measured.pivot_table("value", ["metric", "scaling"], "d_k").round(3).to_string())
    draw(measured, picture)
