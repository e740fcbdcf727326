"""Facts of an attention, fitted to its weights, and their words."""

from dataclasses import replace
from itertools import chain, product
from math import ceil, inf, isinf, log, nan

import numpy as np

from sdpa._arrays import Array
from sdpa.tools.auditing.model import Attention, Kind

_EMPTY = {"zero": 0.0, "nan": nan, "uniform": 1.0}  # weights, times the number of keys
_NO_RULE = "no rule"
_SHOWN = 5  # ranges of keys
_POWERS = {"^1/2": 0.5, "": 1.0, "^1/4": 0.25}


def fit(a: Attention, weights: Array, kind: Kind) -> Attention:
    """The attention with these weights; what no number gives is nan."""
    may_be_zero = ~a.hidden & (a.weights < 100 * kind.tiny)
    logs = np.log(np.abs(weights))
    seen = np.isfinite(logs) | may_be_zero
    logs[np.abs(weights) < kind.tiny] = nan  # zeros, and numbers of few digits
    logs[~a.has_keys] = nan
    if (np.abs(np.diff(logs)) > 1e-6).any():
        # Among other weights, equal ones of all keys are those of a query that sees none.
        is_equal = np.ptp(logs, axis=-1) < 1e-6
        logs[is_equal] = nan
        seen[is_equal] = False
    a = replace(a, seen=seen, empty=_empty(a, weights))
    if not seen.any():
        return replace(a, total=float(weights.mean()))
    a = _with_scores(a, logs, kind)
    is_tiny = replace(a, seen=np.ones_like(seen)).weights < kind.tiny  # under the rule found
    return _with_sums(replace(a, seen=a.seen | (~a.hidden & is_tiny)), weights, kind)


def _empty(a: Attention, weights: Array) -> str:
    """Weights of queries that should see no key, in a word; empty for no such query."""
    multiples = weights[~a.has_keys] * weights.shape[-1]
    if not multiples.size:
        return ""
    for word, n in _EMPTY.items():
        if np.allclose(multiples, n, atol=0.01, equal_nan=True):
            return word
    return "numbers"


def _with_scores(a: Attention, logs: Array, kind: Kind) -> Attention:
    """The attention with the product and the biases that give all weights best, or with blocks.

    ln w = score - ln(sum of e^score): differences of ln w between next keys are those of scores,
    and least squares give the coefficients of each head.

        ln w      -1.2   -0.4   -2.3   hidden  -0.9      a row of five keys
        steps         0.8   -1.9     0       0           0 beside a key without a known weight

    In one head, with D the steps of all rows one below the other, each product x of q and k is tried
    with the biases (slope and mask):

        D(ln w) = c_0 D(x) + c_1 D(slope * distance) + c_2 D(hidden) + error.

    The normal equations are solved by a pseudoinverse, because a bias may be 0 throughout. The
    product with the least largest error wins, and another one than expected only with less than half
    the error of that one. None is tried after one whose errors are roundings. A number is the expected
    one if it is near.
    Numbers that change no step by more than the error are left out: they may be 0.
    """
    is_told = np.isfinite(np.diff(logs))
    if not is_told.any():  # the weight of a single key tells nothing about its score
        return a

    def steps(x: Array) -> Array:
        differences = np.where(is_told, np.diff(np.broadcast_to(x, logs.shape)), 0)
        return differences.swapaxes(0, 1).reshape(differences.shape[1], -1)

    target = steps(logs)[..., None]
    # Numbers in bfloat16 have errors of a hundredth, too.
    least, best = kind.error + 0.02 * np.abs(target).max(), None
    biases = [steps(x) for x in a.biases.values()]
    for name in dict.fromkeys([*a.coefficients, *a.products]):
        if name in a.biases:
            continue
        columns = np.stack([steps(a.feature(name)), *biases], axis=-1)
        numbers = np.linalg.pinv(columns.mT @ columns) @ (columns.mT @ target)
        error = np.abs(columns @ numbers - target).max()
        if error < least:
            effects = np.abs(columns * numbers.mT).max(axis=(0, 1))
            kept = np.flatnonzero(effects > error + 1e-6)
            best = {[name, *a.biases][i]: numbers[:, [i]] for i in kept}
            least = error / 2
        if error < kind.error:
            break
    if best is None:
        return _with_blocks(a, logs)
    # Other heads have no weights that tell.
    is_fitted = np.asarray(is_told.any(axis=(0, 2, 3)))[:, None, None]
    for name, number in best.items():
        expected = a.coefficients.get(name, 0.0)
        is_near = np.abs(number - expected) < kind.fact * np.abs(expected)
        best[name] = np.where(is_near | ~is_fitted, expected, number)
    return replace(a, coefficients=best)


