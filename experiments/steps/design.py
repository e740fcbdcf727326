"""The divisor for a wanted row of attention, in words and as a table over the number of keys."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from sdpa import InputLaw, PairLaw, theory
from sdpa.theory.attention import Target, largest_entropy

_FACTORS = (1 / 16, 1 / 4, 1, 4, 16)  # of n_keys, in the table
_FEWEST = 2


def wanted(wishes: Mapping[Target, float | None]) -> tuple[Target, float]:
    """The single metric with a wanted value, and the value; ValueError if the wishes have none or several."""
    found = [(target, value) for target, value in wishes.items() if value is not None]
    if len(found) != 1:
        options = ", ".join(f"--{target.replace('_', '-')}" for target in wishes)
        raise ValueError(f"expected one of {options}, got {len(found)}")
    return found[0]


def law_of(inputs: str, **attributes: Any) -> PairLaw:
    """The joint law of queries and keys.

    Raises:
        ValueError: the name is unknown, or an attribute is out of its range.
    """
    try:
        entries = InputLaw.parse(inputs)
    except ValueError as error:
        raise ValueError(f"--inputs: {error}") from None
    return PairLaw(entries=entries, **attributes)


def designed(
    target: Target, value: float, d_k: int, n_keys: int, law: PairLaw, shortest: int | None = None
) -> Iterator[str]:
    """The divisor that gives a metric the wanted value, the same divisor as other rules, and a table of the metrics.

    Raises:
        ValueError: no divisor gives the value, or theory does not know the rows of the law.

    >>> print(next(designed("row_variance", 0.75, 64, 4, PairLaw())))
    divide the scores by 8 for row_variance = 0.75 at d_k = 64 and n_keys = 4
    """
    divisor = theory.divisor_for(target, value, d_k, n_keys, law, shortest)
    root = math.sqrt(d_k)
    yield f"divide the scores by {divisor:.4g} for {target} = {value:g} at d_k = {d_k} and n_keys = {n_keys}"
    power = f"d_k^{math.log(divisor) / math.log(d_k):.4f}, " if divisor > 1 and d_k > 1 else ""
    factor = f"{divisor / root:.4f}*d_k^1/2 or d_k^1/2/{root / divisor / math.log(n_keys):.4f}/ln(n_keys)"
    yield f"at these sizes, the same as a rule for scaling: {power}{factor}"
    try:
        table = values_over_lengths(divisor, d_k, n_keys, law, shortest)
    except theory.UnknownError as error:
        yield f"no other exact values: {error}"
        return
    yield "exact values with this divisor, also for fewer and more keys:"
    yield table.to_string(index=False, float_format="{:.4g}".format)


def values_over_lengths(
    divisor: float, d_k: int, n_keys: int, law: PairLaw, shortest: int | None = None
) -> pd.DataFrame:
    """The exact metrics of rows from a sixteenth to sixteen times as many keys, with the same divisor."""
    rows = []
    for length in sorted({max(_FEWEST, round(factor * n_keys)) for factor in _FACTORS}):
        found = theory.attention_expectations(d_k, length, divisor, law, shortest)
        rows.append(
            {
                "n_keys": length,
                "entropy_share": found.entropy / largest_entropy(length, shortest),
                "e^mean_entropy": math.exp(found.entropy),
                "max_weight": found.max_weight,
                "row_variance": found.row_variance,
                "jacobian_norm": found.jacobian_norm,
                "query_gradient_norm": found.query_gradient_norm,
                "saturated_rows": found.saturated_rows,
            }
        )
    return pd.DataFrame(rows)
