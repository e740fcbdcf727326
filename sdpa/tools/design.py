"""`design`: the divisor that gives rows a wanted entropy, largest weight or variance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sdpa.pairs import Normalize, PairLaw
from sdpa.scaling import multiplies
from sdpa.theory import attention_expectations, divisor_for
from sdpa.theory.attention import Target, largest_entropy
from sdpa.theory.query_lengths import largest_of_all_mean
from sdpa.theory.row_law import rows_under
from sdpa.tools.listing import Row, listed

_FACTORS = (1 / 16, 1 / 4, 1, 4, 16)  # of n_keys, in the table
COLUMNS = {
    "n_keys": ("{n_keys}", "keys of a sequence, with a query for each"),
    "entropy_share": ("{entropy_share:.4g}", "entropy over that of equal weights, from 0 to 1"),
    "entropy": ("{entropy:.4g}", "mean entropy of a row, in nats"),
    "max_weight": ("{max_weight:.4g}", "mean of the largest weight of a row"),
    "row_variance": ("{row_variance:.4g}", "mean variance of the divided scores of a row"),
    "jacobian_norm": (
        "{jacobian_norm:.4g}",
        "norm of the softmax's derivative, root mean square over rows",
    ),
    "query_gradient_norm": (
        "{query_gradient_norm:.4g}",
        "length of a query's gradient, likewise, for normal gradients to the weights",
    ),
    "saturated_rows": ("{saturated_rows:.4g}", "share of rows with a weight above 0.99"),
    "largest_score": (
        "{largest_score:.4g}",
        "mean largest of all scores, if each query sees n_keys of its own; not for l2 and rms",
    ),
}


@dataclass(frozen=True)
class Design:
    """A divisor, and exact values with it; it prints as `sdpa design` does."""

    divisor: float
    table: Sequence[Row]  # by n_keys
    text: str

    def __str__(self) -> str:
        return self.text

    def to_pandas(self) -> Any:
        """The table as a DataFrame of pandas, which is no dependency."""
        import pandas

        return pandas.DataFrame(self.table)


def design(
    target: Target,
    value: float,
    d_k: int,
    n_keys: int,
    mask: str = "none",
    normalize: Normalize = "none",
) -> Design:
    """The divisor at which normal q and k have a wanted value, and exact values for other n_keys.

    Args:
        target: `entropy`, `entropy_share`, `max_weight` or `row_variance`, as in
            `sdpa.theory.divisor_for`.
        value: of the target.
        d_k, n_keys: the width of q and k, and the keys of the sequence, with a query for each.
        mask: by name, as in `sdpa.attention_weights`.
        normalize: of q and k: none, l2 or rms.

    Raises:
        ValueError: no divisor gives the value, or a size or a name is none.

    >>> design("row_variance", 0.75, d_k=64, n_keys=4).divisor
    8.0
    """
    law = PairLaw(normalize=normalize)
    rows = rows_under(mask, n_keys, n_keys)
    divisor = divisor_for(target, value, d_k, n_keys, law, rows)
    table = []
    for n in sorted({max(2, round(factor * n_keys)) for factor in _FACTORS}):
        rows = rows_under(mask, n, n)
        means = attention_expectations(d_k, n, divisor, law, rows)
        share = {"entropy_share": means.entropy / largest_entropy(n, rows)}
        row = {"n_keys": n, "divisor": divisor} | share | vars(means)
        if normalize == "none":
            row["largest_score"] = largest_of_all_mean(d_k, n, n) / divisor
        table.append(row)
    rule = f"the same as the rule {divisor / math.sqrt(d_k):.5g}*d_k^1/2 for scaling"
    text = (
        f"divide the scores by {divisor:.4g} for {target} = {value:g} at d_k = {d_k} and "
        f"n_keys = {n_keys}, mask {mask}, normalize {normalize}\n"
        f"{rule if normalize == 'none' else 'another d_k needs another divisor'}\n"
        f"{multiplies(divisor)}\n"
        "exact values with it, from normal q and k before normalize, also for fewer and more keys:\n\n"
        f"{listed(table, COLUMNS)}"
    )
    return Design(divisor, table, text)
