"""Find the divisor that gives rows a wanted entropy, largest weight or variance."""

from __future__ import annotations

import argparse
import math
from typing import get_args

from sdpa.command.output import Row, add_options, aligned, check, tell
from sdpa.inputs import InputLaw
from sdpa.pairs import PairLaw
from sdpa.scaling import multiplies
from sdpa.theory import UnknownError, attention_expectations, divisor_for
from sdpa.theory.attention import Target, largest_entropy
from sdpa.theory.row_law import lengths_of, rows_under

NAME = "design"
_FACTORS = (1 / 16, 1 / 4, 1, 4, 16)  # of n_keys, in the table
_FEWEST = 2
_SHOWN = ("max_weight", "row_variance", "jacobian_norm", "query_gradient_norm", "saturated_rows")
_WISHES: dict[Target, str] = {
    "entropy": "wanted mean entropy of a row, in nats",
    "entropy_share": "the same over that of equal weights, from 0 to 1",
    "max_weight": "wanted mean of the largest weight of a row",
    "row_variance": "wanted mean variance of the divided scores of a row",
}
_LAW = {
    "query_mean": "mean of the entries of queries",
    "key_mean": "mean of the entries of keys",
    "query_std": "standard deviation of the entries of queries",
    "key_std": "standard deviation of the entries of keys",
    "correlation": "of a query and its own key, from -1 to 1",
    "spectrum": "power of the covariance spectrum, as in a config",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add = parser.add_argument
    add("--d-k", type=int, required=True, metavar="N", help="width of queries and keys")
    add("--n-keys", type=int, required=True, metavar="N", help="keys of a row")
    wishes = parser.add_mutually_exclusive_group(required=True)
    for target in get_args(Target):
        wishes.add_argument(_option(target), type=float, metavar="NUMBER", help=_WISHES[target])
    add("--inputs", default="gaussian", help="law of the entries, as in a config")
    for name, words in _LAW.items():
        usual = getattr(PairLaw(), name)
        add(_option(name), type=float, default=usual, metavar="X", help=words)
    add("--normalize", default="none", help="normalization of queries and keys: none, l2 or rms")
    add(
        "--mask",
        default="none",
        help="none, causal, window-N or local-N, with a query for each key",
    )
    add_options(parser)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def run(given: argparse.Namespace) -> int:
    """Print the divisor, the same divisor as other rules, and exact values with it.

    Raises:
        ValueError: no divisor gives the value, or theory does not know the rows of the law.
    """
    check(given, [])
    if given.d_k < 1 or given.n_keys < _FEWEST:
        raise ValueError(
            f"expected --d-k of 1 or more and --n-keys of {_FEWEST} or more, got {given.d_k} and "
            f"{given.n_keys}"
        )
    of_law = {name: getattr(given, name) for name in _LAW}
    law = PairLaw(InputLaw.parse(given.inputs), **of_law, normalize=given.normalize)
    rows = rows_under(given.mask, given.n_keys, given.n_keys)
    ((target, value),) = (
        (each, wish) for each in get_args(Target) if (wish := getattr(given, each)) is not None
    )
    divisor = divisor_for(target, value, given.d_k, given.n_keys, law, rows)
    lines = [
        f"divide the scores by {divisor:.4g} for {target} = {value:g} at d_k = {given.d_k} and "
        f"n_keys = {given.n_keys}",
        f"at these sizes, the same as a rule for scaling: {_rules(divisor, given)}",
        *filter(None, [multiplies(divisor)]),
    ]
    table: list[Row] = [{"n_keys": given.n_keys, target: value}]
    try:
        lengths = {max(_FEWEST, round(factor * given.n_keys)) for factor in _FACTORS}
        table = [_values(given, n, divisor, law) for n in sorted(lengths)]
    except UnknownError as error:
        lines.append(f"no other exact values: {error}")
    else:
        has_one_key = lengths_of(rows, given.n_keys)[0] == 1
        counted = ", the row of a single key included" if has_one_key else ""
        lines.append(f"exact values with this divisor, also for fewer and more keys{counted}:")
        rounded = [
            {name: str(x) if isinstance(x, int) else f"{x:.4g}" for name, x in row.items()}
            for row in table
        ]
        lines.append(aligned(rounded))
    tell(given, "\n".join(lines), table)
    return 0


def _rules(divisor: float, given: argparse.Namespace) -> str:
    """The divisor as a power of d_k, and as the usual rules with a factor."""
    root = math.sqrt(given.d_k)
    has_power = divisor > 1 and given.d_k > 1
    power = f"d_k^{math.log(divisor) / math.log(given.d_k):.4f}, " if has_power else ""
    of_length = f"d_k^1/2/{root / divisor / math.log(given.n_keys):.5g}/ln(n_keys)"
    return f"{power}{divisor / root:.5g}*d_k^1/2 or {of_length}"


def _values(given: argparse.Namespace, n_keys: int, divisor: float, law: PairLaw) -> Row:
    """The row of the table for a number of keys."""
    rows = rows_under(given.mask, n_keys, n_keys)
    found = attention_expectations(given.d_k, n_keys, divisor, law, rows)
    return {
        "n_keys": n_keys,
        "entropy_share": found.entropy / largest_entropy(n_keys, rows),
        "entropy": found.entropy,
        **{name: getattr(found, name) for name in _SHOWN},
    }