def _with_blocks(a: Attention, logs: Array) -> Attention:
    """The attention with the few keys at which ln w less the expected score jumps, in any row, and
    the factors by which weights change there, if all rows have the same ones.
    """
    jumps = np.diff(logs - a.scores)
    borders = np.flatnonzero((np.abs(jumps) > 0.05).any(axis=(0, 1, 2))) + 1
    n_keys = logs.shape[-1]
    if not len(borders):
        return a
    if len(borders) > n_keys // 4 or (np.diff(borders) == 1).any():  # single keys are no blocks
        return replace(a, coefficients={"q·k": nan})
    blocks = f"borders at keys {np.array2string(borders, threshold=8)} of {n_keys}"
    at_borders = np.exp(jumps[..., borders - 1]).reshape(-1, len(borders)).T
    factors = [x[np.isfinite(x)] for x in at_borders]
    if all(len(x) and np.ptp(x) < 0.02 * x[0] for x in factors):
        blocks += f", where weights change by {', '.join(f'{x[0]:.3g}' for x in factors)}"
    return replace(a, blocks=blocks)


def _with_sums(a: Attention, weights: Array, kind: Kind) -> Attention:
    """The attention with the sums of weights: the expected ones, or 1; else a total, or beside a sink."""
    rows = a.seen.any(axis=-1, keepdims=True)
    sums = weights.sum(axis=-1, keepdims=True)
    shares = np.exp(a.masked).sum(axis=-1, keepdims=True)
    sinks = shares * (1 / sums - 1)
    sink = sinks.max(axis=(0, 2), keepdims=True, where=rows, initial=0)[0]
    trials = [
        (1.0, np.exp(a.sink)),
        (1.0, np.zeros_like(a.sink)),
        (sums.mean(where=rows), np.zeros_like(a.sink)),
        (1.0, sink),
    ]
    fitted = [total * np.where(e > 0, shares / (shares + e), 1) for total, e in trials]
    errors = [np.abs(x / sums - 1).max(where=rows, initial=0) for x in fitted]
    errors = np.nan_to_num(errors, nan=inf)
    errors[:2][errors[:2] < kind.sums] = 0
    errors[3] *= 2  # one number for each head may always come a bit nearer
    best = int(np.argmin(errors))
    total, e_sink = trials[best] if errors[best] < kind.error else (nan, 0.0)
    low, high = sums.min(where=rows, initial=inf), sums.max(where=rows, initial=-inf)
    return replace(a, total=total, sink=np.log(e_sink), sums=(float(low), float(high)))


def words_of(attentions: list[Attention], near: float = 0.001) -> dict[str, str]:
    """The facts of an attention at several sizes; a formula has a relative error of at most `near`."""
    formulas = formulas_of(attentions, near)
    if "keys" in formulas:
        return formulas
    return {"scores": formulas["scores"], "keys": _keys(attentions)} | formulas


def formulas_of(attentions: list[Attention], near: float = 0.001) -> dict[str, str]:
    """The facts but for the keys that have a weight, unless none has."""
    given = [a for a in attentions if a.seen.any()]
    if not given:
        is_nan = np.isnan([a.total for a in attentions]).any()
        return {"keys": f"none: all outputs are {'no number' if is_nan else '0'}"}
    scores = [
        # Biases have no effect at sizes without hidden keys.
        _formula(name, [(a, a.coefficients[name]) for a in given if name in a.coefficients], near)
        for name in dict.fromkeys(name for a in given for name in a.coefficients)
    ]
    total = _formula("1", [(a, a.total) for a in given], near)
    facts = {"scores": " + ".join(scores) or "none"}
    blocks = {"blocks": max((a.blocks for a in given), key=len)}
    if total == _NO_RULE:
        low, high = min(a.sums[0] for a in given), max(a.sums[1] for a in given)
        return facts | {"weights sum to": f"{_NO_RULE}, from {low:.3g} to {high:.3g}"} | blocks
    e_sink = _formula("1", [(a, np.exp(a.sink)) for a in given], near) + " (e^sink)"
    sums = f"the sum over keys + {e_sink}".removesuffix(" + 0 (e^sink)")
    return facts | {"weights sum to": total, "the softmax divides by": sums} | blocks


