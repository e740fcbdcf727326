"""Every head of a pretrained model beside Gaussian rows of the same spread; nothing is fitted.

The queries and keys of a model on its texts pass through `sdpa.diagnose` in eight groups of
sequences. A number is the mean over groups; its standard error comes from the differences between
them.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.interpolate import CubicSpline

from experiments.models.means import with_errors
from experiments.models.model import CASE, Case, Floats, Mask, Network, Weights
from sdpa import diagnose, row_diagnostics
from sdpa.heads.table import entropy_shares
from sdpa.theory.limits import freezing_sigma
from sdpa.theory.norm_quantiles import jacobian_median

GROUPS = 8
Lengths = tuple[int, ...]  # keys that the queries of a sequence see
Doubles = npt.NDArray[np.float64]

# At which a law is computed; those of heads lie between them.
_SIGMAS = np.geomspace(1e-3, 1e3, 120)
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]
# Draws of variance 1 from laws of scores beside the Gaussian one.
CONTROLS: dict[str, Draw] = {
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


def by_head_and_layer(cases: Sequence[Case], mask: Mask, network: Network) -> list[pd.DataFrame]:
    """A table with a row for each head under d_k^1/2, and one with a row for each layer of every
    case.
    """
    found = heads_of_cases(cases, mask, network)
    as_used = (found["keys"] == "recorded") & (found["scaling"] == Case.scaling)
    return [_means(found[as_used], "layer", "head"), _means(found, "layer")]


def _means(found: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Means over groups, of the heads that `by` does not tell apart together."""
    keys = [*CASE, *by]
    groups = found.groupby([*keys, "group"], sort=False)
    of_groups = groups[_quantities(found)].mean()
    return with_errors(of_groups.reset_index(), keys)


def _quantities(found: pd.DataFrame) -> list[str]:
    """The columns of a table; no law of the median of |J|_F is known for rows of many lengths."""
    return [name for name in QUANTITIES if name in found]


def heads_of_cases(cases: Sequence[Case], mask: Mask, network: Network) -> pd.DataFrame:
    """A row for each case, group, layer and head."""

    @lru_cache(maxsize=4)
    def recorded(n_keys: int, weights: Weights, text: str) -> tuple[Floats, Floats]:
        return network.queries_and_keys(network.tokens(text, n_keys), weights)

    tables = []
    for case in cases:
        q, k = recorded(case.n_keys, case.weights, case.text)
        tables.append(heads_of_case(case, q, _keys(case, k), mask))
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
    of_text = centred - centred.mean(axis=0)
    n = len(k)
    return np.asarray(of_text * np.float32(np.sqrt(n / (n - 1))))


def heads_of_case(case: Case, q: Floats, k: Floats, mask: Mask) -> pd.DataFrame:
    """A row for each group, layer and head, from queries and keys (sequence, layer, head, n,
    d_k).
    """
    found = _diagnosed(case, q, k, mask)
    lengths = row_lengths(case.n_keys, mask)
    found["spread"] = np.sqrt(found["row_variance"])
    found["entropy_share_law"] = law(found["spread"], lengths)
    found["entropy_share_distance"] = found["entropy_share"] - found["entropy_share_law"]
    is_frozen = found["spread"] > freezing_sigma(case.n_keys)
    found["frozen"] = is_frozen.astype(float)
    if mask == "none":
        found["jacobian_norm_median_law"] = median_law(found["spread"], case.n_keys)

    lengths = row_lengths(case.n_keys - 1, mask)
    own = 1 if mask == "causal" else 0  # the query whose key is the first
    without_first = _diagnosed(case, q[..., own:, :], k[..., 1:, :], mask)
    rest = np.sqrt(without_first["row_variance"])
    share = without_first["entropy_share"]
    found["rest_spread"] = rest
    found["rest_entropy_share"] = share
    found["first_key_variance"] = 1 - (rest / found["spread"]) ** 2
    found["rest_distance"] = share - law(rest, lengths)
    for name in CONTROLS:
        found[f"rest_distance_{name}"] = share - control(name, rest, lengths)
    return found[[*CASE, "group", "layer", "head", *_quantities(found)]]


def _diagnosed(case: Case, q: Floats, k: Floats, mask: Mask) -> pd.DataFrame:
    """A row for each group, layer and head."""
    diagnosis = diagnose(
        q.reshape(GROUPS, -1, *q.shape[1:]),
        k.reshape(GROUPS, -1, *k.shape[1:]),
        case.scaling,
        mask,
        axes=("group", "batch", "layer", "head"),
        exact=False,
    )
    return pd.DataFrame(diagnosis.columns()).assign(**asdict(case))


def row_lengths(n_keys: int, mask: Mask) -> Lengths:
    """The keys that the queries of a sequence see, from two on; one number if all see the same."""
    return tuple(range(2, n_keys + 1)) if mask == "causal" else (n_keys,)


def law(spread: npt.ArrayLike, lengths: Lengths) -> Doubles:
    """The mean entropy share of Gaussian rows of these lengths with given spreads.

    A spline goes through exact values; it is off by less than 1e-6.
    """
    curve = CubicSpline(np.log(_SIGMAS), _exact_shares(lengths))
    return np.asarray(curve(np.log(_sigma(spread, lengths))))


@cache
def _exact_shares(lengths: Lengths) -> Floats:
    return entropy_shares(_SIGMAS, np.array(lengths))


def _sigma(spread: npt.ArrayLike, lengths: Lengths) -> Doubles:
    """Scores of the variance sigma^2 have the variance sigma^2 (1 - 1/n) within a row, whose mean
    is the spread squared.
    """
    within = np.mean([1 - 1 / n for n in lengths])
    return np.asarray(np.asarray(spread, np.float64) / np.sqrt(within))


def median_law(spread: npt.ArrayLike, n_keys: int) -> Doubles:
    """The median of |J|_F of Gaussian rows of n_keys keys with given spreads, within 0.3%."""
    return np.interp(_sigma(spread, (n_keys,)), _SIGMAS, _medians(n_keys))


@cache
def _medians(n_keys: int) -> list[float]:
    return [jacobian_median(sigma, n_keys) for sigma in _SIGMAS]


def control(name: str, spread: npt.ArrayLike, lengths: Lengths) -> Doubles:
    """The mean entropy share of rows of independent scores of another law, from simulated rows."""
    shares = _simulated_shares(name, lengths)
    log_sigma = np.log(_sigma(spread, lengths))
    return np.interp(log_sigma, np.log(_SIGMAS), shares)


@cache
def _simulated_shares(name: str, lengths: Lengths) -> Doubles:
    longest = max(lengths)
    rng = np.random.default_rng([*name.encode(), longest])
    scores = CONTROLS[name](rng, (_CONTROL_ROWS, longest))
    n = np.resize(lengths, _CONTROL_ROWS)
    scores[np.arange(longest) >= n[:, None]] = -np.inf
    divisors = 1 / _SIGMAS
    rows = row_diagnostics(scores, divisors.tolist())
    shares = rows.entropy / np.log(n)
    return np.asarray(shares.mean(axis=1))
