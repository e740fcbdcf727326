"""Training behind statements: decoders of `language` in config.full.yaml, each rule at the best of
its learning rates.
"""

import pandas as pd

from experiments.claims.measured import Given

LIMITS = (
    "These are decoders of four layers of width 64 with one head of d_k = 64, on characters of one"
    " text: nine runs, 400 steps of Adam, the best of six learning rates. Larger models, longer"
    " training and tasks with long-range attention may differ"
)
_STARTS = {"unit": "q and k of variance 1", "small": "W_Q and W_K from N(0, 0.02^2)"}
_RULES = {"unscaled": "unscaled", "d_k^1/2": "under d_k^1/2"}
_LOSS = "final_loss"


def losses(given: Given) -> str:
    """The losses of each start and rule in words, and that of attention that cannot select."""
    bands = given.tables["language/bands"]
    found = []
    for start, words in _STARTS.items():
        rows = bands[(bands["initial"] == start) & (bands["initial_divisor"] == "unscaled")]
        by_rule = rows.set_index("scaling")
        rules = [f"{_loss(by_rule.loc[rule])} {name}" for rule, name in _RULES.items()]
        found.append(f"{' and '.join(rules)} from {words}")
    uniform = given.tables["language_uniform/bands"].set_index("layers").loc[4]
    return (
        f"Median losses of held-out text after training in nats, with their intervals:"
        f" {'; '.join(found)}; {_loss(uniform)} with attention that cannot select (divisor 1,000,000)"
    )


def _loss(row: "pd.Series[float]") -> str:
    value, low, high = (row[f"{_LOSS}{end}"] for end in ("", "_low", "_high"))
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def heads(given: Given, scaling: str, when: str) -> pd.DataFrame:
    """The heads of `language` under a rule, means over runs: `before` training, or `after` it."""
    table = given.tables["language/heads"]
    step = 0 if when == "before" else table["steps"]
    is_meant = (table["scaling"] == scaling) & (table["initial_divisor"] == "unscaled")
    return table[is_meant & (table["step"] == step)]