def _formula(of: str, numbers: list[tuple[Attention, Array | float]], near: float) -> str:
    """Numbers of heads at several sizes, as at most two factors of `of`, or one by one.

    Two sizes, and a factor that is not 1, would fit many formulas.
    """
    by_size = [(np.ravel(x), _factors(a)) for a, x in numbers]
    rest = np.concatenate([x for x, _ in by_size])
    if np.isnan(rest).any():
        return _NO_RULE
    digits = 2 if near > 0.005 else 3
    candidates: dict[str, list[tuple[str, ...]]] = {}
    for first, second in product(by_size[0][1], repeat=2):
        divided = [x / f[first] / f[second] for x, f in by_size]
        every = np.concatenate(divided)
        is_constant = np.ptp(every) <= near * abs(every[0])
        n_sizes = len({f[first] * f[second] for _, f in by_size})
        if is_constant and (n_sizes != 2 or abs(every.mean() - 1) <= near):
            words = f"{every.mean():.4g} * {of}{first}{second}"
            break
        if first and n_sizes == 1:
            continue  # a number, which is in no formula
        if not (second or is_constant):
            least = near * np.abs(every).max()
            candidates[f" * {of}{first}"] = [
                tuple(f"{0 if abs(y) < least else y:.{digits}g}" for y in x) for x in divided
            ]
    else:
        # The fewest numbers are those of heads.
        formula = min(candidates, key=lambda x: len({*chain(*candidates[x])}))
        at_sizes = candidates[formula]
        # All heads if they have the same numbers at all sizes.
        shown = at_sizes[0] if len({*at_sizes}) == 1 else dict.fromkeys(chain(*at_sizes))
        words = f"({', '.join(shown)}){formula}"
    return words.removeprefix("1 * ").removesuffix(" * 1")


def _factors(a: Attention) -> dict[str, float]:
    """What formulas are made of."""
    n_heads, d_k = a.q.shape[1::2]
    n_keys, d_v = a.v.shape[2:]
    sizes = {
        "d_k": d_k,
        "n_keys": n_keys,
        "d_v": d_v,
        "n_heads": n_heads,
        "(d_k up to whole 128s)": ceil(d_k / 128) * 128,
        "ln(n_keys)": log(n_keys),
        "(1 + d_k^1/2)": 1 + d_k**0.5,
    }
    factors = {"": 1.0}
    for (size, n), (power, p) in product(sizes.items(), _POWERS.items()):
        factors[f" / {size}{power}"] = n**-p
        factors[f" * {size}{power}"] = n**p
    return factors


def _keys(given: list[Attention]) -> str:
    """The keys that have a weight: by the expected mask, by position, or in one row."""
    seen, hidden, last, first = np.concatenate([_flat(a) for a in given], axis=1)
    if seen.all():
        return "all"
    for place, x in ("", last), (", with queries at the first positions", first):
        low = x.min(where=seen > 0, initial=999)
        high = x.max(where=seen > 0, initial=-999)
        start = low if low > x.min() else -inf
        stop = high if high < x.max() or high == 0 else inf  # no later key may exist
        words = f"from {_position(start)} to {_position(stop)}"
        if -inf < start < stop == 0:
            words = f"the query's own and {-start:g} before it"
        if np.array_equal(seen, (x >= low) & (x <= high)):
            return words + place
    if np.array_equal(seen, hidden):
        return "those that the mask should hide"
    return _other_keys(given) if (seen == hidden).any() else "those of the mask"


def _position(offset: float) -> str:
    """A position in words, from its distance to the query's own.

    >>> _position(-inf), _position(0.0), _position(2.0)
    ('the first', "the query's own", "2 after the query's own")
    """
    if isinf(offset):
        return "the first" if offset < 0 else "the last"
    if offset == 0:
        return "the query's own"
    side = "before" if offset < 0 else "after"
    return f"{abs(offset):g} {side} the query's own"


def _flat(a: Attention) -> Array:
    """For each query and key: is it seen, is it hidden, and its distance from the query, which is
    among the last or the first. Queries that should see no key may have any weights.
    """
    distances = a.distance, a.distance - a.distance[0, 0]
    arrays = np.stack(np.broadcast_arrays(a.seen, a.hidden, *distances))
    return arrays[:, a.has_keys].reshape(4, -1)


def _other_keys(given: list[Attention]) -> str:
    """The keys of a query that does not see those of the mask: the middle one of an input, of those
    that see any.
    """
    others = [
        (np.flatnonzero(a.seen[*row]), a.seen.shape[3], row)
        for a in given
        for row in np.argwhere(sees_others(a))
    ]
    some = [other for other in others if other[0].size] or others
    of_input = [other for other in some if other[1] == some[0][1]]
    keys, n_keys, row = of_input[len(of_input) // 2]
    words = "batch entry {}, head {}, query {}".format(*row)
    if not keys.size:  # zeros, or NaN, which may come from elsewhere
        return f"not told; {words} has no weight above 0 of {n_keys}"
    return f"others; {words} sees {ranges(keys)} of {n_keys}"


def sees_others(a: Attention) -> Array:
    """True for queries that should see a key, and do not see those of the mask."""
    return np.asarray((a.seen == a.hidden).any(axis=-1) & a.has_keys)


def ranges(places: Array) -> str:
    """The first ranges of rising numbers.

    >>> ranges(np.array([0, 1, 2, 7]))
    '0 to 2, 7'
    """
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    shown = [f"{x[0]} to {x[-1]}" if len(x) > 1 else str(x[0]) for x in runs]
    more = ", ..." if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more
