"""The spread of scores that keeps attention the same as rows grow, and published rules of length.

The spread sigma is the standard deviation of the scores of a row, given its query; a scaling rule
decides how it grows with the number n of visible keys. docs/theory.md compares exact numbers with
the limits of normal scores: H = ln n - sigma^2 / 2 below sqrt(2 ln n), of a power
(1/2) / (1 - H / ln n) of ln n; and (ln n)^1/2 for a constant H.
"""

from collections.abc import Callable
from functools import cache, partial
from math import exp, log, log1p, sqrt
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq

from sdpa.theory.cosine_law import CosineLaw
from sdpa.theory.cosine_rows import cosine_rows
from sdpa.theory.integrals import span
from sdpa.theory.rows import GaussianRow, Row

RowOf = Callable[[float, int], Row]  # of sigma and n_keys
Target = Literal["entropy", "max_weight"]
TRAINED = 4096  # length at which a rule is fitted, and above which that of YaRN grows
_LOG_SIGMAS = (-7.0, 5.0)
_LENGTHS = (16, 2**20)  # within which a rule may hold
_TOLERANCE = 0.1  # of an entropy that a rule keeps
_POLYNOMIAL = (-0.037, 0.481, -2.3, 4.917, -1.791)  # of arXiv 2410.01104, highest power first


def unit_row(sigma: float, n_keys: int, d_k: int) -> Row:
    """A row of unit queries and keys in isotropic directions: scores sqrt(d_k) sigma cos."""
    law = CosineLaw(sigma * sqrt(d_k), d_k)
    return Row(cosine_rows(law, span(n_keys)), (n_keys,))


def sigma_for(
    target: Target,
    value: float,
    n_keys: int,
    row_of: RowOf = GaussianRow,
) -> float:
    """The sigma at which a row has the expected entropy, in nats, or largest weight.

    ValueError if no sigma has. e^H is the effective number of keys.

    >>> round(sigma_for("entropy", 3.0, 64), 4)
    1.6619
    """

    @cache
    def excess(log_sigma: float) -> float:
        row = row_of(exp(log_sigma), n_keys)
        return (row.entropy() if target == "entropy" else row.max_weight()) - value

    low, high = (excess(end) for end in _LOG_SIGMAS)
    if low * high > 0:
        ends = sorted((low + value, high + value))
        raise ValueError(
            f"{target}: expected a value from {ends[0]:.3g} to {ends[1]:.3g}, got {value}"
        )
    return exp(brentq(excess, *_LOG_SIGMAS, xtol=1e-9))


class LengthRule(NamedTuple):
    """A published rule: the sigma of n visible keys from an initial sigma, and its rows.

    A rule with a step jumps at the multiples of this step.
    """

    name: str
    source: str
    sigma: Callable[[float, int], float]
    row_of: RowOf = GaussianRow
    step: int = 2**30


def _by_entropy(sigma: float, n_keys: int) -> float:
    """The polynomial of the entropy, at the mean entropy of rows; it never flattens a row."""
    entropy = GaussianRow(sigma, n_keys).entropy()
    factor = 1.0
    if entropy > 0.5:
        factor = max(float(np.polyval(_POLYNOMIAL, entropy)), 1.0)
    return sigma * factor


RULES = (
    LengthRule("1 (no rule)", "Vaswani et al. 2017", lambda sigma, _: sigma),
    LengthRule(
        "(ln n)^1/2", "critical scale of arXiv 2505.24333", lambda sigma, n: sigma * log(n) ** 0.5
    ),
    LengthRule("ln n", "arXiv 2202.12172, 2501.19399", lambda sigma, n: sigma * log(n)),
    LengthRule("(ln n)^2", "see arXiv 2605.12697", lambda sigma, n: sigma * log(n) ** 2),
    LengthRule(
        "1 + 0.1 ln(1 + floor(n/8192))",
        "Llama 4",
        lambda sigma, n: sigma * (1 + 0.1 * log1p(n // 8192)),
        step=8192,
    ),
    LengthRule(
        f"(1 + 0.1 ln(n/{TRAINED}))^2",  # 1 up to the trained length
        "YaRN with s = n/4096, arXiv 2309.00071",
        lambda sigma, n: sigma * (1 + 0.1 * log(max(n / TRAINED, 1))) ** 2,
    ),
    LengthRule("polynomial of the entropy", "arXiv 2410.01104", _by_entropy),
    LengthRule(
        "n^(2/7), unit keys of width 8",
        "arXiv 2605.08505",
        lambda sigma, n: sigma * n ** (2 / 7),
        partial(unit_row, d_k=8),
    ),
)


@cache
def _entropy(rule: LengthRule, sigma: float, n_keys: int) -> float:
    return rule.row_of(rule.sigma(sigma, n_keys), n_keys).entropy()


def lengths_that_keep(rule: LengthRule, entropy: float) -> tuple[int, int]:
    """The least and the greatest length over which a rule keeps the entropy within a tenth of it.

    The rule has the entropy at 4096 keys, by the least sigma that gives it. The lengths lie between
    16 and 2^20 and have three digits. A gap between them shows only if it is wider than a factor of
    sqrt(2), or begins at a jump of the rule.

    >>> lengths_that_keep(RULES[0], 3.0)
    (2173, 7437)
    """

    def excess(sigma: float) -> float:
        return _entropy(rule, sigma, TRAINED) - entropy

    sigmas = np.geomspace(1e-3, 100, 24).tolist()
    first = next(i for i, sigma in enumerate(sigmas) if excess(sigma) < 0)
    sigma = float(brentq(excess, sigmas[first - 1], sigmas[first]))

    def keeps(n_keys: int) -> bool:
        return abs(_entropy(rule, sigma, n_keys) / entropy - 1) <= _TOLERANCE

    least, most = _LENGTHS
    return _last_length(rule, keeps, least), _last_length(rule, keeps, most)


def _last_length(rule: LengthRule, keeps: Callable[[int], bool], limit: int) -> int:
    """The last length from 4096 to the limit before the first that a rule does not keep."""
    grid = np.geomspace(TRAINED, limit, 17)[1:]
    places = set(grid.round().astype(int).tolist())
    jumps = range(rule.step, limit, rule.step)
    places |= {n - 1 for n in jumps if n > TRAINED}
    inside = TRAINED
    for outside in sorted(places, key=lambda n: abs(log(n / TRAINED))):
        if not keeps(outside):
            break
        inside = outside
    else:
        return limit
    while abs(outside - inside) > max(1, inside / 1000):
        middle = (inside + outside) // 2
        if keeps(middle):
            inside = middle
        else:
            outside = middle
    return inside
