"""Each head of the pretrained model beside rows of normal scores with the same standard deviation;
nothing is fitted.

The queries and keys of the model on its texts pass through `sdpa.diagnose` in eight groups of
sequences. A number is the mean over groups; its standard error comes from the differences between
them.
"""

import io
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.interpolate import CubicSpline

import sdpa  # whose tools load when they are called
from experiments.studies.smollm2.divisors import LENGTH, TEXTS, with_errors
from experiments.studies.smollm2.model import Pretrained
from sdpa._arrays import FloatArray
from sdpa.scaling import SCALED
from sdpa.theory.gaussian_rows import gaussian_rows
from sdpa.theory.limits import freezing_sigma

GROUPS = 8
# Weights and text of each run.
RUN_CASES = {"trained": TEXTS, "initial": ("prose",)}
SAMPLED = (0, 15)  # layers
_CASE = ["n_keys", "weights", "text", "keys", "scaling"]  # columns
Lengths = tuple[int, ...]  # keys that the queries of a sequence see

# At which a law is computed; those of heads lie between them.
_SIGMAS = np.geomspace(1e-3, 1e3, 120)
# Draws of variance 1 from laws of scores beside the Gaussian one.
CONTROLS = {
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
    "frozen": "1 if the spread is above sqrt(2 ln n_keys)",
    "first_key_weight": "weight of the first key",
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


def by_head_and_layer(model: Pretrained) -> list[pd.DataFrame]:
    """A table with a row for each case and head, and one with a row for each case and layer."""
    tables = []
    for weights, texts in RUN_CASES.items():
        run = model if weights == "trained" else model.at_start()
        for text in texts:
            q, k = run.queries_and_keys(model.tokens(text, LENGTH))
            tables.append(heads_of_sequences(q, k).assign(weights=weights, text=text))
    heads = pd.concat(tables).assign(keys="recorded", scaling=SCALED)
    # Means over groups, of the heads that a table does not tell apart together.
    means = []
    for by in (["layer", "head"], ["layer"]):
        keys = [*_CASE, *by]
        by_group = heads.groupby([*keys, "group"], sort=False)[[*QUANTITIES]].mean()
        means.append(with_errors(by_group.reset_index(), keys))
    return means


def heads_of_sequences(q: FloatArray, k: FloatArray) -> pd.DataFrame:
    """A row for each group, layer and head, from queries and keys (sequence, layer, head, n, d_k)
    under a causal mask.
    """
    diagnosed = _diagnosed(q, k)
    n_keys = k.shape[-2]
    lengths = tuple(range(2, n_keys + 1))
    spread = np.sqrt(diagnosed["row_variance"])
    expected = law(spread, lengths)
    without_first = _diagnosed(q[..., 1:, :], k[..., 1:, :])
    lengths = lengths[:-1]
    rest = np.sqrt(without_first["row_variance"])
    share = without_first["entropy_share"]
    laws = {f"rest_distance_{name}": control(name, rest, lengths) for name in CONTROLS}
    laws["rest_distance"] = law(rest, lengths)
    diagnosed = diagnosed.assign(
        n_keys=n_keys,
        spread=spread,
        entropy_share_law=expected,
        entropy_share_distance=diagnosed["entropy_share"] - expected,
        frozen=np.where(spread > freezing_sigma(n_keys), 1.0, 0.0),
        first_key_variance=1 - (rest / spread) ** 2,
        rest_spread=rest,
        rest_entropy_share=share,
        **{name: share - other for name, other in laws.items()},
    )
    return diagnosed[["n_keys", "group", "layer", "head", *QUANTITIES]]


def _diagnosed(q: FloatArray, k: FloatArray) -> pd.DataFrame:
    """A row for each group, layer and head."""
    diagnosis = sdpa.diagnose(
        q.reshape(GROUPS, -1, *q.shape[1:]),
        k.reshape(GROUPS, -1, *k.shape[1:]),
        mask="causal",
        axes=("group", "batch", "layer", "head"),
        exact=False,
    )
    return pd.DataFrame(diagnosis.columns())


def law(spread: npt.ArrayLike, lengths: Lengths) -> FloatArray:
    """The mean entropy share of Gaussian rows of these lengths with given spreads.

    A spline goes through exact values; it is off by less than 1e-6.
    """
    return np.asarray(_spline(lengths)(np.log(_sigma(spread, lengths))))


@cache
def _spline(lengths: Lengths) -> CubicSpline:
    """The law over ln sigma."""
    sigmas, n_keys = np.repeat(_SIGMAS, len(lengths)), np.tile(lengths, len(_SIGMAS))
    entropy = gaussian_rows(sigmas, n_keys, ["entropy"])[:, 0]
    shares = entropy.reshape(len(_SIGMAS), -1) / np.log(lengths)
    return CubicSpline(np.log(_SIGMAS), shares.mean(axis=1))


def _sigma(spread: npt.ArrayLike, lengths: Lengths) -> FloatArray:
    """Scores of the variance sigma^2 have the variance sigma^2 (1 - 1/n) within a row, whose mean
    is the spread squared.
    """
    within = np.mean([1 - 1 / n for n in lengths])
    return np.asarray(np.asarray(spread, np.float64) / np.sqrt(within))


def control(name: str, spread: npt.ArrayLike, lengths: Lengths) -> FloatArray:
    """The mean entropy share of rows of independent scores of another law, from simulated rows."""
    log_sigma = np.log(_sigma(spread, lengths))
    return np.interp(log_sigma, np.log(_SIGMAS), _simulated_shares(name, lengths))


@cache
def _simulated_shares(name: str, lengths: Lengths) -> FloatArray:
    longest = max(lengths)
    rng = np.random.default_rng([*name.encode(), longest])
    scores = CONTROLS[name](rng, (_CONTROL_ROWS, longest))
    n = np.resize(lengths, _CONTROL_ROWS)
    scores[np.arange(longest) >= n[:, None]] = -np.inf
    rows = sdpa.row_diagnostics(scores, (1 / _SIGMAS).tolist())
    shares = rows.entropy / np.log(n)
    return np.asarray(shares.mean(axis=1))


def sample(model: Pretrained) -> list[bytes]:
    """The example of `sdpa diagnose`, an .npz file with q and k (batch, head, n, d_k) of two
    layers: the first 32 tokens of prose, in half precision.
    """
    tokens = model.tokens("prose", LENGTH)[:, :32]
    q, k = model.queries_and_keys(tokens)
    arrays = {}
    for layer in SAMPLED:
        arrays[f"q.{layer}"] = q[:, layer].astype(np.float16)
        arrays[f"k.{layer}"] = k[:, layer].astype(np.float16)
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return [file.getvalue()]
