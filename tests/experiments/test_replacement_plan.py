"""The predictions of results/config.full/replacement-plan.md: judged by its rules, from the shipped
tables, and as docs/training.md reports them.
"""

import math

import pandas as pd
import pytest

from experiments.kinds.language import cell as language
from experiments.measuring.chunk import Chunk
from sdpa import Scaling
from tests.experiments.test_training_plan import HALF, OUTCOME, PLAIN, USUAL, is_above, is_as_good
from tests.prose import part, prose
from tests.shipped import OF_FULL

TRAINING = "docs/training.md"
SWEEPS = ["", "_sizes", "_replacements", "_replacements_small", "_replacements_wide"]
SWEEPS += ["_long", "_long_norm", "_long_half", "_cap", "_four_heads"]
MECHANISMS = {  # with the names of the table of docs/training.md
    "none": ("softmax", {}),
    "norm": ("QK-norm, gain fixed at 1", {"normalize": "rms"}),
    "learned": ("QK-norm, gain learned from 1 on", {"normalize": "rms", "gain": "learned"}),
    "cap 50": ("soft cap of 50", {"softcap": 50}),
    "cap 5": ("soft cap of 5", {"softcap": 5}),
    "sigmoid": ("sigmoid", {"normalizer": "sigmoid"}),
}
CASE = USUAL | {"steps": 400, "width": 64}
CASE |= {"normalize": "none", "gain": "fixed", "softcap": 0, "normalizer": "softmax"}
LONG, FAST = {"steps": 4000}, {"learning_rate": 0.008}
CAP, HEADS = {"softcap": 30}, {"n_heads": 4, "width": 256}
SLOW, BEST = {**LONG, "learning_rate": 0.001}, {**LONG, "learning_rate": 0.002}
ROWS = pd.concat(OF_FULL[f"language{sweep}"].measured for sweep in SWEEPS)
HISTORY, SLOW_HISTORY = (
    OF_FULL[f"language_long{end}"]["history"].pivot_table("test_loss", "scaling", "step")
    for end in ("", "_half")
)


def rates(mechanism="none", scaling=PLAIN, **axes):
    """The rows of a mechanism and a rule, by rate."""
    case = {**CASE, **MECHANISMS[mechanism][1], **axes, "scaling": scaling}
    found = ROWS[(ROWS[list(case)] == pd.Series(case)).all(axis=1)]
    return found.set_index("learning_rate", drop=False).sort_index()


def best(*case, **axes):
    """The row of the best rate."""
    rows = rates(*case, **axes)
    return rows.loc[rows["final_loss"].idxmin()]


def loss(*case, **axes):
    return best(*case, **axes)["final_loss"]


def median(*case, **axes):
    return best(*case, **axes)["query_gradient_median_after"]


def octaves(rows, root):
    """Of good rates around the best one, without a gap; -1 for none."""
    is_good = rows["final_loss"] <= 1.05 * root["final_loss"]
    gaps = (~is_good).cumsum()
    good = rows.index[is_good & (gaps == gaps[rows["final_loss"].idxmin()])]
    return math.log2(good.max() / good.min()) if len(good) else -1


def does_the_job(mechanism, **case):
    rows, of_root = rates(mechanism, **case), rates("none", HALF, **case)
    root, of_root = best("none", HALF, **case), of_root[of_root.index.isin(rows.index)]
    is_wide = octaves(rows, root) >= octaves(of_root, root)
    return is_as_good(best(mechanism, **case), root) and is_wide


def lead(mechanism, **case):
    return loss(mechanism, **case) - loss("none", HALF, **case)


def excess(step, history=HISTORY):
    """Of the mean loss unscaled over that under the root, in runs of 4,000 steps."""
    return history[step][PLAIN] / history[step][HALF] - 1


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
    lambda: all(loss("none", rule, **SLOW) < loss("none", rule, **BEST) for rule in (PLAIN, HALF)),
]


