"""The predictions of results/config.full/replacement-plan.md: judged by its rules, from the shipped
tables, and as docs/training.md reports them.
"""

import math

import pandas as pd

from experiments.config.paths import csv_name
from tests.experiments.test_training_plan import (
    HALF,
    PAGE,
    PLAIN,
    is_above,
    is_as_good,
)
from tests.shipped import RESULTS

FULL = RESULTS / "config.full"
SWEEPS = [f"language{end}" for end in ("", "_sizes")]
SWEEPS += [f"language_replacements{end}" for end in ("", "_small", "_wide")] + ["language_qk_norm"]
SWEEPS += [f"language_long{end}" for end in ("", "_norm", "_half")]
NONE = {"normalize": "none", "gain": "fixed", "softcap": 0, "normalizer": "softmax"}
MECHANISMS = {
    "none": {},
    "norm": {"normalize": "rms"},
    "learned": {"normalize": "rms", "gain": "learned"},
    "cap 50": {"softcap": 50},
    "cap 5": {"softcap": 5},
    "sigmoid": {"normalizer": "sigmoid"},
}
CASE = {"d_k": 64, "initial": "unit", "initial_divisor": PLAIN, "layers": 4, "steps": 400}
PART = PAGE.partition("## What else does the job?")[2].partition("\n## ")[0]


class OpenError(LookupError):
    """A table or a row that was not measured."""


def _measured():
    paths = [FULL / csv_name(sweep, "measured") for sweep in SWEEPS]
    return pd.concat([pd.read_csv(path) for path in paths if path.exists()])


ROWS = _measured()


def rates(mechanism="none", scaling=PLAIN, **axes):
    """The rows of a mechanism and a rule, by rate."""
    case = {**CASE, **NONE, **MECHANISMS[mechanism], **axes, "scaling": scaling}
    found = ROWS[(ROWS[list(case)] == pd.Series(case)).all(axis=1)]
    if found.empty:
        raise OpenError(case)
    return found.set_index("learning_rate").sort_index()


def best(mechanism="none", scaling=PLAIN, **axes):
    """The row of the best rate."""
    rows = rates(mechanism, scaling, **axes)
    return rows.loc[rows["final_loss"].idxmin()]


def octaves(rows, limit):
    """Between the least and the largest rate around the best, without a gap, below the limit."""
    is_good = rows["final_loss"] <= limit
    gaps = (~is_good).cumsum()
    good = rows.index[is_good & (gaps == gaps[rows["final_loss"].idxmin()])]
    return math.log2(good.max() / good.min()) if len(good) else -1


def does_the_job(mechanism, **case):
    rows, of_root = rates(mechanism, **case), rates("none", HALF, **case)
    root = best("none", HALF, **case)
    limit, of_root = 1.05 * root["final_loss"], of_root.loc[of_root.index.isin(rows.index)]
    enough = octaves(rows, limit) >= octaves(of_root, limit)
    return is_as_good(best(mechanism, **case), root) and enough


def loss(mechanism="none", scaling=PLAIN, **case):
    return best(mechanism, scaling, **case)["final_loss"]


def lead(mechanism, **case):
    return loss(mechanism, **case) - loss("none", HALF, **case)


def excess(step):
    """Of the mean loss unscaled over that under the root, in runs of 4,000 steps."""
    path = FULL / csv_name("language_long", "history")
    if not path.exists():
        raise OpenError(path)
    losses = pd.read_csv(path).query(f"step == {step}").set_index("scaling")["test_loss"]
    return losses[PLAIN] / losses[HALF] - 1


def median(*case, **axes):
    return best(*case, **axes)["query_gradient_median_after"]


LONG, SLOW, FAST = {"steps": 4000}, {"learning_rate": 0.001}, {"learning_rate": 0.008}
PREDICTIONS = [
    lambda: not does_the_job("norm"),
    lambda: loss("norm") < loss(),
    lambda: best("norm")["spread_after"] < 2 * best("norm")["spread_before"],
    lambda: abs(loss("norm", initial="small") / loss("norm") - 1) <= 0.02,
    lambda: is_above(best("norm", initial="small"), best(initial="small")),
    lambda: loss("learned") < loss("norm") and not does_the_job("learned"),
    lambda: all(is_as_good(best(one, HALF), best("none", HALF)) for one in ("norm", "learned")),
    lambda: loss("norm", HALF, **FAST) < loss("none", HALF, **FAST),
    lambda: not does_the_job("cap 50") and abs(loss("cap 50") / loss() - 1) <= 0.03,
    lambda: loss("cap 5") < loss() and not does_the_job("cap 5"),
    lambda: is_as_good(best("cap 5", HALF), best("none", HALF)),
    lambda: loss("sigmoid") < loss() and not does_the_job("sigmoid"),
    lambda: is_as_good(best("sigmoid", HALF), best("none", HALF)),
    lambda: (
        best("sigmoid")["query_gradient_median_before"] > best()["query_gradient_median_before"]
    ),
    lambda: median("norm") > 1e-6,
    lambda: not does_the_job("norm", d_k=256) and lead("norm", d_k=256) > lead("norm"),
    lambda: (
        {one for one in MECHANISMS if does_the_job(one, initial="small")} == {"cap 5", "sigmoid"}
    ),
    lambda: (
        loss("none", HALF, **LONG) < 1.65 and is_above(best(**LONG), best("none", HALF, **LONG))
    ),
    lambda: excess(4000) < excess(400),
    lambda: median(**LONG) < 1e-7 and median("none", HALF, **LONG) < median("none", HALF) / 10,
    lambda: loss("none", HALF, **LONG) < loss("norm", **LONG) < loss(**LONG),
    lambda: all(
        loss("none", rule, **SLOW, **LONG) < loss("none", rule, learning_rate=0.002, **LONG)
        for rule in (PLAIN, HALF)
    ),
]


def outcome(prediction):
    try:
        return "held" if prediction() else "failed"
    except OpenError:
        return "open"


if __name__ == "__main__":
    for number, prediction in enumerate(PREDICTIONS, start=1):
        print(number, outcome(prediction))
