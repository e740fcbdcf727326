"""The items of an audit: each a function of the audited function, with its result."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from sdpa.arithmetic import FORMATS
from sdpa.attention import allowed_keys
from sdpa.auditing.function import ROWS, Audited, CallError, LostMass, OneKeyError, along, normals
from sdpa.scaling import Scaling
from sdpa.theory.formats import weight_below

SPREADS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_RULES = (
    "unscaled",
    "d_k^1/2",
    "d_k^1",
    "d_k^1/3",
    "d_k^2/3",
    "d_k^1/4",
    "n_keys^1/2",
    "d_k^1/2/ln(n_keys)",
)
_COARSE = 0.2  # residuals of the scores of weights in 8 bits are below

# True if the item is as expected, False if not, None if not tested; then what was found and
# expected, and the evidence.
Result = tuple[bool | np.bool_ | None, object, object, str]


def mask(audited: Audited) -> Result:
    """Keys with a weight under equal scores, at several shapes."""
    expected, shapes = audited.mask, audited.shapes
    seen = [audited.equal(*shape) != 0 for shape in shapes]
    names = (
        expected,
        "none",
        "causal",
        f"window-{max(1, *(int(rows.sum(axis=-1).max()) for rows in seen))}",
    )
    masks = {name: [allowed_keys(name, shape) for shape in shapes] for name in names}
    masks["causal from the first key (query i sees keys 0 to i)"] = [
        np.tri(*shape, dtype=bool) for shape in shapes
    ]
    apart = {
        name: [(x != y) & audited.near(*x.shape) for x, y in zip(masks[name], seen, strict=True)]
        for name in masks
    }
    found = next((name for name, keys in apart.items() if not any(map(np.any, keys))), "another")
    counts = (
        f"{len(x)} queries see {x[0].sum()} and {x[-1].sum()} of {len(x[0])} keys" for x in seen
    )
    return (
        found == expected,
        found,
        expected,
        f"Under equal scores, the first and the last of {'; '.join(counts)}.",
    )


def hidden_keys(audited: Audited) -> Result:
    """Weights of hidden keys under scores far above those of visible ones: 0 only if their scores
    are -inf.
    """
    n, d = audited.n_keys[0], audited.d_k
    hidden = (audited.equal(n, n) == 0) & audited.near(n, n)
    if not hidden.any():
        return True, "none", "", ""
    divisor = audited.divisor(d, n)
    step = min(1e5, audited.arithmetic.largest / 16 / divisor / n)
    q, k = along(step * np.arange(n), divisor, d)
    rows = [audited.weights(np.repeat(sign * q, n, axis=0), k)[hidden] for sign in (1.0, -1.0)]
    leak = np.nan_to_num(np.abs(rows), nan=1.0).max()
    evidence = (
        f"Largest weight of a hidden key, if scaled scores rise or fall by {step:.2g} per "
        f"key: {leak:.2g}."
    )
    return leak == 0, "they leak" if leak else "no weight", "no weight", evidence


def _slope(
    audited: Audited, d_k: int, n_queries: int, n_keys: int, *, is_wide: bool = False
) -> tuple[float, float, float, float]:
    """The divisor, its tolerance, and the largest deviations of rows from it, and of log weights
    from their rows.

    The spread is as small as the format allows, so that a soft cap hardly matters. Weights coarser
    than the format need a spread of 1, and leave a tolerance of their deviation.
    """
    small = 1.0 if audited.eps > 1e-4 else audited.eps**0.25
    tolerance = max(1e-6, 2 * audited.eps / small)
    tolerance += 2 * (small / audited.softcap) ** 2 if audited.softcap else 0.0
    for spread in dict.fromkeys((small, 1.0)):
        q, k = (x[0, 0] for x in audited.random(spread, n_queries, n_keys, d_k)[:2])
        odd = np.ma.masked_invalid(audited.odd_logits(q, k, is_wide=is_wide))
        products = np.ma.array(q.astype(float) @ k.astype(float).T, mask=np.ma.getmaskarray(odd))
        logits, scores = (
            np.asarray((x - x.mean(axis=-1, keepdims=True)).filled(0.0)) for x in (odd, products)
        )
        squares = np.vecdot(scores, scores)
        if not squares.any():
            raise OneKeyError(
                f"no query gives two keys a weight above 0 at d_k = {d_k} and {n_keys} keys"
            )
        slope = float(np.vecdot(logits, scores).sum() / squares.sum()) or 1e-300
        long = squares > squares.max() / 4
        slopes = np.vecdot(logits, scores)[long, None] / squares[long, None]
        of_rows = float(np.abs(slopes / slope - 1).max())
        residual = float(
            np.abs(logits[long] - slopes * scores[long]).max() / np.abs(scores * slope).max()
        )
        if residual <= 50 * tolerance and abs(slope) > 1e-300:
            break
    if 50 * tolerance < residual < _COARSE and of_rows < _COARSE / 4:
        tolerance = residual
    return 1 / slope, tolerance, of_rows, residual


def divisor(audited: Audited) -> Result:
    """The slope of log weights over scores near 0, at several d_k, numbers of keys and queries."""
    d, few = audited.d_k, audited.n_keys[0]
    sizes = [(d, few, few), *((d, min(ROWS, few), n) for n in audited.n_keys[1:])]
    found, untested = {}, ""
    for size in [*sizes, (d // 2, few, few), (3 * d // 2, few, few)]:
        try:
            found[size] = _slope(audited, *size)
        except CallError as error:
            if size[0] == d:
                raise
            untested += f" Not tested at d_k = {size[0]} ({error})."

    def fits(divisor: Callable[[int, int], float]) -> bool:
        return all(
            abs(got / divisor(s[0], s[2]) - 1) <= within for s, (got, within, _, _) in found.items()
        )

    one, within, _, _ = found[sizes[0]]
    factor = one / audited.divisor(d, few)
    named: dict[str, Callable[[int, int], float]] = {
        str(audited.scaling): audited.divisor,
        **{rule: Scaling.parse(rule).divisor for rule in _RULES},
        f"{one:.8g}": lambda *_: one,
        f"{factor:.8g} times {audited.scaling}": lambda *size: factor * audited.divisor(*size),
    }
    name = next((name for name, rule in named.items() if fits(rule)), "of no known rule")
    if any(of_rows > 50 * within for _, within, of_rows, _ in found.values()):
        name = "different in different rows"
    if any(residual > 50 * within for _, within, _, residual in found.values()):
        name = "no divisor of q·k"
    wide = _slope(audited, d, few, few, is_wide=True)[0]
    if abs(wide / one - 1) > 2 * within:
        name = (
            f"{wide / one:.4g} times as large with 2 batch entries and 4 heads of keys as with one"
        )
    numbers = ", ".join(
        f"{value[0]:.8g} at d_k = {s[0]} and {s[2]} keys" for s, value in found.items()
    )
    off = "{:.1g} of it, log weights from multiples of q·k by {:.1g}".format(
        *np.max([*found.values()], axis=0)[2:]
    )
    evidence = (
        f"Slopes of log weights over scores near 0, to {within:.1g}: {numbers}. Rows "
        f"deviate by up to {off}."
    )
    return name == str(audited.scaling), name, audited.scaling, evidence + untested


def soft_cap(audited: Audited) -> Result:
    """The scaled score that a large one becomes, beside 0, and the c of c tanh(s / c) that explains
    it.
    """
    n, d, score = audited.n_keys[0], audited.d_k, 20.0 if audited.eps < 1e-6 else 8.0
    c, within, of_rows, residual = _slope(audited, d, n, n)
    q, k = along(np.where(np.arange(n) == n - 1, score, 0.0), abs(c), d)
    logits = (audited.odd_logits(np.repeat(x * q, n, axis=0), k)[-1] for x in (1.0, 0.5))
    (became, half), tolerance = (
        (float(row[-1] - row[-2]) for row in logits),
        max(within, residual, 4 * audited.eps),
    )
    if of_rows > 50 * within or not math.isfinite(became):
        return (
            None,
            "not visible",
            "",
            "A key loses all weight beside a large score, or rows have no common divisor.",
        )
    wanted = audited.softcap * math.tanh(score / audited.softcap) if audited.softcap else score
    expected, found = (
        f"{audited.softcap:g}" if audited.softcap else "none",
        "another function of scores",
    )
    is_expected = abs(became - wanted) <= tolerance * score
    if is_expected or abs(became - score) <= tolerance * score:
        found = expected if is_expected else "none"
    elif 0 < became < score:
        cap = float(brentq(lambda cap: cap * math.tanh(score / cap) - became, became / 2, 1e6))
        found = (
            f"{cap:.6g}"
            if abs(half - cap * math.tanh(score / 2 / cap)) <= 4 * tolerance * score
            else found
        )
    return is_expected, found, expected, f"A scaled score of {score:g} becomes {became:.6g}."


def bias(audited: Audited) -> Result:
    """The steps of log weights from key to key under equal scores."""
    n, expected, tolerance = audited.n_keys[0], audited.alibi, 1e-6 + 4 * audited.eps
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.ma.masked_invalid(np.diff(np.log(audited.equal(n, n)), axis=-1)).compressed()
    low, high = steps.min(initial=math.inf), steps.max(initial=-math.inf)
    name = (
        "a bias by position"
        if high - low > 2 * tolerance
        else f"slope {steps.sum() / max(steps.size, 1):.6g}"
    )
    found = "none" if max(abs(low), abs(high)) <= tolerance or not steps.size else name
    evidence = f"Log weights under equal scores rise by {low:.6g} to {high:.6g} from key to key."
    # Over a row, rounding errors of the steps cancel.
    off = abs(steps.mean() - expected) * max(steps.size / n, 1.0) if steps.size else 0.0
    is_expected = max(high - expected, expected - low, off) <= tolerance
    return is_expected, found, f"slope {expected:g}" if expected else "none", evidence


def sink(audited: Audited) -> Result:
    """Sums of rows under equal scores: 1 - e^sink times the weight of the own key, which has no
    bias.
    """
    n, tolerance = audited.n_keys[0], max(1e-9, 4 * audited.eps)
    weights = audited.equal(n, n)
    own, missing = np.diagonal(weights), 1 - weights.sum(axis=-1)
    expected, size = (
        ("none", 0.0) if audited.sink is None else (f"{audited.sink:g}", math.exp(audited.sink))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        sinks = np.log(missing / own)
        is_sink = np.ptp(sinks) < 1e-3 + 100 * audited.eps
    name = f"{round(sinks.mean(), 6) + 0:g}" if is_sink else "sums of another kind"
    is_expected = np.abs(missing - size * own).max() <= tolerance
    found = expected if is_expected else "none" if np.abs(missing).max() <= tolerance else name
    return (
        is_expected,
        found,
        expected,
        f"Rows of equal scores lack {missing.min():.6g} to {missing.max():.6g} of 1.",
    )


def heads(audited: Audited) -> Result:
    """The head and the batch entry whose values reach each output."""
    d, groups, n, owners = (
        audited.d_k,
        audited.groups,
        audited.n_keys[0],
        np.arange(4).reshape(2, 2),
    )
    marks = np.broadcast_to(np.eye(4, d).reshape(2, 2, 1, d), (2, 2, n, d))
    out, _ = audited.outputs(np.zeros((2, 2 * groups, n, d)), 0 * marks, marks)
    found, wanted = out[:, :, -1].argmax(axis=-1), np.repeat(owners, groups, axis=1)
    evidence = (
        f"Values that each query head reads, by batch entry, with {groups} query heads per "
        f"head of values."
    )
    return np.array_equal(found, wanted), found.tolist(), wanted.tolist(), evidence


def lost_mass(audited: Audited) -> Result:
    """Row sums over the spread of scores, beside the exact ones and the exact share of weights that
    round to 0.
    """
    below = math.log(audited.arithmetic.smallest) - math.log(2)
    for n in audited.n_keys:
        for spread in SPREADS:
            q, k, v = audited.random(spread, min(ROWS, n), n)
            out, exact = audited.outputs(q, k, np.ones_like(v))
            tiny = weight_below(spread, n, below) if spread else 0.0
            audited.lost.append(
                LostMass(n, spread, float(np.mean(1 - out[0, 0] / exact[0, 0])), tiny)
            )
    worst = max(audited.lost, key=lambda row: abs(row.lost) if row.lost == row.lost else math.inf)
    # Wide formats may sum in themselves, with errors of sqrt(n); narrow ones should sum in single
    # precision.
    tolerance = 4 * audited.eps * (1.0 if audited.eps > 1e-4 else math.sqrt(audited.n_keys[-1]))
    where = (
        f"Largest at spread {worst.spread:g} with {worst.n_keys} keys; spreads {SPREADS[0]:g} "
        f"to {SPREADS[-1]:g}."
    )
    return abs(worst.lost) <= tolerance, f"{worst.lost:.3g}", f"below {tolerance:.1g}", where


def large_scores(audited: Audited) -> Result:
    """Rows of equal scores so large, or so far below 0, that e^s leaves the format unless the
    maximum is subtracted.
    """
    n, d = audited.n_keys[0], audited.d_k
    size = 1.5 * math.log(audited.arithmetic.largest)
    signs, worst = np.where(np.arange(min(ROWS, n)) % 2, 1.0, -1.0)[:, None], 0.0
    for scores in (np.full(n, size), np.linspace(-size, size, audited.n_keys[-1])):
        q, k = along(scores, audited.divisor(d, len(scores)), d)
        out, exact = audited.outputs(signs * q, k, 1 + scores[:, None] / size * np.eye(1, d))
        worst = max(worst, float(np.nan_to_num(np.abs(out - exact), nan=np.inf).max()))
    evidence = (
        f"Outputs for scores all {size:.4g}, all {-size:.4g}, or between, are wrong by up "
        f"to {worst:.2g}."
    )
    # Products of so large numbers are rounded, too.
    is_right = worst <= 1e-9 + 16 * audited.eps * (size if audited.eps < 1e-4 else 1.0)
    expected = "the maximum of each row is subtracted"
    found = "it is not subtracted" if worst == np.inf else "other outputs for large scores"
    return is_right, expected if is_right else found, expected, evidence


def scaled(audited: Audited) -> Result:
    """The arrays that the scale multiplies, from the rounding of whole multiples of the smallest
    number of the format.

    Divided by c, a multiple m of the smallest number rounds to a multiple; a score does not. Keys
    of the largest power of 2 bring the products back to the size of eps. The divisor c, or its root
    on both q and k, needs to round some m.
    """
    n, d, c = audited.n_keys[0], audited.d_k, audited.divisor(audited.d_k, audited.n_keys[0])
    # no multiples of c or its root
    multiples = np.unique(np.rint(np.arange(1, 13) * max(1.0, c / 7.3)))
    rounded = min(np.abs(np.rint(multiples / x) * x - multiples).max() for x in (c, math.sqrt(c)))
    # of the smallest number times the largest power of 2
    scores = 2 * audited.eps * d * multiples.max() / c
    large = (
        audited.arithmetic.largest
        / (2 - audited.eps)
        * min(1.0, 2.0 ** math.floor(-math.log2(scores)))
    )
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None] * np.ones((len(multiples), 1, 1, d))
    small = multiples[:, None, None, None] * audited.arithmetic.smallest
    changes, visible = [], 0.0
    for q, k in ((small, large), (large, small)):
        up, down = (audited.outputs(sign * q * np.abs(signs), k * signs, signs) for sign in (1, -1))
        found, exact = ((x - y)[:, 0, -1, 0] / 2 for x, y in zip(up, down, strict=True))
        visible = rounded * float(np.abs(exact).max()) / multiples.max()
        if not np.abs(found).max() > np.abs(exact).max() / 9 or visible < 4 * audited.eps:
            return (
                None,
                "not visible",
                "",
                "Subnormal numbers count as 0, or the divisor does not round them.",
            )
        changes.append(float(np.abs(found - exact).max()))
    names = [name for name, change in zip("qk", changes, strict=True) if not change <= visible / 2]
    off = (
        f"{changes[0]:.2g} and {changes[1]:.2g}; a scale on them, before the product, by at "
        f"least {visible:.2g}"
    )
    evidence = f"Multiples of the smallest number in q and in k give outputs wrong by up to {off}."
    return True, " and ".join(names) or "scores", "", evidence


def outputs(audited: Audited) -> Result:
    """Whole outputs of random inputs at three spreads, with two batch entries and heads, beside
    double precision.
    """
    off, is_same = [], True
    # Single and double precision round scores, so that errors grow with the spread.
    is_wide = audited.eps < 1e-4
    for n_queries, n_keys in audited.shapes:
        for spread in (1.0, 5.0, 20.0):
            q, k, v = audited.random(spread, n_queries, n_keys, batch=2)
            given = q, k, v * v.dtype.type(spread**2)
            (out, exact), (again, _) = audited.outputs(*given), audited.outputs(*given)
            is_same &= np.array_equal(again, out)
            worst = float(np.nan_to_num(np.abs(out - exact), nan=np.inf).max()) / (
                spread ** (3 if is_wide else 2)
            )
            off.append((worst, f"with {n_queries} queries, {n_keys} keys and spread {spread:g}"))
    worst, where = max(off)
    formats = ("float64", "float32", "float16", "bfloat16")
    # Sixteen bits alone leave no room for other causes: errors of 16-bit functions are below eps.
    limits = {
        name: 2.0 ** ((7 if FORMATS[name].digits > 16 else 3) - FORMATS[name].digits)
        for name in formats
    }
    found = next(
        (f"errors like those of {name}" for name in formats if worst <= limits[name]), "wrong"
    )
    evidence = (
        f"Outputs per unit of v are wrong by up to "
        f"{worst:.2g}{' times the spread' * is_wide}, {where}."
    )
    is_expected = is_same and worst <= 64 * audited.eps
    wanted = f"errors like those of {audited.arithmetic}, the same in each call"
    return (
        is_expected,
        wanted if is_expected else found if is_same else "different in each call",
        wanted,
        evidence,
    )


def gradients(audited: Audited) -> Result:
    """Gradients of a backward function along random directions, beside central differences of the
    expected output.
    """
    n, step, off = audited.n_keys[0], 1e-5, []
    for spread, rows in ((1.0, n), (10.0, n), (1.0, max(1, n // 3))):
        given = audited.random(spread, rows, n, batch=2)
        given.append(audited.cast(normals("g", *given[0].shape)))
        found = audited.call(audited.backward, given, *(x.shape for x in given[:3]))
        *exact, upstream = (x.astype(float) for x in given)
        for i, gradient in enumerate(found):
            direction = normals("d", *gradient.shape)
            moved = ([*exact[:i], exact[i] + t * direction, *exact[i + 1 :]] for t in (step, -step))
            up, down = (audited.exact(*arrays) for arrays in moved)
            wanted = ((up - down) * upstream).sum() / (2 * step)
            error = np.abs((gradient * direction).sum() - wanted) / (
                np.linalg.norm(gradient) + abs(wanted) + 1e-300
            )
            off.append(
                (float(np.nan_to_num(error, nan=math.inf)), f"dL/d{'qkv'[i]} at spread {spread:g}")
            )
    worst, where = max(off)
    is_right = worst <= 1e-6 + 64 * audited.eps
    evidence = (
        f"Derivatives along a direction deviate from central differences by up to "
        f"{worst:.2g}, in {where}."
    )
    return is_right, "right" if is_right else "wrong", "right", evidence