WIDE_EXCESS, EXCESS = (
    loss("none", **axes) / loss("none", HALF, **axes) - 1 for axes in (HEADS, {})
)
ADDENDUM = [
    lambda: loss("none", **CAP) < loss("cap 50"),
    lambda: not is_as_good(best("none", **CAP), best("none", HALF)),
    lambda: is_as_good(best("none", HALF, **CAP), best("none", HALF)),
    lambda: is_above(best("none", **HEADS), best("none", HALF, **HEADS)),
    lambda: WIDE_EXCESS < EXCESS,
    lambda: all(loss("none", rule, **HEADS) < loss("none", rule) for rule in (PLAIN, HALF)),
    lambda: median("none", **HEADS) < median("none", HALF, **HEADS) / 10,
]


@pytest.mark.parametrize(
    ("heading", "predictions"),
    [
        ("Predictions of the second plan", PREDICTIONS),
        ("A cap of 30, and four heads", ADDENDUM),
    ],
)
def test_every_prediction_has_the_outcome_that_the_docs_report(heading, predictions):
    outcomes = ["held" if prediction() else "failed" for prediction in predictions]
    said = part(TRAINING, heading)
    within = {19} if predictions is PREDICTIONS else {1, 6}
    expected = {n: one + " within noise" * (n in within) for n, one in enumerate(outcomes, 1)}
    assert {int(n): words for n, words in OUTCOME.findall(said)} == expected
    counts = map(outcomes.count, ("held", "failed"))
    assert f"{len(predictions)} predictions, {{}} held and {{}} failed".format(*counts) in said


def test_docs_say_what_a_cap_of_30_and_four_heads_do():
    page = prose(TRAINING, "A cap of 30, and four heads")
    capped = loss("none", **CAP)
    above = capped / loss("none", HALF) - 1
    with_root = loss("none", HALF, **CAP)
    assert f"ends at {capped:.3f}, {above:.1%} above the root, and with √d<sub>k</sub>" in page
    assert f"at {with_root:.3f}." in page
    wide = [f"{loss('none', rule, **HEADS):.3f}" for rule in (PLAIN, HALF)]
    told = "the loss is {} unscaled and {} under √d<sub>k</sub>,".format(*wide)
    assert f"{told} {WIDE_EXCESS:.1%} apart ({EXCESS:.1%} in one head" in page
    assert {best("none", rule, **HEADS)["learning_rate"] for rule in (PLAIN, HALF)} == {0.001}
    faster = {**HEADS, "learning_rate": 0.002}
    apart = loss("none", **faster) / loss("none", HALF, **faster) - 1
    assert f"(at 0.002: {apart:.1%})" in page
    assert median("none", **HEADS) < 1e-18
    assert loss("none", HALF, **HEADS) < 1.65 < loss("none", **HEADS)  # triples


def verdict(mechanism, initial):
    """The octaves of good rates, and the verdict, as in the table."""
    width = octaves(rates(mechanism, initial=initial), best("none", HALF, initial=initial))
    does = does_the_job(mechanism, initial=initial)
    row, bound = best(mechanism, initial=initial), 1.02 * loss("none", HALF, initial=initial)
    noise = " (within noise)" * bool(row["final_loss_low"] < bound < row["final_loss_high"])
    return "none" if width < 0 else f"{width:.0f}", ("yes" if does else "no") + noise


