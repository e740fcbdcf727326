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
    is_blank = np.ptp(weights, axis=-1, keepdims=True) < 1e-9
    is_blank &= not is_blank.all()  # some queries: those without keys
    logs = np.log(np.abs(weights))
    logs = np.where(is_blank | (logs < lowest), math.nan, logs)
    low = ~a.hidden & (np.log(a.weights) < lowest + 1)  # whose weights may well be 0
    # Outputs of queries that should see no key.
    unseen = weights[a.hidden.all(axis=-1)] * weights.shape[-1]
    alike = (x for x, n in _EMPTY.items() if np.allclose(unseen, n, atol=0.01, equal_nan=True))
    empty = next(alike, "numbers") if unseen.size else ""
    blank = np.where(is_blank, weights, 0)
    a = replace(a, seen=np.isfinite(logs) | low, blank=blank, empty=empty)
    a = _with_scores(a, logs, near)
    if not a.seen.any():
        return replace(a, total=math.nan)
    # The sums of weights: the expected ones, a total, or those beside a sink of each head.
    rows, sums = a.seen.any(axis=-1, keepdims=True), weights.sum(axis=-1, keepdims=True)
    shares = np.exp(a.masked).sum(axis=-1, keepdims=True)
    mean = np.sum(sums, where=rows) / rows.sum()
    sinks = shares * (1 / sums - 1)
    sink = sinks.max(axis=(0, 2), keepdims=True, where=rows, initial=0)[0]
    trials = (1.0, np.exp(a.sink)), (mean, 0.0), (1.0, sink)
    for tolerance, (total, e_sink) in product((max(rounding, 1e-5), near), trials):
        fitted = total * np.where(e_sink > 0, shares / (shares + e_sink), 1)
        if np.allclose(fitted[rows], sums[rows], rtol=tolerance):
            return replace(a, total=total, sink=np.log(e_sink))
    return replace(a, total=math.nan)


def _with_scores(a: Attention, logs: Array, near: float) -> Attention:
    """The attention with the product and the biases that give all weights best, or with borders.

    ln w = score - ln(sum of e^score): differences of ln w between next keys are those of scores,
    and least squares give the coefficients of each head.
    """
    pairs = np.isfinite(np.diff(logs))

    def by_head(x: Array) -> Array:
        steps = np.where(pairs, np.diff(np.broadcast_to(x, logs.shape)), 0)
        return steps.swapaxes(0, 1).reshape(len(steps[0]), -1)

    target = by_head(logs)[..., None]
    if not target.any():  # the weight of a single key tells nothing about its score
        is_single = np.isfinite(logs).any() and not pairs.any()
        return a if is_single else replace(a, coefficients={})
    least, best = near, None
    for name, of in PRODUCTS.items():
        features = {name: of} | BIASES
        try:
            columns = np.stack([by_head(x(a)) for x in features.values()], axis=-1)
            numbers = np.linalg.pinv(columns.mT @ columns) @ (columns.mT @ target)
        except ValueError:  # sizes do not fit, or there is no number
            continue
        error = np.abs(columns @ numbers - target).max()
        if error < least:
            effects = np.abs(columns * numbers.mT).max(axis=(0, 1))
            told = np.flatnonzero(effects > error + 1e-6)
            best = {[*features][i]: numbers[:, [i]] for i in told}
            least = error
    if best is not None:
        return replace(a, coefficients=best)
    jumps = np.abs(np.diff(logs - a.scores)) > 0.01
    borders = np.flatnonzero(jumps.any(axis=(0, 1, 2))) + 1
    if len(borders) <= logs.shape[-1] // 4:
        return replace(a, borders=tuple(borders.tolist()))
    return replace(a, coefficients={"q·k": math.nan})


