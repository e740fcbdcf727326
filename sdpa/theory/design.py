"""The inverse question: the divisor at which a row of attention has a wanted entropy, largest weight or spread."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

from scipy import optimize

from sdpa.pairs import PairLaw
from sdpa.theory.attention import attention_expectations
from sdpa.theory.row_variance import row_variance

Target = Literal["entropy_share", "effective_keys", "max_weight", "row_variance"]

_RANGE = 1e3  # of divisors around the one at which scores have the variance 1: the ends are one-hot and uniform rows
_ACCURACY = 1e-12
_STEP = 0.25  # of the logarithm of the least divisor, up to the first with a known value


def divisor_for(
    target: Target, value: float, d_k: int, n_keys: int, law: PairLaw = PairLaw(), shortest: int | None = None
) -> float:
    """The divisor c at which the exact expectation of a metric has a wanted value.

    The expectations rise or fall with c throughout: a larger divisor makes a row more uniform. A search in ln c finds
    the one that fits. The variance within a row is proportional to 1/c^2, so that its divisor is a root.

    Args:
        target: `entropy_share`, E H over `largest_entropy`, from 0 to 1;
            `effective_keys`, e^(E H), from 1, somewhat below the metric of that name, E e^H, which has no exact value;
            `max_weight`, E max w; or `row_variance`, of the scaled scores in a row.
        value: that it should have.
        d_k: width of q and k.
        n_keys: keys, from 2.
        law: of queries and keys.
        shortest: as in `attention_expectations`.

    Raises:
        ValueError: no divisor gives the value; the message has the range of possible values.
        UnknownError: as in `attention_expectations`.

    >>> round(divisor_for("row_variance", 0.75, d_k=64, n_keys=4), 9)
    8.0
    >>> divisor = divisor_for("entropy_share", 0.9, d_k=128, n_keys=8192)
    >>> round(attention_expectations(128, 8192, divisor).entropy / math.log(8192), 9)
    0.9
    """
    if target not in get_args(Target):
        raise ValueError(f"target: expected one of {', '.join(get_args(Target))}, got {target!r}")
    unit = math.sqrt(row_variance(d_k, n_keys, 1.0, law, shortest))
    if target == "row_variance":
        if not 0 < value < math.inf:
            raise ValueError(f"row_variance: expected a finite number above 0, got {value}")
        return unit / math.sqrt(value)

    of_divisor = _metric(target, d_k, n_keys, law, shortest)
    ends = math.log(unit / _RANGE), math.log(unit * _RANGE)
    while math.isnan(of_divisor(math.exp(ends[0]))):  # a correlation saturates almost all rows
        ends = ends[0] + _STEP, ends[1]
    low, high = sorted(of_divisor(math.exp(end)) for end in ends)
    if not low < value < high:
        raise ValueError(f"{target}: expected a value above {low:.6g} and below {high:.6g}, got {value}")
    found = optimize.brentq(lambda x: of_divisor(math.exp(x)) - value, *ends, xtol=_ACCURACY)
    return math.exp(found)


def _metric(target: Target, d_k: int, n_keys: int, law: PairLaw, shortest: int | None) -> Callable[[float], float]:
    """The metric as a function of the divisor."""
    largest = largest_entropy(n_keys, shortest)

    def value(divisor: float) -> float:
        found = attention_expectations(d_k, n_keys, divisor, law, shortest)
        if target == "max_weight":
            return found.max_weight
        return found.entropy / largest if target == "entropy_share" else math.exp(found.entropy)

    return value


def largest_entropy(n_keys: int, shortest: int | None = None) -> float:
    """The entropy of equal weights on all visible keys, in nats: the mean of ln n over rows of n visible keys.

    Args:
        n_keys: keys, from 2.
        shortest: as in `attention_expectations`.

    >>> round(largest_entropy(4), 6), round(largest_entropy(4, shortest=1), 6)
    (1.386294, 0.794513)
    """
    lengths = range(shortest or n_keys, n_keys + 1)
    return math.fsum(map(math.log, lengths)) / len(lengths)


def equivalent_rules(divisor: float, d_k: int, n_keys: int) -> dict[str, float]:
    """The same divisor in the words of other rules.

    Returns:
        `exponent`: p of d_k^p, NaN for d_k = 1; `temperature`: the factor over d_k^1/2; `log_factor`: s of the log n
        rule d_k^1/2 / (s ln n_keys).

    >>> {name: round(value, 4) for name, value in equivalent_rules(16.0, 64, 1024).items()}
    {'exponent': 0.6667, 'temperature': 2.0, 'log_factor': 0.0721}
    """
    root = math.sqrt(d_k)
    return {
        "exponent": math.log(divisor) / math.log(d_k) if d_k > 1 else math.nan,
        "temperature": divisor / root,
        "log_factor": root / divisor / math.log(n_keys),
    }
