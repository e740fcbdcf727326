"""Facts of an attention, fitted to its weights, and their words."""

import math
from dataclasses import replace
from itertools import product

import numpy as np

from sdpa.auditing.model import BIASES, PRODUCTS, Array, Attention

_EMPTY = {"zero": 0.0, "nan": math.nan, "uniform": 1.0}  # weights, times the number of keys


def fit(a: Attention, weights: Array, dtype: str) -> Attention:
    """The attention with these weights; what no number gives is nan."""
    info = np.finfo(dtype)
    rounding = 20 * float(info.eps)
    near = max(rounding, 0.001)  # of ln(weight)
    lowest = 0.9 * math.log(info.tiny)  # ln(weight) that is exact, with some room
    is_blank = np.ptp(weights, axis=-1, keepdims=True) < 1e-9  # of queries without keys
    logs = np.log(np.abs(weights))
    logs = np.where(is_blank | (logs < lowest), math.nan, logs)
    low = ~a.hidden & (np.log(a.weights) < lowest + 1)  # whose weights may well be 0
    # Outputs of queries that should see no key.
    unseen = weights[a.hidden.all(axis=-1)] * weights.shape[-1]
    alike = (x for x, n in _EMPTY.items() if np.allclose(unseen, n, atol=0.01, equal_nan=True))
    empty = next(alike, "numbers") if unseen.size else ""
    blank = np.where(is_blank, weights, 0)
    a = replace(a, seen=np.isfinite(logs) | low, blank=blank, empty=empty)
    # Keys at which any row departs from the expected scores by another number.
    jumps = np.abs(np.diff(logs - a.scores)) > near
    borders = np.flatnonzero(jumps.any(axis=(0, 1, 2))) + 1
    block = math.gcd(*borders) if len(borders) > 1 else 0
    a = replace(a, coefficients=_coefficients(a, logs, near), block=block)
    # The sums of weights: the expected ones, a total, or those beside a sink.
    rows, sums = a.seen.any(axis=-1, keepdims=True), weights.sum(axis=-1, keepdims=True)
    shares = np.exp(a.masked).sum(axis=-1, keepdims=True)
    mean = np.sum(sums, where=rows) / rows.sum()
    sink = np.sum(shares * (1 / sums - 1), where=rows) / rows.sum()
    for total, e_sink in (1.0, np.exp(a.sink)), (mean, 0.0), (1.0, sink):
        fitted = total * np.where(e_sink > 0, shares / (shares + e_sink), 1)
        if np.allclose(fitted[rows], sums[rows], rtol=max(rounding, 1e-5)):
            return replace(a, total=total, sink=np.log(e_sink))
    return replace(a, total=math.nan)


def _coefficients(a: Attention, logs: Array, near: float) -> dict[str, float]:
    """Coefficients of the product and the biases that give all weights best.

    ln w = score - ln(sum of e^score): differences of ln w between next keys are those of scores,
    and least squares give the coefficients.
    """
    differences = np.diff(logs)
    pairs = np.isfinite(differences)
    if not differences[pairs].any():  # the weight of a single key tells nothing about its score
        return a.coefficients
    least, best = near, {"q·k": math.nan}
    for name, of in PRODUCTS.items():
        features = {name: of} | BIASES
        try:
            steps = [np.diff(np.broadcast_to(x(a), logs.shape))[pairs] for x in features.values()]
            columns = np.array(steps)
            numbers = np.linalg.pinv(columns @ columns.T) @ (columns @ differences[pairs])
        except ValueError:  # sizes do not fit, or there is no number
            continue
        error = np.abs(numbers @ columns - differences[pairs]).max()
        if error < least:
            effects = zip(features, numbers.tolist(), np.abs(columns).max(axis=-1), strict=True)
            best = {x: number for x, number, size in effects if abs(number) * size > error + 1e-6}
            least = error
    return best


def words_of(given: list[Attention]) -> dict[str, str]:
    """The facts of an attention at several sizes."""
    scores = []
    for name in dict.fromkeys(name for a in given for name in a.coefficients):
        # Biases have no effect at sizes without hidden keys.
        having = [a for a in given if name in a.coefficients]
        scores.append(_formula(name, {a: a.coefficients[name] for a in having}))
    blocks = [a.block for a in given if a.block]
    block = math.gcd(*blocks) if len(blocks) > 1 else 0
    return {
        "scores": " + ".join(scores) or "none",
        "blocks": f"of {block} keys, with wrong sums or maxima" if block > 8 else "none",
        "keys": _keys(given),
        "weights sum to": _formula("1", {a: a.total for a in given}),
        "e^sink": _formula("1", {a: float(np.exp(a.sink).max()) for a in given}),
    }


def _formula(of: str, by_size: dict[Attention, float]) -> str:
    """A number at several sizes as at most two factors of `of`."""
    factors = [_factors(a) for a in by_size]
    for one, two in product(factors[0], repeat=2):
        pairs = zip(by_size.values(), factors, strict=True)
        rest = [number / f[one] / f[two] for number, f in pairs]
        if np.allclose(rest, rest[0], rtol=0.003, atol=0):
            words = f"{np.mean(rest):.4g} * {of}{one}{two}"
            return words.removeprefix("1 * ").removesuffix(" * 1")
    return "no rule"


def _factors(a: Attention) -> dict[str, float]:
    """What formulas are made of."""
    n_heads, d_k = a.q.shape[1::2]
    n_keys, d_v = a.v.shape[2:]
    sizes = {"d_k": d_k, "n_keys": n_keys, "d_v": d_v, "n_heads": n_heads}
    sizes["(d_k up to whole 128s)"] = math.ceil(d_k / 128) * 128
    powers = ("^1/2", 0.5), ("", 1), ("^1/4", 0.25)
    numbers = {name + power: n**x for (name, n), (power, x) in product(sizes.items(), powers)}
    numbers |= {"ln(n_keys)": math.log(n_keys), "(1 + d_k^1/2)": 1 + d_k**0.5}
    factors = {"": 1.0}
    for name, number in numbers.items():
        factors |= {f" / {name}": 1 / number, f" * {name}": number}
    return factors


def _keys(given: list[Attention]) -> str:
    """The keys that have a weight: by position, or by the expected mask."""
    seen, hidden, last, first = (np.concatenate(x) for x in zip(*map(_flat, given), strict=True))
    rules = {"all": seen | True}
    for place, x in ("last", last), ("first", first):
        low, high = x[seen].min(initial=999), x[seen].max(initial=-999)
        for start, stop in product((-math.inf, low), (math.inf, high)):
            words = (
                f"positions {start:g} to {stop:g} from the query's own, queries at the {place} ones"
            )
            rules[words] = (x >= start) & (x <= stop)
    rules |= {"those of the mask": ~hidden, "those that the mask should hide": hidden}
    alike = (words for words, mask in rules.items() if np.array_equal(seen, mask))
    return next(alike, f"others; the last query sees {given[-1].seen[0, 0, -1].sum()}")


def _flat(a: Attention) -> list[Array]:
    """For each query and key: is it seen, is it hidden, and its distance from the query, which is
    among the last or the first. Queries that should see no key may have any weights.
    """
    rows = a.seen.any(axis=-1) & ~a.hidden.all(axis=-1)
    arrays = a.seen, a.hidden, a.distance, a.distance - a.distance[0, 0]
    return [np.broadcast_to(x, a.seen.shape)[rows].ravel() for x in arrays]
