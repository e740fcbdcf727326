"""Find the divisor that gives rows a wanted entropy, largest weight or variance."""

import argparse
import math
from typing import get_args

from sdpa.masks import MASKS
from sdpa.pairs import PairLaw
from sdpa.scaling import multiplies
from sdpa.theory import attention_expectations, divisor_for
from sdpa.theory.attention import Target, largest_entropy
from sdpa.theory.row_law import rows_under
from sdpa.tools.command.output import add_options, listed, tell

NAME = "design"
_FACTORS = (1 / 16, 1 / 4, 1, 4, 16)  # of n_keys, in the table
_COLUMNS = {
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
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("--d-k", type=int, required=True, metavar="N", help="width of queries and keys")
    add("--n-keys", type=int, required=True, metavar="N", help="keys of the sequence")
    wishes = parser.add_mutually_exclusive_group(required=True)
    for target in get_args(Target):
        wishes.add_argument(
            f"--{target.replace('_', '-')}", type=float, metavar="NUMBER", help=_COLUMNS[target][1]
        )
    add("--normalize", default="none", help="normalization of queries and keys: none, l2 or rms")
    add("--mask", default="none", help=f"{', '.join(MASKS)}; a query for each key")
    add_options(parser)


def run(given: argparse.Namespace) -> int:
    """Print the divisor, the same divisor as another rule, and exact values with it.

    Raises:
        ValueError: no divisor gives the value.
    """
    law = PairLaw(normalize=given.normalize)
    rows = rows_under(given.mask, given.n_keys, given.n_keys)
    target = next(each for each in get_args(Target) if getattr(given, each) is not None)
    value = getattr(given, target)
    divisor = divisor_for(target, value, given.d_k, given.n_keys, law, rows)
    table = []
    for n_keys in sorted({max(2, round(factor * given.n_keys)) for factor in _FACTORS}):
        rows = rows_under(given.mask, n_keys, n_keys)
        found = attention_expectations(given.d_k, n_keys, divisor, law, rows)
        share = {"entropy_share": found.entropy / largest_entropy(n_keys, rows)}
        table.append({"n_keys": n_keys, "divisor": divisor} | share | vars(found))
    rule = f"the same as the rule {divisor / math.sqrt(given.d_k):.5g}*d_k^1/2 for scaling"
    text = (
        f"divide the scores by {divisor:.4g} for {target} = {value:g} at d_k = {given.d_k} and "
        f"n_keys = {given.n_keys}, mask {given.mask}, normalize {given.normalize}\n"
        f"{rule if given.normalize == 'none' else 'another d_k needs another divisor'}\n"
        f"{multiplies(divisor)}\n"
        "exact values with it, from normal q and k before normalize, also for fewer and more keys:\n\n"
        f"{listed(table, _COLUMNS)}"
    )
    tell(given, text, table)
    return 0
