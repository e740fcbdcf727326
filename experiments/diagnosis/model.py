"""`make model`: every head of a pretrained BERT beside Gaussian rows of the same spread; nothing is
fitted.

The queries and keys of `minilm` on three texts pass through `sdpa.diagnose` in eight groups of two
sequences. A number is the mean over groups; its standard error comes from the differences between
them.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.diagnosis import minilm
from experiments.engine.files import checksum
from experiments.paths import diagnosis_path
from sdpa import diagnose, row_diagnostics
from sdpa.theory.gaussian_rows import gaussian_rows
from sdpa.theory.limits import freezing_sigma, median_jacobian_norm

GROUPS, SEQUENCES = 8, 16
LENGTH = 128
LENGTHS = (16, 32, 64, 128, 256, 512)
_USED = "d_k^1/2"  # rule of the model
_RULES = ("unscaled", _USED, "d_k^1")
_TEXTS = ("prose", "code", "shuffled")
_CURVE = np.geomspace(1e-3, 1e3, 120)  # spreads at which a law is computed; heads lie between them
_AXES = ("group", "batch", "layer", "head")
# Draws of variance 1 from laws of scores beside the Gaussian one.
CONTROLS: dict[str, Callable[[np.random.Generator, tuple[int, int]], minilm.Floats]] = {
    "logistic": lambda rng, shape: rng.logistic(size=shape) * (np.sqrt(3) / np.pi),
    "uniform": lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape),
    "laplace": lambda rng, shape: rng.laplace(size=shape) / np.sqrt(2),
}
_CONTROL_ROWS = 4096  # whose mean entropy share has a standard error below 0.005

# The columns of both tables after those of `Case`, each with its standard error as NAME_se.
QUANTITIES = {
    "spread": "standard deviation of the scaled scores within rows",
    "entropy_share": "entropy over ln n, mean over rows",
    "entropy_share_law": "that of Gaussian rows of the same spread",
    "entropy_share_distance": "entropy_share - entropy_share_law",
    "jacobian_norm_median": "median of |J|_F over rows",
    "jacobian_norm_median_law": "that of Gaussian rows of the same spread, within 2%",
    "frozen": "1 if the spread is above sqrt(2 ln n)",
    "first_key_weight": "weight of the first key, the token [CLS]",
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


@dataclass(frozen=True)
class Case:
    """One way to record queries and keys of a model and to read them."""

    weights: Literal["trained", "initial"] = "trained"
    text: str = "prose"
    keys: Literal["recorded", "centred", "content"] = "recorded"
    scaling: str = _USED
    n_keys: int = LENGTH


CASES = (
    *(Case(text=text, scaling=rule) for text in _TEXTS for rule in _RULES),
    *(Case("initial", scaling=rule) for rule in _RULES),
    *(Case(text=text, keys=keys) for text in _TEXTS for keys in ("centred", "content")),
    *(Case(n_keys=n) for n in LENGTHS if n != LENGTH),
)
TABLES = {"heads": "by-head.csv", "layers": "by-layer.csv"}  # files by the names of tables
NAMES = tuple(field.name for field in fields(Case))


def sequences(model: minilm.Pretrained, text: str, length: int) -> npt.NDArray[np.int64]:
    """`SEQUENCES` sequences of a length, spread evenly over a text, with [CLS] and [SEP];
    `shuffled` is prose.
    """
    source = "prose" if text == "shuffled" else text
    path = Path(__file__).with_name(f"{source}.txt")
    tokenizer = model.tokenizer
    ids = tokenizer.encode(path.read_text(encoding="utf-8"), add_special_tokens=False).ids
    inner = length - 2
    starts = np.linspace(0, len(ids) - inner, SEQUENCES).astype(int)
    body = np.array([ids[start : start + inner] for start in starts])
    if text == "shuffled":
        rng = np.random.default_rng([*b"shuffled", length])
        body = rng.permuted(body.ravel()).reshape(body.shape)
    first, last = ([tokenizer.token_to_id(token)] * SEQUENCES for token in ("[CLS]", "[SEP]"))
    return np.column_stack([first, body, last])


def measured(model: minilm.Pretrained, cases: Sequence[Case] = CASES) -> pd.DataFrame:
    """A row for each case, group, layer and head."""
    initial = minilm.untrained(model.weights, np.random.default_rng([*b"initial"]))
    networks = {"trained": model.weights, "initial": initial}

    @cache
    def record(weights: str, text: str, n_keys: int) -> tuple[minilm.Floats, minilm.Floats]:
        return minilm.queries_and_keys(networks[weights], sequences(model, text, n_keys))

    tables = []
    for case in cases:
        q, k = record(case.weights, case.text, case.n_keys)
        tables.append(of_case(case, q, _keys(case, k)))
    return pd.concat(tables, ignore_index=True)


def _keys(case: Case, k: minilm.Floats) -> minilm.Floats:
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


def of_case(case: Case, q: minilm.Floats, k: minilm.Floats) -> pd.DataFrame:
    """A row for each group, layer and head, from queries and keys (sequence, layer, head, n,
    d_k).
    """
    groups = (array.reshape(GROUPS, -1, *array.shape[1:]) for array in (q, k))
    found = pd.DataFrame(diagnose(*groups, case.scaling, axes=_AXES).columns())
    spread, rest = (np.sqrt(found[name]) for name in ("row_variance", "row_variance_without_first"))
    n_keys, share = case.n_keys, found["entropy_share"]
    n_rest, rest_share = n_keys - 1, found["entropy_share_without_first"]
    share_law = law("entropy_share", spread, n_keys)
    distances = {
        f"rest_distance_{name}": rest_share - control(name, rest, n_rest) for name in CONTROLS
    }
    table = found.assign(
        **asdict(case),
        spread=spread,
        entropy_share_law=share_law,
        entropy_share_distance=share - share_law,
        jacobian_norm_median_law=law("jacobian_norm_median", spread, n_keys),
        frozen=(spread > freezing_sigma(n_keys)).astype(float),
        first_key_variance=1 - (rest / spread) ** 2,
        rest_spread=rest,
        rest_entropy_share=rest_share,
        rest_distance=rest_share - law("entropy_share", rest, n_rest),
        **distances,
    )
    return table[[*NAMES, "group", "layer", "head", *QUANTITIES]]


def law(name: str, spread: npt.ArrayLike, n_keys: int) -> npt.NDArray[np.float64]:
    """A quantity of Gaussian rows of n_keys keys with given spreads: exact, or a median of |J|_F
    within 2%.

    Scores of the variance sigma^2 have the variance sigma^2 (1 - 1/n) within a row, which is the
    spread squared.
    """
    sigma = _sigma(spread, n_keys)
    if name == "jacobian_norm_median":
        return np.asarray(np.interp(sigma, _CURVE, _medians(n_keys)))
    entropy = gaussian_rows(sigma, np.full(sigma.shape, n_keys))[:, 1]
    return np.asarray(entropy / np.log(n_keys))


def _sigma(spread: npt.ArrayLike, n_keys: int) -> npt.NDArray[np.float64]:
    return np.asarray(np.asarray(spread, np.float64) / np.sqrt(1 - 1 / n_keys))


def control(name: str, spread: npt.ArrayLike, n_keys: int) -> npt.NDArray[np.float64]:
    """The entropy share of rows of independent scores of another law with given spreads, from
    simulated rows.
    """
    curve = _simulated(name, n_keys)
    return np.asarray(np.interp(np.log(_sigma(spread, n_keys)), np.log(_CURVE), curve))


@cache
def _simulated(name: str, n_keys: int) -> list[float]:
    rng = np.random.default_rng([*name.encode(), n_keys])
    scores = CONTROLS[name](rng, (_CONTROL_ROWS, n_keys))
    entropies = (row_diagnostics(scores, [1 / sigma]).entropy.mean() for sigma in _CURVE)
    return [float(entropy / np.log(n_keys)) for entropy in entropies]


@cache
def _medians(n_keys: int) -> list[float]:
    return [median_jacobian_norm(sigma, n_keys) for sigma in _CURVE]


def summary(table: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Means of `measured` over what is neither a case nor in `by`, with standard errors between
    groups as NAME_se.
    """
    keys = [*NAMES, *by]
    means = table.groupby([*keys, "group"], sort=False)[[*QUANTITIES]].mean()
    of_groups = means.groupby(keys, sort=False)
    columns = of_groups.mean().join(of_groups.sem().add_suffix("_se"))
    order = [f"{name}{suffix}" for name in QUANTITIES for suffix in ("", "_se")]
    return columns[order].reset_index()


def tables(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """`heads`, a row for each head under d_k^1/2, and `layers`, a row for each layer of every
    case.
    """
    as_used = (results["keys"] == "recorded") & (results["scaling"] == _USED)
    return {
        "heads": summary(results[as_used], "layer", "head"),
        "layers": summary(results, "layer"),
    }


def read_model(results: Path) -> dict[str, pd.DataFrame]:
    """The shipped tables, as of `tables`."""
    return {name: pd.read_csv(diagnosis_path(results, file)) for name, file in TABLES.items()}


def checksums(model: minilm.Pretrained) -> dict[str, str]:
    """SHA-256 of the weights and of the texts."""
    texts = [Path(__file__).with_name(name) for name in ("prose.txt", "code.txt")]
    return {"model.safetensors": model.sha256} | {path.name: checksum(path) for path in texts}
