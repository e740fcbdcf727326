"""Probes with designed inputs: for what whole outputs do not show, and for wrong outputs that no
slip explains.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np

from sdpa.auditing.computation import repeated
from sdpa.auditing.function import ROWS, Audited, normals

SPREADS = (
    0.0,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
)

# True if the item is as expected, False if not; then what was found and expected, and the evidence.
Result = tuple[
    bool | np.bool_,
    object,
    object,
    str,
]
Item = Callable[[Audited], Result]


def lost_mass(audited: Audited) -> Result:
    """Row sums of one head over the spread of scores, beside the exact ones."""
    lost = []
    for n, spread in itertools.product(audited.n_keys, SPREADS):
        given = audited.random(spread, min(ROWS, n), n, batch=4)
        q, k, v = (x[:1] for x in given)
        out, exact = audited.outputs(q, k, np.ones_like(v))
        ratio = out[..., 0] / exact[..., 0]
        mean = 1 - ratio.mean()
        size = np.nan_to_num(abs(mean), nan=np.inf)
        lost.append((size, mean, spread, n))
    size, most, spread, n = max(lost)
    # Wide formats may sum in themselves, with errors of sqrt(n); narrow ones should sum in single
    # precision.
    terms = math.sqrt(audited.n_keys[-1]) if audited.is_wide else 1.0
    tolerance = 4 * audited.eps * terms
    return (
        size <= tolerance,
        f"{most:.3g}",
        f"below {tolerance:.1g}",
        f"Largest at spread {spread:g} with {n} keys.",
    )


def gradients(audited: Audited) -> Result:
    """Gradients of a backward function along random directions, beside central differences of the
    expected output.
    """
    n = audited.n_keys[0]
    step = 1e-5
    off = []
    for spread, rows in ((1.0, n), (10.0, n), (1.0, max(1, n // 3))):
        given = audited.random(spread, rows, n)
        upstream = audited.cast(normals("g", *given[0].shape))
        shapes = (x.shape for x in given)
        found = audited.call(audited.backward, [*given, upstream], *shapes)
        exact = [x.astype(float) for x in given]
        for i, gradient in enumerate(found):
            direction = step * normals("d", *gradient.shape)
            sides = (
                audited.exact([*exact[:i], exact[i] + moved, *exact[i + 1 :]])
                for moved in (direction, -direction)
            )
            change = np.subtract(*sides) / 2
            wanted = (change * upstream.astype(float)).sum()
            size = np.abs(wanted) + step * np.linalg.norm(gradient)
            error = np.abs((gradient * direction).sum() - wanted) / size
            worst = np.nan_to_num(error, nan=np.inf)
            off.append((worst, f"dL/d{'qkv'[i]}"))
    worst, where = max(off)
    is_right = worst <= 1e-6 + 64 * audited.eps
    return (
        is_right,
        "right" if is_right else "wrong",
        "right",
        f"{where} deviates from central differences by up to {worst:.2g}.",
    )


def dropout(audited: Audited) -> Result:
    """Weights over the expected ones: 0 for dropped keys, 1 / (1 - rate) for the others."""
    n = audited.n_keys[0]
    q, k, _ = audited.random(1.0, n, n)
    found, exact = audited.weights(q, k)
    ratios = found[exact > 0] / exact[exact > 0]
    kept = ratios[ratios != 0]
    # Formats of 16 bits round the weights.
    is_dropped = 0 < kept.size < ratios.size and np.ptp(kept) < 0.06
    words = "none"
    if is_dropped:
        rate = 1 - 1 / kept.mean()
        words = f"left on, rate {rate:.3g} (pytorch/pytorch#124464)"
    return (
        not is_dropped,
        words,
        "none",
        "Other weights are a multiple of the expected ones.",
    )


def mask(audited: Audited) -> Result:
    """Keys with a weight under equal scores, in every head and batch entry."""
    shape = audited.n_keys[0], audited.d_k
    seen, wanted = audited.weights(np.zeros(shape), np.ones(shape)) != 0
    found, expected = (x.sum(axis=-1).mean(axis=(0, 1)) for x in (seen, wanted))
    return (
        (seen == wanted).all(),
        found.tolist(),
        expected.tolist(),
        "Mean numbers of keys with a weight under equal scores, by query.",
    )


def divisor(audited: Audited) -> Result:
    """Products of q and k over log weights near 0, from key to key, in every row; the odd part in
    q, without bias and sink.
    """
    n = audited.n_keys[0]
    small = audited.eps**0.25
    q, k, _ = audited.random(small, n, n)
    keys = repeated(k, audited.expected.groups).astype(float)
    products = np.diff(q.astype(float) @ keys.mT)
    sides = (audited.weights(sign * q, k)[0] for sign in (1.0, -1.0))
    with np.errstate(all="ignore"):
        odd = np.subtract(*map(np.log, sides)) / 2
        steps = np.diff(odd)
        steps, products = np.where(np.isfinite(steps), (steps, products), 0.0)
        squares = (products**2).sum(axis=-1)
        divisors = squares / (steps * products).sum(axis=-1)
    finite = divisors[np.isfinite(divisors)]
    low = finite.min(initial=np.inf)
    high = finite.max(initial=-np.inf)
    exact = audited.expected.divisor(audited.d_k, n)
    within = 1e-6 + 8 * audited.eps / small
    return (
        max(exact - low, high - exact) <= within * exact,
        f"{low:.6g} to {high:.6g}",
        f"{exact:.6g}",
        f"Slopes of log weights with {n} keys, over rows.",
    )


def heads(audited: Audited) -> Result:
    """The head and the batch entry whose values reach each output."""
    shape = audited.n_keys[0], audited.d_k
    owners = np.arange(6.0).reshape(2, 3, 1, 1) + np.zeros(shape)
    outputs = audited.outputs(np.zeros(shape), 0 * owners, owners)
    found, wanted = (x[:, :, -1, 0].round(2).tolist() for x in outputs)
    return (
        found == wanted,
        found,
        wanted,
        "Marks of heads and batch entries of values.",
    )
