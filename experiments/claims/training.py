"""Training behind statements: decoders of config.full.yaml, each rule at the best of its learning
rates.
"""

import pandas as pd

from experiments.claims.measured import Given
from experiments.declarations.tables import rows_of
from sdpa.scaling import SCALED, UNSCALED

LIMITS = (
    "These are decoders of four layers of width 64 with one head of d_k = 64 or 512, on characters"
    " of one text: nine runs (three with attention that cannot select), 400 steps of Adam, the best of"
    " several learning rates; losses still fall. Larger models, longer training and tasks with"
    " long-range attention may differ"
)
STARTS = {"unit": "q and k of variance 1", "small": "W_Q and W_K from N(0, 0.02^2)"}
_SWEEPS = {64: "language", 512: "language_wide"}
_RULES = {UNSCALED: "unscaled", SCALED: "under d_k^1/2"}
_LOSS = "final_loss"


def trained(given: Given, d_k: int, start: str) -> pd.DataFrame:
    """The losses of a start with their intervals, by rule: each at its best rate."""
    bands = f"{_SWEEPS[d_k]}/bands"
    rows = rows_of(given.tables, bands, initial=start, initial_divisor=UNSCALED)
    return rows.set_index("scaling")


def without_selection(given: Given, d_k: int) -> "pd.Series[float]":
    """The loss with attention that cannot select, with its interval."""
    bands = given.tables["language_uniform/bands"].set_index(["d_k", "layers"])
    row: pd.Series[float] = bands.loc[d_k, 4]
    return row


def fails(given: Given, start: str) -> dict[str, object]:
    """Two cases of a start at d_k = 512: an unscaled decoder that fails completely by the rule of
    results/config.full/training-plan.md, and one as good as with attention that cannot select (at
    most 2% apart).
    """
    unscaled = trained(given, 512, start).loc[UNSCALED]
    loss = unscaled[_LOSS]
    other = without_selection(given, 512)[_LOSS]
    where = f"unscaled with d_k = 512, from {STARTS[start]},"
    return {
        f"{where} the loss stays at 3.24 nats or more, or most runs diverge": (
            loss >= 3.24 or unscaled["diverged_least"] > 1 / 2
        ),
        f"{where} it ends within 2% of that of attention that cannot select": loss >= 0.98 * other,
    }


def losses(given: Given, d_k: int) -> str:
    """The losses of each start and rule in words, and that of attention that cannot select."""
    found = []
    for start, words in STARTS.items():
        by_rule = trained(given, d_k, start)
        rules = [f"{_loss(by_rule.loc[rule])} {name}" for rule, name in _RULES.items()]
        found.append(f"{' and '.join(rules)} from {words}")
    return (
        f"At d_k = {d_k}, median losses of held-out text after training in nats, with their"
        f" intervals: {'; '.join(found)}; {_loss(without_selection(given, d_k))} with attention that"
        " cannot select (divisor 1,000,000)"
    )


def _loss(row: "pd.Series[float]") -> str:
    value = row[_LOSS]
    low = row[f"{_LOSS}_low"]
    high = row[f"{_LOSS}_high"]
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def heads(given: Given, scaling: str, when: str, d_k: int = 64) -> pd.DataFrame:
    """The heads of decoders under a rule, means over runs: `before` training, or `after` it."""
    name = f"{_SWEEPS[d_k]}/heads"
    table = rows_of(given.tables, name, scaling=scaling, initial_divisor=UNSCALED)
    return table[table["step"] == (0 if when == "before" else table["steps"])]