def test_docs_say_what_does_the_job_of_the_divisor():
    page, root = prose(TRAINING, "What else does the job?"), best("none", HALF)
    for one, (name, _) in MECHANISMS.items():
        told = [name, f"{loss(one):.3f}", f"{loss(one, HALF):.3f}", *verdict(one, "unit")]
        told += [f"{loss(one, initial='small'):.3f}", *verdict(one, "small")]
        assert f"| {' | '.join(told)} |" in page, one
    small = loss("learned", initial="small") / loss("none", HALF, initial="small") - 1
    assert (
        f"({small:.1%} above the root's {loss('none', HALF, initial='small'):.3f}), within noise"
        in page
    )
    missed = rates("learned", initial="small")["final_loss"][0.008]
    missed /= 1.05 * loss("none", HALF, initial="small")
    assert f"at 0.008 it misses by {missed - 1:.1%}." in page
    assert page.count(f"{loss('norm', initial='small'):.3f} and {loss('norm'):.3f}.") == 1
    assert f"is still worth {loss('learned') / loss('learned', HALF) - 1:.1%}." in page
    own = [f"{loss(one) / loss(one, HALF) - 1:.1%}" for one in ("sigmoid", "none")]
    assert "ends {} above itself with it (softmax: {})".format(*own) in page
    assert best("sigmoid")["learning_rate"] == 0.001
    assert octaves(rates("none", HALF), root) == 1
    above = {
        (one, rule): f"{abs(loss(one, rule) / root['final_loss'] - 1):.1%}"
        for one in MECHANISMS
        for rule in (PLAIN, HALF)
    }
    below = " above the root, and with √d<sub>k</sub> {} below it"
    for told, *cases in (
        ("{}" + below, ("learned", PLAIN), ("learned", HALF)),
        ("{}" + below, ("norm", PLAIN), ("norm", HALF)),
        ("ends {} above the root, within noise", ("cap 50", PLAIN)),
        ("and ends {} above.", ("cap 5", PLAIN)),
        ("ends {} above the root, with it {}, within noise", ("sigmoid", PLAIN), ("sigmoid", HALF)),
    ):
        assert told.format(*(above[case] for case in cases)) in page, told
    wide = {one: loss(one, d_k=256) for one in ("learned", "norm", "sigmoid", "none")}
    of_wide = loss("none", HALF, d_k=256)
    far = {one: f"{found / of_wide - 1:.1%}" for one, found in wide.items()}
    assert (
        f"ends at {wide['learned']:.3f}, {far['learned']} above the root's {of_wide:.3f}, at the "
        f"highest rate tried; the fixed gain at {wide['norm']:.3f} ({far['norm']}), and the sigmoid "
        f"at {wide['sigmoid']:.3f} ({far['sigmoid']}). Plain softmax ends at {wide['none']:.3f}."
    ) in page
    assert best("learned", d_k=256)["learning_rate"] == rates("learned", d_k=256).index.max()
    spreads = [best("learned")[f"spread_{when}"] for when in ("before", "after")]
    assert "falls from {:.1f} to {:.1f}, and".format(*spreads) in page
    assert f"is {median('learned'):.3f} after training, below 10<sup>−10</sup>" in page
    assert median() < 1e-10
    assert f"(spread {best('norm')['spread_before']:.1f})" in page
    spreads = [rates(one)["spread_after"][0.004] for one in ("cap 50", "none")]
    assert (
        "(at a rate of 0.004, spread of scores before the cap {:.0f}, without it {:.0f})".format(
            *spreads
        )
        in page
    )


def test_cases_say_what_decoders_lose_without_the_divisor():
    def losses(*names):
        return [loss(one, rule) for rule in (PLAIN, HALF) for one in names]

    norm = (
        "ends at {0:.2f} nats and a gain of 1 at {1:.2f}; with it, at {3:.2f} and {4:.2f}, beside"
    )
    caps = (
        "of 50 ends at {:.2f} nats and one of 5 at {:.2f}, beside {:.2f} without a cap; with it, at"
    )
    sigmoid = "a decoder ends at {0:.2f} nats, with it at {2:.2f} (softmax: {1:.2f} and {3:.2f})"
    for heading, told, names in (
        ("QK-norm with a gain", norm + " {5:.2f}", ("learned", "norm", "none")),
        (
            "A soft cap on the scores",
            caps + " {:.2f} and {:.2f}, beside {:.2f}",
            ("cap 50", "cap 5", "none"),
        ),
        ("Sigmoid attention", sigmoid, ("sigmoid", "none")),
    ):
        assert told.format(*losses(*names)) in prose("docs/cases.md", heading), heading
    wide = loss("learned", d_k=256), loss("none", HALF, d_k=256)
    told = "At d_k = 256 without it, a learned gain ends at {:.2f}, beside {:.2f} of softmax"
    assert told.format(*wide) in prose("docs/cases.md", "QK-norm with a gain")


