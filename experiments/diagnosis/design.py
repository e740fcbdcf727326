"""The divisor for a wanted row of attention, in words and as a table over the number of keys."""

import math
from collections.abc import Iterator, Sequence
from typing import get_args

import pandas as pd

from sdpa import PairLaw, theory
from sdpa.theory.attention import Target, largest_entropy

_FACTORS = (1 / 16, 1 / 4, 1, 4, 16)  # of n_keys, in the table
_FEWEST = 2


def designed(
    wishes: Sequence[float | None], d_k: int, n_keys: int, law: PairLaw, shortest: int | None = None
) -> Iterator[str]:
    """The divisor that gives a metric a wanted value, the same divisor as other rules, and a table
    of the metrics.

    Args:
        wishes: a value for one of the metrics of `Target`, in their order, and None for the others.
        d_k: width of queries and keys.
        n_keys: keys of a row.
        law: joint law of queries and keys.
        shortest: keys of the shortest row under a causal mask; None without one.

    Raises:
        ValueError: several values or none, no divisor gives the value, or theory does not know the
            rows of the law.

    >>> print(next(designed([None, None, None, 0.75], 64, 4, PairLaw())))
    divide the scores by 8 for row_variance = 0.75 at d_k = 64 and n_keys = 4
    """
    wanted = [
        (target, wish)
        for target, wish in zip(get_args(Target), wishes, strict=True)
        if wish is not None
    ]
    if len(wanted) != 1:
        options = ", ".join(f"--{target.replace('_', '-')}" for target in get_args(Target))
        raise ValueError(f"expected one of {options}, got {len(wanted)}")
    ((target, value),) = wanted
    divisor = theory.divisor_for(target, value, d_k, n_keys, law, shortest)
    root = math.sqrt(d_k)
    yield (
        f"divide the scores by {divisor:.4g} for {target} = {value:g} at d_k = {d_k} and n_keys "
        f"= {n_keys}"
    )
    power = f"d_k^{math.log(divisor) / math.log(d_k):.4f}, " if divisor > 1 and d_k > 1 else ""
    factor = (
        f"{divisor / root:.4f}*d_k^1/2 or "
        f"d_k^1/2/{root / divisor / math.log(n_keys):.4f}/ln(n_keys)"
    )
    yield f"at these sizes, the same as a rule for scaling: {power}{factor}"
    rows = []
    try:
        for length in sorted({max(_FEWEST, round(factor * n_keys)) for factor in _FACTORS}):
            found = theory.attention_expectations(d_k, length, divisor, law, shortest)
            row = {
                "n_keys": length,
                "entropy_share": found.entropy / largest_entropy(length, shortest),
            }
            row["e^mean_entropy"] = math.exp(found.entropy)
            names = (
                "max_weight",
                "row_variance",
                "jacobian_norm",
                "query_gradient_norm",
                "saturated_rows",
            )
            rows.append(row | {name: getattr(found, name) for name in names})
    except theory.UnknownError as error:
        yield f"no other exact values: {error}"
        return
    yield "exact values with this divisor, also for fewer and more keys:"
    yield pd.DataFrame(rows).to_string(index=False, float_format="{:.4g}".format)
