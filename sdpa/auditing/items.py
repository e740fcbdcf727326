"""Probes with designed inputs: for what usual outputs do not show, and for wrong outputs that no
slip explains.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from sdpa.auditing.computation import repeated
from sdpa.auditing.function import ROWS, Audited, normals

SPREADS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)

# True if the item is as expected, False if not; then what was found and expected, and the evidence.
Result = tuple[bool | np.bool_, object, object, str]
Item = Callable[[Audited], Result]


def lost_mass(audited: Audited) -> Result:
    """Row sums over the spread of scores, beside the exact ones."""
    lost = []
    for n in audited.n_keys:
        for spread in SPREADS:
            q, k, v = (x[:1] for x in audited.random(spread, min(ROWS, n), n, batch=4))
            out, exact = audited.outputs(q, k, np.ones_like(v))
            mean = float(np.mean(1 - out[..., 0] / exact[..., 0]))
            lost.append((np.nan_to_num(abs(mean), nan=np.inf), mean, spread, n))
    size, most, spread, n = max(lost)
    # Wide formats may sum in themselves, with errors of sqrt(n); narrow ones should sum in single
    # precision.
    tolerance = 4 * audited.eps * (1.0 if audited.eps > 1e-4 else math.sqrt(audited.n_keys[-1]))
    where = f"Largest at spread {spread:g} with {n} keys."
    return size <= tolerance, f"{most:.3g}", f"below {tolerance:.1g}", where


def gradients(audited: Audited) -> Result:
    """Gradients of a backward function along random directions, beside central differences of the
    expected output.
    """
    n, step, off = audited.n_keys[0], 1e-5, []
    for spread, rows in ((1.0, n), (10.0, n), (1.0, max(1, n // 3))):
        given = audited.random(spread, rows, n)
        upstream = audited.cast(normals("g", *given[0].shape))
        found = audited.call(audited.backward, [*given, upstream], *(x.shape for x in given))
        exact = [x.astype(float) for x in given]
        for i, gradient in enumerate(found):
            direction = step * normals("d", *gradient.shape)
            moved = ([*exact[:i], exact[i] + t, *exact[i + 1 :]] for t in (direction, -direction))
            up, down = (audited.exact(*arrays) for arrays in moved)
            wanted = ((up - down) * upstream.astype(float)).sum() / 2
            size = np.abs(wanted) + step * np.linalg.norm(gradient)
            error = np.abs((gradient * direction).sum() - wanted) / size
            off.append((float(np.nan_to_num(error, nan=np.inf)), f"dL/d{'qkv'[i]}"))
    worst, where = max(off)
    is_right = worst <= 1e-6 + 64 * audited.eps
    evidence = f"{where} deviates from central differences by up to {worst:.2g}."
    return is_right, "right" if is_right else "wrong", "right", evidence


def dropout(audited: Audited) -> Result:
    """Weights over the expected ones: 0 for dropped keys, 1 / (1 - rate) for the others."""
    n = audited.n_keys[0]
    found, exact = audited.weights(*audited.random(1.0, n, n)[:2])
    ratios = found[exact > 0] / exact[exact > 0]
    kept = ratios[ratios != 0]
    is_none = not 0 < kept.size < ratios.size or not np.ptp(kept) <= 1e-3 + 8 * audited.eps
    found_words = f"left on, rate {1 - 1 / kept.mean():.3g} (pytorch/pytorch#124464)"
    words = "Other weights are a multiple of the expected ones."
    return is_none, "none" if is_none else found_words, "none", words


def mask(audited: Audited) -> Result:
    """Keys with a weight under equal scores, in every head and batch entry."""
    n, d = audited.n_keys[0], audited.d_k
    seen, wanted = audited.weights(np.zeros((n, d)), np.ones((n, d))) != 0
    found, expected = (x.sum(axis=-1).max(axis=(0, 1)).tolist() for x in (seen, wanted))
    evidence = "Numbers of keys with a weight under equal scores, by query."
    return (seen == wanted).all(), found, expected, evidence


def divisor(audited: Audited) -> Result:
    """Products of q and k over log weights near 0, from key to key, in every row; the odd part in
    q, without bias and sink.
    """
    n, small = audited.n_keys[0], audited.eps**0.25
    q, k, _ = audited.random(small, n, n)
    products = np.diff(q.astype(float) @ repeated(k, audited.expected.groups).mT.astype(float))
    sides = (audited.weights(sign * q, k)[0] for sign in (1.0, -1.0))
    with np.errstate(all="ignore"):
        steps = np.diff(np.subtract(*map(np.log, sides)) / 2)
        steps, products = np.where(np.isfinite(steps), (steps, products), 0.0)
        divisors = (products**2).sum(axis=-1) / (steps * products).sum(axis=-1)
    finite = divisors[np.isfinite(divisors)]
    low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
    exact = audited.expected.divisor(audited.d_k, n)
    is_expected = max(exact - low, high - exact) <= (1e-6 + 8 * audited.eps / small) * exact
    found = f"{low:.6g} to {high:.6g}"
    return is_expected, found, f"{exact:.6g}", f"Slopes of log weights with {n} keys, over rows."


def heads(audited: Audited) -> Result:
    """The head and the batch entry whose values reach each output."""
    n, d = audited.n_keys[0], audited.d_k
    owners = np.arange(6.0).reshape(2, 3, 1, 1) + np.zeros((n, d))
    out, exact = audited.outputs(np.zeros((n, d)), 0 * owners, owners)
    found, wanted = (x[:, :, -1, 0].round(2).tolist() for x in (out, exact))
    return found == wanted, found, wanted, "Marks of heads and batch entries of values."
