"""The predictions of results/config.full/training-plan.md: judged by its rules, from the shipped
tables, and as docs/training.md reports them; and what counting characters gives on the same text.
"""

import re
from collections import Counter

import numpy as np
import pandas as pd

from experiments.kinds.language import corpus
from tests.prose import part
from tests.shipped import OF_FULL

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
WIDTHS = [{"d_k": d_k} for d_k in (16, 64, 256, 512)]
HEADS, SHALLOW, DEEP = {"d_k": 16, "n_heads": 4}, {"layers": 2}, {"layers": 8}
SIZES = [*WIDTHS, HEADS, SHALLOW, DEEP]
STARTS = ("unit", "small")
OUTCOME = re.compile(r"^(\d+)\. \*\*([a-z, ]+)\*\*", re.MULTILINE)
TRAINING = "docs/training.md"
PAGE = part(TRAINING)


def _shipped():
    """A row for each rule of each case, at its best rate, with the columns of both tables."""
    found = []
    for sweep in ("language", "language_rates", "language_optimizers", "language_sizes"):
        measured, bands = (OF_FULL[sweep][kind] for kind in ("measured", "bands"))
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


def trains(row):
    return row["final_loss"] < 2.32


def fails_completely(row):
    return row["final_loss"] >= 3.24 or row["diverged_least"] > 1 / 2


def both(**axes):
    """The rows unscaled and under the root."""
    return of(PLAIN, **axes), of(HALF, **axes)


def lead(**axes):
    """The median loss unscaled, less that under the root."""
    plain, root = both(**axes)
    return plain["final_loss"] - root["final_loss"]


def ratio(column, **axes):
    """A value unscaled over that under the root."""
    plain, root = both(**axes)
    return plain[column] / root[column]


def judged():
    """True for each prediction that held."""
    plain, root = both()
    leads = [lead(**size) for size in WIDTHS]
    divided = {"initial_divisor": QUARTER, "rate_divisor": QUARTER}
    compensated = of(PLAIN, **divided)
    unit, small = (both(optimizer="momentum", initial=initial) for initial in STARTS)
    gradient = "embedding_gradient_before"
    return [
        all(trains(of(PLAIN, **size)) for size in SIZES)
        and not any(fails_completely(of(PLAIN, **size)) for size in SIZES),
        all(is_above(*both(**size)) for size in WIDTHS[1:]),
        all(is_as_good(*both(**size)) for size in (WIDTHS[0], HEADS)),
        leads == sorted(leads),
        lead(**DEEP) > lead(**SHALLOW),
        is_as_good(of(QUARTER), root) and is_as_good(of(WHOLE), root),
        ratio("query_gradient_before") > 1 > ratio("query_gradient_median_before")
        and ratio(gradient) > 1
        and ratio(gradient, **DEEP) > ratio(gradient, **SHALLOW),
        ratio("spread_after") < 5,
        all(is_as_good(*both(**size, initial="small")) for size in SIZES),
        is_above(of(WHOLE, initial="small"), of(HALF, initial="small")),
        is_as_good(of(PLAIN, initial_divisor=QUARTER), root),
        is_above(of(PLAIN, rate_divisor=QUARTER), root),
        compensated["final_loss_low"] <= root["final_loss"] <= compensated["final_loss_high"],
        is_above(*unit) and is_above(*small[::-1]),
        is_above(*both(clip=1)),
        all(trains(of(PLAIN, warmup=0, initial=initial)) for initial in STARTS),
        plain["octaves"] <= root["octaves"],
    ]


def held_and_failed(heading, predictions, notes):
    """The counts, after a comparison of each outcome with the page, where some have notes."""
    outcomes = ["held" if is_held else "failed" for is_held in predictions]
    expected = {n: one + notes.get(n, "") for n, one in enumerate(outcomes, 1)}
    assert {int(n): words for n, words in OUTCOME.findall(part(TRAINING, heading))} == expected
    return outcomes.count("held"), outcomes.count("failed")


def test_every_prediction_has_the_outcome_that_the_docs_report():
    notes = dict.fromkeys((1, 16), ", but could not have failed")
    notes |= dict.fromkeys((5, 17), " within noise")
    held, failed = held_and_failed("The predictions", judged(), notes)
    assert f"Of 17 predictions, {failed} failed and {held} held: of these, 2" in PAGE
    blind = OF_FULL["language_uniform"]["bands"]["final_loss"]
    assert blind.max() < 2.32
    assert f"cannot select ends at {blind.min():.2f} to {blind.max():.2f}." in PAGE
    shallow = of(PLAIN, **SHALLOW)
    noise = shallow["final_loss_high"] - shallow["final_loss_low"]
    assert lead(**DEEP) - lead(**SHALLOW) < noise
    plain, root = both()
    assert root["octaves"] - plain["octaves"] == 1


def test_no_decoder_beats_counts_of_triples_in_400_steps(monkeypatch):
    """Counts in the text that decoders learn, 0.005 added to each, at the tested characters."""
    text = corpus.TEXT.read_text(encoding="utf-8")
    n = len(corpus.trained_on())
    monkeypatch.setattr(corpus, "held_out", lambda: np.arange(n, len(text)))
    places = corpus.held_out_stretches.__wrapped__(64)[:, 1:].ravel()
    counts = Counter(text[i : i + size] for size in range(1, 5) for i in range(n + 1 - size))
    rest = 0.005 * len({*text})
    losses = []
    for length in (2, 3, 4):
        tested = [text[i + 1 - length : i + 1] for i in places]
        shares = [(counts[each] + 0.005) / (counts[each[:-1]] + rest) for each in tested]
        losses.append(-np.log(shares).mean())
    assert "to each) have {:.2f}, {:.2f} and {:.2f} nats.".format(*losses) in PAGE
    bands = pd.concat(results["bands"] for results in OF_FULL.values() if "bands" in results)
    bands = bands.query("steps == 400 and width == 64")
    best, lowest = bands[["final_loss", "final_loss_low"]].min()
    assert losses[1] < lowest
    assert f"settings is {best:.2f}, the lowest end of an interval {lowest:.2f}." in PAGE
