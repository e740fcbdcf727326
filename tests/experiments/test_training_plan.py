"""The predictions of docs/training-plan.md: judged by its rules, from the shipped tables, and as
docs/training.md reports them.
"""

import re

import pandas as pd

from experiments.paths import csv_name
from tests.shipped import RESULTS, ROOT

PLAIN, QUARTER, HALF, WHOLE = "unscaled", "d_k^1/4", "d_k^1/2", "d_k^1"
USUAL = {
    "d_k": 64,
    "layers": 4,
    "n_heads": 1,
    "initial": "unit",
    "initial_divisor": PLAIN,
    "rate_divisor": PLAIN,
    "optimizer": "adam",
    "warmup": 30,
    "clip": 0,
}
STARTS = ("unit", "small")
OUTCOME = re.compile(r"^(\d+)\. \*\*(held|failed)\*\*", re.MULTILINE)


def _read(sweep, kind):
    return pd.read_csv(RESULTS / "config.full" / csv_name(sweep, kind))


def _shipped():
    """A row for each rule of each case, at its best rate, with the columns of both tables."""
    found = []
    for sweep in ("language", "language_rates", "language_optimizers"):
        measured, bands = _read(sweep, "measured"), _read(sweep, "bands")
        bands = bands.rename(columns={"best_rate": "learning_rate"})
        same = [name for name in bands if name in measured]
        found.append(measured.merge(bands, on=same))
    return pd.concat(found)


ROWS = _shipped()


def of(scaling, **axes):
    """The row of a rule in the case with these axes."""
    case = {**USUAL, **axes, "scaling": scaling}
    (row,) = ROWS[(ROWS[list(case)] == pd.Series(case)).all(axis=1)].to_dict("records")
    return row


def is_above(one, other):
    return one["final_loss_low"] > other["final_loss_high"]


def is_as_good(one, other):
    return one["final_loss"] <= 1.02 * other["final_loss"]


def ratio(column, **axes):
    """A value unscaled over that under the root."""
    return of(PLAIN, **axes)[column] / of(HALF, **axes)[column]


def judged():
    """True for each prediction that held."""
    plain, root, small = of(PLAIN), of(HALF), {"initial": "small"}
    divided = {"initial_divisor": QUARTER, "rate_divisor": QUARTER}
    compensated = of(PLAIN, **divided)
    momentum = [
        [of(rule, optimizer="momentum", initial=initial) for rule in (PLAIN, HALF)]
        for initial in STARTS
    ]
    is_as_good_small = is_as_good(of(PLAIN, **small), of(HALF, **small))
    return {
        6: is_as_good(of(QUARTER), root) and is_as_good(of(WHOLE), root),
        7: ratio("query_gradient_before") > 1 > ratio("query_gradient_median_before"),
        8: ratio("spread_after") < 5,
        9: is_as_good_small,
        10: is_above(of(WHOLE, **small), of(HALF, **small)),
        11: is_as_good(of(PLAIN, initial_divisor=QUARTER), root),
        12: is_above(of(PLAIN, rate_divisor=QUARTER), root),
        13: compensated["final_loss_low"] <= root["final_loss"] <= compensated["final_loss_high"],
        14: is_above(*momentum[0]) and is_above(*momentum[1][::-1]),
        15: is_above(of(PLAIN, clip=1), of(HALF, clip=1)),
        16: all(of(PLAIN, warmup=0, initial=initial)["final_loss"] < 2.32 for initial in STARTS),
        17: plain["octaves"] <= root["octaves"],
    }


def test_predictions_have_the_outcome_that_the_docs_report():
    """Those that the sweeps at d_k = 64 decide: one of several sizes fails if it fails there."""
    reported = OUTCOME.findall((ROOT / "docs" / "training.md").read_text(encoding="utf-8"))
    assert {int(number): words == "held" for number, words in reported} == judged()
