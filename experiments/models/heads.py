"""Every head of a pretrained model beside Gaussian rows of the same spread; nothing is fitted.

The queries and keys of a model on its texts pass through `sdpa.diagnose` in eight groups of
sequences. A number is the mean over groups; its standard error comes from the differences between
them.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.interpolate import CubicSpline

from experiments.models.model import CASE, Case, Floats, Model, Network
from sdpa import diagnose, row_diagnostics
from sdpa.theory.gaussian_rows import gaussian_rows
from sdpa.theory.limits import freezing_sigma
from sdpa.theory.norm_quantiles import jacobian_quantile

GROUPS = 8
USED = "d_k^1/2"  # rule of all models
Lengths = tuple[int, ...]  # keys that the queries of a sequence see
_CURVE = np.geomspace(1e-3, 1e3, 120)  # spreads at which a law is computed; heads lie between them
_AXES = ("group", "batch", "layer", "head")
# Draws of variance 1 from laws of scores beside the Gaussian one.
CONTROLS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "logistic": lambda rng, shape: rng.logistic(size=shape) * (np.sqrt(3) / np.pi),
    "uniform": lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape),
    "laplace": lambda rng, shape: rng.laplace(size=shape) / np.sqrt(2),
}
_CONTROL_ROWS = 4096  # whose mean entropy share has a standard error below 0.005

QUANTITIES = {
    "spread": "standard deviation of the scaled scores within rows",
    "entropy_share": "entropy over ln n, mean over rows",
    "entropy_share_law": "that of Gaussian rows that all have this spread",
    "entropy_share_distance": "entropy_share - entropy_share_law",
    "jacobian_norm_median": "median of |J|_F over rows",
    "jacobian_norm_median_law": "that of Gaussian rows of the same spread",
    "frozen": "1 if the spread is above sqrt(2 ln n_keys)",
    "first_key_weight": "weight of the first key; in the BERT, the token [CLS]",
    "first_key_variance": "part of the variance within rows that is gone without the first key",
    "rest_spread": "spread without the first key",
    "rest_entropy_share": "entropy_share without the first key",
    "rest_distance": "rest_entropy_share less that of Gaussian rows of rest_spread",
    **{
        f"rest_distance_{name}": (
            f"rest_entropy_share less that of rows of independent {name} scores of rest_spread"
        )
        for name in CONTROLS
    },
    "variance_ratio": (
        "variance within rows over that of independent entries of the same standard deviations"
    ),
    "length_effect": "part of variance_ratio that is due to the lengths of q and k",
    "alignment_effect": "part of variance_ratio that is due to their directions",
    "unit_divisor": "divisor that gives the head the spread 1",
    "unit_exponent": "the power of d_k that this divisor is",
}


def of_network(model: Model, network: Network) -> pd.DataFrame:
    """A row for each case of the model, group, layer and head."""
    tables = []
    for case in model.cases:
        tokens = network.tokens(case.text, case.n_keys)
        q, k = network.queries_and_keys(tokens, case.weights)
        tables.append(of_case(case, q, _keys(case, k), model.mask))
    return pd.concat(tables, ignore_index=True)


def _keys(case: Case, k: Floats) -> Floats:
    """Keys as they are; without their mean over a sequence; or without their mean at each position,
    too.

    The mean of a sequence is the same for all keys of a row, and changes no weight. The mean at a
    position, over sequences, knows no text. Squares of differences from the mean of n sequences are
    n / (n - 1) times too small.
    """
    if case.keys == "recorded":
        return k
    centred = k - k.mean(axis=-2, keepdims=True)
    if case.keys == "centred":
        return np.asarray(centred)
    correction = np.float32(np.sqrt(len(k) / (len(k) - 1)))
    return np.asarray((centred - centred.mean(axis=0)) * correction)


def of_case(case: Case, q: Floats, k: Floats, mask: str = "none") -> pd.DataFrame:
    """A row for each group, layer and head, from queries and keys (sequence, layer, head, n,
    d_k).
    """
    groups = (array.reshape(GROUPS, -1, *array.shape[1:]) for array in (q, k))
    found = pd.DataFrame(diagnose(*groups, case.scaling, mask, axes=_AXES, exact=False).columns())
    spread, rest = (np.sqrt(found[name]) for name in ("row_variance", "row_variance_without_first"))
    share, rest_share = found["entropy_share"], found["entropy_share_without_first"]
    lengths, rest_lengths = (row_lengths(n, mask) for n in (case.n_keys, case.n_keys - 1))
    distances = {
        f"rest_distance_{name}": rest_share - control(name, rest, rest_lengths) for name in CONTROLS
    }
    if mask == "none":
        distances["jacobian_norm_median_law"] = median_law(spread, case.n_keys)
    share_law = law(spread, lengths)
    table = found.assign(
        **asdict(case),
        spread=spread,
        entropy_share_law=share_law,
        entropy_share_distance=share - share_law,
        frozen=(spread > freezing_sigma(case.n_keys)).astype(float),
        first_key_variance=1 - (rest / spread) ** 2,
        rest_spread=rest,
        rest_entropy_share=rest_share,
        rest_distance=rest_share - law(rest, rest_lengths),
        **distances,
    )
    return table[[*CASE, "group", "layer", "head", *_quantities(table)]]


def _quantities(table: pd.DataFrame) -> list[str]:
    """The columns of a table; no law of the median of |J|_F is known for rows of many lengths."""
    return [name for name in QUANTITIES if name in table]


def row_lengths(n_keys: int, mask: str) -> Lengths:
    """The keys that the queries of a sequence see, from two on; one number if all see the same."""
    return tuple(range(2, n_keys + 1)) if mask == "causal" else (n_keys,)


def law(spread: npt.ArrayLike, lengths: Lengths) -> npt.NDArray[np.float64]:
    """The mean entropy share of Gaussian rows of these lengths with given spreads.

    Scores of the variance sigma^2 have the variance sigma^2 (1 - 1/n) within a row, whose mean is
    the spread squared. A spline goes through exact values; it is off by less than 1e-6.
    """
    curve = CubicSpline(np.log(_CURVE), _exact_shares(lengths))
    return np.asarray(curve(np.log(_sigma(spread, lengths))))


@cache
def _exact_shares(lengths: Lengths) -> list[float]:
    n = np.array(lengths)
    rows = (gaussian_rows(np.full(n.shape, sigma), n) for sigma in _CURVE)
    return [float((values[:, 1] / np.log(n)).mean()) for values in rows]


def _sigma(spread: npt.ArrayLike, lengths: Lengths) -> npt.NDArray[np.float64]:
    within = np.mean([1 - 1 / n for n in lengths])
    return np.asarray(np.asarray(spread, np.float64) / np.sqrt(within))


def median_law(spread: npt.ArrayLike, n_keys: int) -> npt.NDArray[np.float64]:
    """The median of |J|_F of Gaussian rows of n_keys keys with given spreads, within 0.3%."""
    return np.asarray(np.interp(_sigma(spread, (n_keys,)), _CURVE, _medians(n_keys)))


@cache
def _medians(n_keys: int) -> list[float]:
    return [jacobian_quantile(sigma, n_keys) for sigma in _CURVE]


def control(name: str, spread: npt.ArrayLike, lengths: Lengths) -> npt.NDArray[np.float64]:
    """The mean entropy share of rows of independent scores of another law, from simulated rows."""
    curve = _simulated(name, lengths)
    return np.asarray(np.interp(np.log(_sigma(spread, lengths)), np.log(_CURVE), curve))


@cache
def _simulated(name: str, lengths: Lengths) -> list[float]:
    longest = max(lengths)
    rng = np.random.default_rng([*name.encode(), longest])
    scores = CONTROLS[name](rng, (_CONTROL_ROWS, longest))
    n = np.resize(lengths, (_CONTROL_ROWS, 1))
    scores[np.arange(longest) >= n] = -np.inf
    entropies = (row_diagnostics(scores, [1 / sigma]).entropy for sigma in _CURVE)
    return [float((entropy / np.log(n[:, 0])).mean()) for entropy in entropies]


def summary(table: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Means of `of_network` over what is neither a case nor in `by`, with standard errors between
    groups as NAME_se.
    """
    keys, names = [*CASE, *by], _quantities(table)
    means = table.groupby([*keys, "group"], sort=False)[names].mean()
    of_groups = means.groupby(keys, sort=False)
    columns = of_groups.mean().join(of_groups.sem().add_suffix("_se"))
    order = [f"{name}{suffix}" for name in names for suffix in ("", "_se")]
    return columns[order].reset_index()


def by_head_and_layer(found: pd.DataFrame) -> list[pd.DataFrame]:
    """A table with a row for each head under d_k^1/2, and one with a row for each layer of every
    case.
    """
    as_used = (found["keys"] == "recorded") & (found["scaling"] == USED)
    return [summary(found[as_used], "layer", "head"), summary(found, "layer")]
