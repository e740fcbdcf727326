"""The items of an audit: each a function of the audited function and the sizes, with a finding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from sdpa._arrays import FloatArray
from sdpa.attention import allowed_keys
from sdpa.auditing.function import Audited, CallError, along, normals
from sdpa.auditing.report import Finding, LostMass
from sdpa.scaling import Scaling
from sdpa.theory.formats import weight_below
from sdpa.theory.integrals import UnknownError

SPREADS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_RULES = ("unscaled", "d_k^1/2", "d_k^1", "d_k^1/3", "d_k^2/3", "d_k^1/4", "n_keys^1/2", "d_k^1/2/ln(n_keys)")
_COARSE = 0.2  # residuals of the scores of weights in 8 bits are below
_ROWS = 8  # queries among the longest rows
_FORMATS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


@dataclass(frozen=True)
class Sizes:
    """The width, and numbers of keys."""

    d_k: int
    n_keys: tuple[int, ...]

    def shapes(self) -> list[tuple[int, int]]:
        """Numbers of queries and keys: square, with fewer queries, and long."""
        square = [n for n in self.n_keys if n <= 1024]
        few = self.n_keys[0]
        return [*((n, n) for n in square), (max(1, few // 3), few), (min(_ROWS, few), self.n_keys[-1])]


def _verdict(item: str, is_expected: bool, found: object, expected: object, evidence: str) -> Finding:
    verdict = "as expected" if is_expected else "FINDING"
    return Finding(item, verdict, str(found), str(expected), evidence)  # type: ignore[arg-type]


def mask(audited: Audited, sizes: Sizes) -> Finding:
    """Which keys have a weight under equal scores, at several shapes."""
    seen = {shape: audited.visible(*shape, sizes.d_k) for shape in sizes.shapes()}
    most = max(int(visible.sum(axis=-1).max()) for visible in seen.values())
    names = dict.fromkeys((audited.expected.mask, "none", "causal", f"window-{max(most, 1)}"))
    fitting = [name for name in names if all(np.array_equal(allowed_keys(name, s), v) for s, v in seen.items())]
    if not fitting and all(np.array_equal(np.tri(*shape, dtype=bool), visible) for shape, visible in seen.items()):
        fitting = ["causal from the first key (query i sees keys 0 to i)"]
    shapes = ", ".join(f"{q} queries and {k} keys" for q, k in seen)
    if fitting:
        evidence = f"Keys with a weight among equal scores, for {shapes}"
        return _verdict("mask", fitting[0] == audited.expected.mask, fitting[0], audited.expected.mask, f"{evidence}.")
    shape, visible = next(
        (s, v) for s, v in seen.items() if not np.array_equal(allowed_keys(audited.expected.mask, s), v)
    )
    row = int(np.argwhere((allowed_keys(audited.expected.mask, shape) != visible).any(axis=-1))[0, 0])
    keys = np.flatnonzero(visible[row])
    what = f"keys {keys[0]} to {keys[-1]}, {len(keys)} in all" if len(keys) else "no key"
    evidence = f"Of {shape[0]} queries and {shape[1]} keys, query {row} sees {what}, under equal scores."
    return _verdict("mask", False, "another", audited.expected.mask, evidence)


def hidden_keys(audited: Audited, sizes: Sizes) -> Finding:
    """The weight of each hidden key under a score far above all others: 0 only if its score is -inf."""
    n_queries, n_keys = max(1, sizes.n_keys[0] // 3), sizes.n_keys[0]
    hidden = ~audited.visible(n_queries, n_keys, sizes.d_k)
    if not hidden.any():
        return Finding("hidden keys", "as expected", "none", "", "")
    score = min(1e5, audited.arithmetic.largest / 16 / audited.expected.divisor(sizes.d_k, n_keys))
    leak = 0.0
    for key in range(n_keys):
        q, k = along(np.where(np.arange(n_keys) == key, score, 0.0), 1.0 * sizes.d_k**0.5, sizes.d_k)
        rows = audited.weights(np.repeat(q, n_queries, axis=0), k)
        leak = max(leak, float(np.nan_to_num(np.abs(rows[hidden[:, key], key]), nan=1.0).max(initial=0.0)))
    evidence = f"Largest weight of a hidden key whose scaled score exceeds the others by about {score:.0e}: {leak:.2g}."
    return _verdict("hidden keys", leak == 0, "they leak" if leak else "no weight", "no weight", evidence)


def _odd_logits(
    audited: Audited, d_k: int, n_queries: int, n_keys: int, spread: float
) -> tuple[FloatArray, FloatArray]:
    """Odd parts of the log weights in the query, and scores, both about the mean of the visible keys; 0 where hidden.

    The odd part has no bias and no sink, and of a soft cap only the cube of the spread, which is tiny.
    """
    q = normals("q", n_queries, d_k) * (spread * audited.expected.divisor(d_k, n_keys) / math.sqrt(d_k))
    queries, keys = (audited.cast(x).astype(float)[0, 0] for x in (q, normals("k", n_keys, d_k)))
    up, down = (audited.weights(sign * queries, keys) for sign in (1, -1))
    seen = (up > 0) & (down > 0)
    if not (seen.sum(axis=-1) > 1).any():
        raise CallError(f"no query gives two keys a weight above 0 at d_k = {d_k} and {n_keys} keys")
    count = np.maximum(seen.sum(axis=-1, keepdims=True), 1)

    def centred(x: FloatArray) -> FloatArray:
        return np.where(seen, x - np.where(seen, x, 0.0).sum(axis=-1, keepdims=True) / count, 0.0)

    ratio = np.log(np.where(seen, up, 1.0)) - np.log(np.where(seen, down, 1.0))
    return centred(ratio / 2), centred(queries @ keys.T)


def _divisor_at(audited: Audited, d_k: int, n_queries: int, n_keys: int) -> tuple[float, float, float, float]:
    """The divisor, its tolerance, the largest relative deviation of one row, and the residual over the largest score.

    The spread is as small as the format allows, so that a soft cap hardly matters. Weights coarser than the format
    need a spread of 1, and leave a tolerance of their residual.
    """
    small = 1.0 if audited.eps > 1e-4 else audited.eps**0.25
    for spread in dict.fromkeys((small, 1.0)):
        logits, scores = _odd_logits(audited, d_k, n_queries, n_keys, spread)
        squares = np.vecdot(scores, scores)
        slope = float(np.vecdot(logits, scores).sum() / squares.sum())
        tolerance, size = max(1e-6, 2 * audited.eps / small), max(abs(slope), 1e-300)
        long = squares > squares.max() / 4
        slopes = np.vecdot(logits, scores)[long] / squares[long]
        of_rows = float(np.abs(slopes - slope).max()) / size
        rest = logits[long] - slopes[:, None] * scores[long]
        residual = float(np.abs(rest).max() / np.abs(scores).max()) / size
        if slope and residual <= 50 * tolerance:
            break
    if 50 * tolerance < residual < _COARSE and of_rows < _COARSE / 4:
        tolerance = residual
    return (1 / slope if slope else math.inf), tolerance, of_rows, residual


def divisor(audited: Audited, sizes: Sizes) -> Finding:
    """The slope of log weights over scores near 0, at several d_k, numbers of keys and queries."""
    d, few, expected = sizes.d_k, sizes.n_keys[0], audited.expected
    at = [(d, few, few), *((d, min(_ROWS, few), n) for n in sizes.n_keys[1:])]
    found, untested = {}, []
    for size in [*at, (d // 2, few, few), (3 * d // 2, few, few)]:
        try:
            found[size] = _divisor_at(audited, *size)
        except CallError as error:
            if size[0] == d:
                raise
            untested.append(f"d_k = {size[0]} ({error})")

    def fits(divisor: Callable[[int, int], float]) -> bool:
        return all(abs(got / divisor(s[0], s[2]) - 1) <= within for s, (got, within, _, _) in found.items())

    is_expected = fits(expected.divisor)
    one, within, _, _ = found[at[0]]
    rules = (*_RULES, f"{one:.8g}") if 0 < one < math.inf else ()
    name = next((rule for rule in rules if fits(Scaling.parse(rule).divisor)), "of no known rule")
    factor = one / expected.divisor(d, few)
    if name not in rules and fits(lambda *size: factor * expected.divisor(*size)):
        name = f"{factor:.8g} times {expected.scaling}"
    numbers = ", ".join(f"{value[0]:.8g} at d_k = {s[0]} and {s[2]} keys" for s, value in found.items())
    evidence = f"Slopes of log weights over scores near 0, to {within:.1g}: {numbers}."
    evidence += f" Not tested at {' and '.join(untested)}." if untested else ""
    rows, residual = (max(found.values(), key=lambda value: value[i] / value[1]) for i in (2, 3))
    if residual[3] > 50 * residual[1]:
        is_expected, name = False, "no divisor of q·k"
        evidence += f" Log weights are no multiple of q·k; they are off by up to {residual[3]:.2g} of the largest."
    elif rows[2] > 50 * rows[1]:
        is_expected, name = False, "different in different rows"
        evidence += f" Rows differ by up to {rows[2]:.2g} of it: it depends on the position."
    return _verdict("divisor", is_expected, expected.scaling if is_expected else name, expected.scaling, evidence)


def _became(audited: Audited, sizes: Sizes, score: float) -> float:
    """What a scaled score of the last key becomes in the last row, beside 0 and without a bias; NaN if not visible."""
    n = sizes.n_keys[0]
    c, within, of_rows, _ = _divisor_at(audited, sizes.d_k, n, n)
    if not 0 < c < math.inf or of_rows > 50 * within:
        return math.nan
    q, k = along(np.where(np.arange(n) == n - 1, score, 0.0), c, sizes.d_k)
    queries = np.repeat(q, n, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logits = np.log(audited.weights(queries, k)[-1]) - np.log(audited.weights(0 * queries, k)[-1])
        return float(logits[-1] - logits[-2])


def soft_cap(audited: Audited, sizes: Sizes) -> Finding:
    """The scaled score that a large one becomes, and the c of c tanh(s / c) that explains it."""
    expected, large = audited.expected.softcap, 20.0 if audited.eps < 1e-6 else 8.0
    became = [_became(audited, sizes, s) for s in (large / 2, large)]
    if not np.isfinite(became).all():
        reason = "A key loses all weight beside a large score, or rows have no common divisor."
        return Finding("soft cap", "not tested", "not visible", "", reason)
    tolerance = max(1e-6, 4 * audited.eps)
    evidence = f"Scaled scores of {large / 2:g} and {large:g} become {became[0]:.6g} and {became[1]:.6g}."

    def capped(c: float, s: float) -> float:
        return c * math.tanh(s / c) if c else s

    is_expected = all(
        abs(z - capped(expected, s)) <= tolerance * s for z, s in zip(became, (large / 2, large), strict=True)
    )
    found: object = expected or "none"
    if not is_expected:
        is_capped = 0 < became[1] < large * (1 - tolerance)
        cap = brentq(lambda c: capped(c, large) - became[1], became[1] / 2, 1e6) if is_capped else 0.0
        is_tanh = abs(became[0] - capped(cap, large / 2)) <= 10 * tolerance * large
        found = (f"{cap:.6g}" if cap else "none") if is_tanh else "not a tanh"
    return _verdict("soft cap", is_expected, found, expected or "none", evidence)


def bias(audited: Audited, sizes: Sizes) -> Finding:
    """Log weights under equal scores, over the distance of the key."""
    n, expected = sizes.n_keys[0], audited.expected.alibi
    weights = audited.weights(np.zeros((n, sizes.d_k)), np.ones((n, sizes.d_k)))
    seen = weights > 0
    last = n - 1 - seen[:, ::-1].argmax(axis=-1)
    logits = np.log(np.where(seen, weights, 1.0)) - np.log(np.where(seen, weights, 1.0))[np.arange(n), last][:, None]
    distance = np.where(seen, last[:, None] - np.arange(n), 0)
    slope = -float((logits * distance).sum() / max((distance**2).sum(), 1))
    residual = float(np.abs(np.where(seen, logits + slope * distance, 0.0)).max())
    tolerance = 1e-6 + 4 * audited.eps
    is_expected = abs(slope - expected) <= tolerance and residual <= n * tolerance
    found = "none" if abs(slope) <= tolerance else f"slope {slope:.6g}"
    if residual > n * tolerance:
        found = "a bias by position"
    evidence = f"Log weights under equal scores fall by {slope:.6g} per key, and deviate by at most {residual:.2g}."
    return _verdict("bias", is_expected, found, f"slope {expected:g}" if expected else "none", evidence)


def sink(audited: Audited, sizes: Sizes) -> Finding:
    """Sums of rows under equal scores: m / (m + e^sink) over m keys."""
    n, expected = sizes.n_keys[0], audited.expected
    zeros = np.zeros((n, sizes.d_k))
    sums = audited.weights(zeros, np.ones((n, sizes.d_k))).sum(axis=-1)
    values = np.eye(n, max(n, sizes.d_k))[None]
    exact = expected.output(zeros[None], np.ones((1, n, sizes.d_k)), values)[0].sum(axis=-1)
    off = float(np.abs(sums - exact).max())
    tolerance = max(1e-9, 4 * audited.eps)
    seen = audited.visible(n, n, sizes.d_k).sum(axis=-1)
    found = "none" if expected.sink is None else f"{expected.sink:g}"
    if off > tolerance:
        with np.errstate(all="ignore"):
            sinks = np.log(seen * (1 - sums) / sums)
        is_sink = np.isfinite(sinks).all() and np.ptp(sinks) < 1e-3 + 100 * audited.eps
        plain = np.abs(sums - 1).max() <= tolerance
        found = f"{round(sinks.mean(), 9) + 0:.6g}" if is_sink else "none" if plain else "sums of another kind"
    evidence = f"Rows of equal scores sum to {sums.min():.8g} to {sums.max():.8g}."
    return _verdict(
        "sink", off <= tolerance, found, "none" if expected.sink is None else f"{expected.sink:g}", evidence
    )


def heads(audited: Audited, sizes: Sizes) -> Finding:
    """The head and the batch entry whose values reach each output, and whose keys its weights follow."""
    d, groups, n = sizes.d_k, audited.expected.groups, sizes.n_keys[0]
    owners = 2 if d < 8 else 4
    shape = (2, owners // 2 if groups == 1 else 2)
    q = audited.cast(np.zeros((shape[0], shape[1] * groups, n, d)))
    k = audited.cast(np.zeros((*shape, n, d)))
    marks = np.eye(shape[0] * shape[1], d).reshape(*shape, 1, d)
    out = audited.call(q, k, audited.cast(np.broadcast_to(marks, (*shape, n, d))))
    got = out[:, :, -1].argmax(axis=-1)
    wanted = np.repeat(np.arange(shape[0] * shape[1]).reshape(shape), groups, axis=1)
    return _verdict(
        "heads",
        np.array_equal(got, wanted),
        got.tolist(),
        wanted.tolist(),
        f"Values that each query head reads, by batch entry, with {groups} query heads per head of values.",
    )


def lost_mass(audited: Audited, sizes: Sizes) -> tuple[Finding, tuple[LostMass, ...]]:
    """Row sums over the spread of scores, beside the exact ones and the exact share of weights that round to 0."""
    rows, d = [], sizes.d_k
    try:
        for n in sizes.n_keys:
            keys = audited.cast(normals("k", n, d))
            for spread in SPREADS:
                q = normals("q", min(_ROWS, n), d)
                size = spread * audited.expected.divisor(d, n) / np.linalg.norm(q, axis=-1, keepdims=True)
                queries, ones = audited.cast(q * size), audited.cast(np.ones((n, d)))
                out = audited.call(queries, keys, ones)[0, 0, :, 0]
                exact = audited.expected.output(*(x.astype(float) for x in (queries, keys, ones)))[0, 0, :, 0]
                rows.append(LostMass(n, spread, float(np.mean(1 - out / exact)), _tiny(audited, n, spread)))
    except CallError as error:
        return Finding("lost mass", "FINDING", "no output", "an output", f"{error}."), tuple(rows)
    worst = max(rows, key=lambda row: abs(row.lost) if row.lost == row.lost else math.inf)
    evidence = (
        f"Largest at spread {worst.spread:g} with {worst.n_keys} keys; spreads {SPREADS[0]:g} to {SPREADS[-1]:g}."
    )
    # Wide formats may sum in themselves, with errors of sqrt(n); narrow ones should sum in single precision.
    tolerance = 4 * audited.eps * (1.0 if audited.eps > 1e-4 else math.sqrt(sizes.n_keys[-1]))
    is_expected = abs(worst.lost) <= tolerance
    return _verdict("lost mass", is_expected, f"{worst.lost:.3g}", f"below {tolerance:.1g}", evidence), tuple(rows)


def _tiny(audited: Audited, n_keys: int, spread: float) -> float:
    try:
        return weight_below(spread, n_keys, math.log(audited.arithmetic.smallest) - math.log(2)) if spread else 0.0
    except UnknownError:
        return math.nan


def large_scores(audited: Audited, sizes: Sizes) -> Finding:
    """Rows of equal scores so large, or so far below 0, that e^s leaves the format unless the maximum is subtracted."""
    n, d = sizes.n_keys[0], sizes.d_k
    size = 1.5 * math.log(audited.arithmetic.largest)
    values = audited.cast(np.ones((n, d)))
    worst = 0.0
    for sign in (1.0, -1.0):
        q, k = along(np.full(n, sign * size), audited.expected.divisor(d, n), d)
        queries, keys = audited.cast(np.repeat(q, n, axis=0)), audited.cast(k)
        exact = audited.expected.output(*(x.astype(float) for x in (queries, keys, values)))
        off = np.abs(audited.call(queries, keys, values) - exact)
        worst = max(worst, float(np.nan_to_num(off, nan=np.inf).max()))
    evidence = f"Rows whose scaled scores are all {size:.4g}, or all {-size:.4g}, have sums wrong by up to {worst:.2g}."
    is_right = worst <= 1e-9 + 8 * audited.eps
    found = "the maximum is subtracted" if is_right else "the maximum is not subtracted"
    return _verdict("large scores", is_right, found, "the maximum is subtracted", evidence)


def outputs(audited: Audited, sizes: Sizes) -> Finding:
    """Whole outputs of random inputs at spreads 1 and 5, with two batch entries and heads, beside double precision."""
    groups, worst, where, changed = audited.expected.groups, 0.0, "", 0.0
    for n_queries, n_keys in sizes.shapes():
        for spread in (1.0, 5.0):
            size = spread * audited.expected.divisor(sizes.d_k, n_keys) / math.sqrt(sizes.d_k)
            q = audited.cast(size * normals("q", 2, 2 * groups, n_queries, sizes.d_k))
            k, v = (audited.cast(normals(name, 2, 2, n_keys, sizes.d_k)) for name in "kv")
            out = audited.call(q, k, v)
            exact = audited.expected.output(*(x.astype(float) for x in (q, k, v)))
            # Single and double precision round scores, so that errors grow with the spread.
            off = np.nan_to_num(np.abs(out - exact), nan=np.inf) / (1.0 if audited.eps > 1e-4 else spread)
            changed = max(changed, float(np.nan_to_num(np.abs(audited.call(q, k, v) - out), nan=np.inf).max()))
            if off.max() > worst:
                worst, first = float(off.max()), np.unravel_index(off.argmax(), off.shape)
                where = f" with {n_queries} queries, {n_keys} keys and spread {spread:g}, at query {first[2]}"
    unit = "" if audited.eps > 1e-4 else " times the spread"
    formats = (name for name, eps in _FORMATS.items() if worst <= 64 * eps)
    found = next(formats, "wrong")
    is_expected = worst <= 64 * audited.eps and changed == 0
    evidence = f"Random outputs deviate from double precision by up to {worst:.2g}{unit}{where}."
    if changed:
        found = "different in each call"
        evidence = f"Two calls with the same arrays differ by up to {changed:.2g}."
    elif found in _FORMATS:
        found = f"errors like those of {found}"
    return _verdict("outputs", is_expected, found, f"errors like those of {audited.arithmetic}", evidence)


def gradients(backward: Callable[..., Any]) -> Callable[[Audited, Sizes], Finding]:
    """The item that compares a backward function with central differences of the expected function."""

    def gradients(audited: Audited, sizes: Sizes) -> Finding:
        n, d, step, worst, where = sizes.n_keys[0], sizes.d_k, 1e-5, 0.0, ""
        for spread in (1.0, 10.0):
            size = spread * audited.expected.divisor(d, n) / math.sqrt(d)
            shapes = {"q": audited.expected.groups, "k": 1, "v": 1, "g": audited.expected.groups}
            *given, upstream = (normals(name, 1, heads, n, d) for name, heads in shapes.items())
            cast = [audited.cast(x) for x in (size * given[0], *given[1:])]
            upstream = audited.cast(upstream)
            try:
                found = [np.asarray(x).astype(float) for x in backward(*(x.copy() for x in cast), upstream.copy())]
            except Exception as error:  # whatever the function raises is a result of the audit
                raise CallError(f"the backward function raised {type(error).__name__}: {error}") from error
            exact = [x.astype(float) for x in cast]
            for index, name in enumerate("qkv"):
                if found[index].shape != exact[index].shape:
                    raise CallError(f"expected d{name} of shape {exact[index].shape}, got {found[index].shape}")
                direction = normals("d", *exact[index].shape)
                ends = []
                for sign in (1, -1):
                    moved = [x + sign * step * direction if i == index else x for i, x in enumerate(exact)]
                    ends.append(float((audited.expected.output(*moved) * upstream.astype(float)).sum()))
                wanted = (ends[0] - ends[1]) / (2 * step)
                scale = float(np.linalg.norm(found[index])) + abs(wanted)
                off = abs(float((found[index] * direction).sum()) - wanted) / max(scale, 1e-300)
                if not off <= worst:
                    worst, where = off, f"dL/d{name} at spread {spread:g}"
        evidence = (
            f"Derivatives along a random direction deviate from central differences by up to {worst:.2g}, in {where}."
        )
        is_right = worst <= 1e-6 + 64 * audited.eps
        return _verdict("gradients", is_right, "right" if is_right else "wrong", "right", evidence)

    return gradients