def words_of(given: list[Attention]) -> dict[str, str]:
    """The facts of an attention at several sizes."""
    scores = []
    for name in dict.fromkeys(name for a in given for name in a.coefficients):
        # Biases have no effect at sizes without hidden keys.
        having = [a for a in given if name in a.coefficients]
        scores.append(_formula(name, having, [a.coefficients[name] for a in having]))
    words = {
        "scores": " + ".join(scores) or "none",
        "keys": _keys(given),
        "weights sum to": _formula("1", given, [a.total for a in given]),
        "e^sink": _formula("1", given, [np.exp(a.sink) for a in given]),
    }
    a = max(given, key=lambda a: len(a.borders))
    if a.borders:
        words["blocks"] = f"borders at keys {a.borders[:5]} of {a.v.shape[2]}"
    return words


def _formula(of: str, given: list[Attention], numbers: list[Array | float]) -> str:
    """Numbers of heads at several sizes, as at most two factors of `of`, or one by one."""
    factors = [_factors(a) for a in given]
    by_size = [np.ravel(x) for x in numbers]
    for one, two in product(factors[0], repeat=2):
        pairs = zip(by_size, factors, strict=True)
        rest = np.concatenate([x / f[one] / f[two] for x, f in pairs])
        if np.allclose(rest, rest[0], rtol=0.003, atol=0):
            words = f"{np.mean(rest):.4g} * {of}{one}{two}"
            return words.removeprefix("1 * ").removesuffix(" * 1")
    if np.isnan(np.concatenate(by_size)).any():
        return "no rule"
    texts = (", ".join(dict.fromkeys(f"{one:.3g}" for one in x)) for x in by_size)
    return f"({' or '.join(dict.fromkeys(texts))}) * {of}".removesuffix(" * 1")


def _factors(a: Attention) -> dict[str, float]:
    """What formulas are made of."""
    n_heads, d_k = a.q.shape[1::2]
    n_keys, d_v = a.v.shape[2:]
    sizes = {"d_k": d_k, "n_keys": n_keys, "d_v": d_v, "n_heads": n_heads}
    sizes["(d_k up to whole 128s)"] = math.ceil(d_k / 128) * 128
    numbers = {"ln(n_keys)": math.log(n_keys), "(1 + d_k^1/2)": 1 + d_k**0.5}
    for name, n in sizes.items():
        numbers |= {f"{name}^1/2": n**0.5, name: n, f"{name}^1/4": n**0.25}
    factors = {"": 1.0}
    for name, number in numbers.items():
        factors |= {f" / {name}": 1 / number, f" * {name}": number}
    return factors


def _keys(given: list[Attention]) -> str:
    """The keys that have a weight: by position, or by the expected mask."""
    seen, hidden, last, first = (np.concatenate(x) for x in zip(*map(_flat, given), strict=True))
    if not seen.any():
        return "none"
    rules = {"all": seen | True}
    for place, x in ("last", last), ("first", first):
        low, high = x[seen].min(initial=999), x[seen].max(initial=-999)
        start = low if low > x.min(initial=0) else -math.inf
        stop = high if high < x.max(initial=0) else math.inf
        words = f"positions {start:g} to {stop:g} from the query's own, queries at the {place} ones"
        rules[words] = (x >= low) & (x <= high)
    rules |= {"those of the mask": ~hidden, "those that the mask should hide": hidden}
    alike = (words for words, mask in rules.items() if np.array_equal(seen, mask))
    return next(alike, "") or _other_keys(given)


def _other_keys(given: list[Attention]) -> str:
    """The keys of the first query that does not see those of the mask."""
    for a in given:
        is_other = (a.seen == a.hidden).any(axis=-1) & a.seen.any(axis=-1)
        for batch, head, query in np.argwhere(is_other):
            keys = np.flatnonzero(a.seen[batch, head, query])
            row = f"batch entry {batch}, head {head}, query {query}"
            return f"others; {row} sees {len(keys)}, from {keys[0]} to {keys[-1]}"
    return "others"


def _flat(a: Attention) -> list[Array]:
    """For each query and key: is it seen, is it hidden, and its distance from the query, which is
    among the last or the first. Queries that should see no key may have any weights.
    """
    rows = a.seen.any(axis=-1) & ~a.hidden.all(axis=-1)
    arrays = a.seen, a.hidden, a.distance, a.distance - a.distance[0, 0]
    return [np.broadcast_to(x, a.seen.shape)[rows].ravel() for x in arrays]