def test_docs_say_that_the_unscaled_decoder_does_not_catch_up():
    page = prose(TRAINING, "Does it catch up?")
    for rule in (PLAIN, HALF):
        losses = HISTORY.loc[rule, [400, 1000, 2000, 4000]].map("{:.3f}".format)
        assert f"| `{rule}` | {' | '.join(losses)} |" in page
    slow = [f"{loss('none', rule, **SLOW):.3f}" for rule in (PLAIN, HALF)]
    assert "the median loss is {} unscaled and {} under".format(*slow) in page
    better = loss(**LONG), loss("none", HALF, **LONG)
    told = f"{better[0] / better[1] - 1:.1%} above ({better[0]:.3f} and {better[1]:.3f}, medians"
    assert told in page
    found = [f"{excess(step, SLOW_HISTORY):.1%}" for step in (400, 4000)]
    assert "the excess is {} after 400 steps and {} after 4,000 (means)".format(*found) in page
    gaps = [HISTORY[step][PLAIN] - HISTORY[step][HALF] for step in (400, 4000)]
    assert "in nats it falls from {:.2f} to {:.2f}.".format(*gaps) in page
    root, plain = best("none", HALF, **BEST), best(**BEST)
    assert f"is {excess(400):.1%} above that under" in page
    assert f"and {excess(4000):.1%} after 4,000" in page
    assert HISTORY[1000][HALF] > HISTORY[4000][PLAIN] > HISTORY[1440][HALF]
    assert f"(medians: {plain['final_loss'] / root['final_loss'] - 1:.1%})" in page
    runs = [plain[f"final_loss{end}"] for end in ("_low", "", "_high")]  # all three
    assert "one of three does ({:.2f}, {:.2f} and {:.2f}).".format(*runs) in page
    assert runs[0] < 1.38 < runs[1] < 1.65
    assert root["final_loss_high"] < 1.38
    spreads = plain["spread_before"], plain["spread_after"], best()["spread_after"]
    assert "from {:.0f} to {:.0f} ({:.0f} after".format(*spreads) in page
    assert plain["max_weight_after"] > 0.99
    assert median(**BEST) < 1e-29
    heads = OF_FULL["language_long"]["heads"].query(f"scaling == '{HALF}'")
    spread = heads.pivot_table("spread", "layer", "step")
    growth = spread[4000] / spread[400] - 1
    after = root["spread_after"], growth.min() * 100, growth.max(), median("none", HALF, **BEST)
    told = "to {:.1f} (by {:.0f} to {:.0%} since step 400, by layer), and the median is {:.3f}."
    assert told.format(*after) in page
    normed = best("norm", **LONG)
    told = f"at {normed['final_loss']:.3f} (`language_long_norm`), with a spread of"
    assert f"{told} {normed['spread_after']:.1f}," in page
    assert normed["spread_after"] < best("norm")["spread_after"]


@pytest.mark.slow
def test_a_learned_gain_moves_towards_the_divisor():
    """The first of the shipped runs, without recording."""
    rules = tuple(map(Scaling.parse, (PLAIN, HALF)))
    cell = language.Cell(64, 64, 0.004, rules, normalize="rms", gain="learned")
    rng = Chunk(language.EXPERIMENT, cell, 0, 1).generator(0)
    start, shape = cell.start(rng), (cell.steps + 1, cell.n_sequences)
    places = rng.integers(len(language.trained_on()) - cell.n_keys, size=shape)
    *_, (_, decoder, _) = language.train(cell, next(cell.designs()), start, places)
    gains = [block.query_gain.item() for block in decoder.blocks]
    told = "end at {:.2f}, {:.2f}, {:.2f} and {:.2f} (1/√d".format(*gains)
    assert told in prose(TRAINING, "What else does the job?")


def test_readme_states_the_losses_of_the_second_study():
    readme = part("README.md")
    learned, fixed = (
        f"{loss(name):.2f} | {loss(name, HALF):.2f} |" for name in ("learned", "norm")
    )
    assert f"\\sqrt{{d_k}}$: {loss('none', HALF):.2f} | {learned}" in readme
    assert f"gain fixed at 1 (three runs) | {fixed}" in readme
    wide = loss("learned", d_k=256), loss("none", HALF, d_k=256)
    assert "(the highest of three rates) | {:.2f} | {:.2f} (softmax)".format(*wide) in readme
    plain, root = (loss("none", rule, **LONG) for rule in (PLAIN, HALF))
    assert f"the loss is {plain:.2f} without and {root:.2f} with the division" in readme
