"""Training of a decoder: symmetry, records, clipping and the end of a run."""

import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from experiments.kinds.language import cell as language
from experiments.kinds.language import corpus
from experiments.kinds.language.cell import Cell, run
from experiments.kinds.language.tables import bands
from experiments.measuring.chunk import Chunk
from experiments.tables.results import SweepAxes
from sdpa import Scaling, entropy, softmax
from sdpa.decoder import losses
from sdpa.row_maps import PLAIN as PLAIN_ROWS
from tests.prose import agrees, numbers

PLAIN, QUARTER, ROOT = map(Scaling.parse, ("unscaled", "d_k^1/4", "d_k^1/2"))
SMALL = Cell(
    d_k=256, n_keys=12, learning_rate=0.01, scaling=(ROOT,), layers=2, width=8, steps=25, warmup=5
)


def _states(cell, rng=None, end=10_000):
    """The states of a run under the first rule of a cell, with copies of its decoder."""
    rng = rng or default_rng(0)
    start = cell.start(rng)
    places = rng.integers(end, size=(cell.steps + 1, cell.n_sequences))
    design, *_ = cell.designs()
    for step, decoder, done in run(cell, design, start, places):
        yield step, decoder.copy(), done


def _losses(cell):
    return np.array([done.losses.mean() for _, _, done in _states(cell)])


@pytest.mark.parametrize("initial, of_queries", [("unit", 1 / 8), ("small", 0.02)])
def test_a_start_is_that_of_its_definition(initial, of_queries):
    """At width 64, with two blocks: W_O and the last matrix of the MLP are divided by 2."""
    cell = replace(SMALL, width=64, initial=initial)
    (design,) = cell.designs()
    assert design.rope_base == 10_000
    start = cell.start(default_rng(0))
    state = vars(start.blocks[1]) | vars(start)
    of_block = {"value": 1 / 8, "output": 1 / 16, "up": 1 / 8, "down": 1 / 32}
    expected = of_block | {
        "query": of_queries,
        "key": of_queries,
        "embedding": 1,
        "unembedding": 0.02,
    }
    deviations = {name: state[name].std() for name in expected}
    assert deviations == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    "optimizer, learning_rate, rate", [("adam", 0.01, QUARTER), ("momentum", 1.0, ROOT)]
)
def test_a_divisor_is_a_smaller_start_and_rate(optimizer, learning_rate, rate):
    divided = replace(SMALL, optimizer=optimizer, learning_rate=learning_rate)
    plain = replace(divided, scaling=(PLAIN,), initial_divisor=QUARTER, rate_divisor=rate)
    expected = _losses(divided)
    assert expected[-1] < expected[0] - 1
    assert_allclose(_losses(plain), expected, rtol=1e-5)
    for part in ("initial_divisor", "rate_divisor"):  # neither is enough alone
        alone = _losses(replace(plain, **{part: PLAIN}))
        assert np.abs(alone - expected).max() > 0.01


def test_records_are_those_of_the_batch():
    cell = replace(SMALL, n_heads=2, scaling=(PLAIN,))
    _, _, state = next(_states(cell))
    heads = language.head_values(state, PLAIN_ROWS)
    assert heads.shape == (2, 2, 5)
    step, to_q = state.steps[1], state.to_blocks[1].q[:, 1]
    causal = [row[: i + 1] for scores in step.scaled[:, 1] for i, row in enumerate(scores) if i]
    spread = np.sqrt(np.mean([np.var(row) for row in causal]))
    weights = [softmax(row) for row in causal]
    shares = [entropy(row) / np.log(len(row)) for row in weights]
    largest = np.mean([row.max() for row in weights])
    lengths = np.sqrt((to_q.astype(float) ** 2).sum(axis=-1))
    of_lengths = np.sqrt((lengths**2).mean()), np.median(lengths)
    expected = [spread, np.mean(shares), largest, *of_lengths]
    assert_allclose(heads[1, 1], expected, rtol=1e-5)


def test_a_clipped_step_has_the_norm_of_the_limit():
    cell = replace(SMALL, optimizer="momentum", warmup=0, clip=0.01, learning_rate=1.0)
    moved = [
        np.concatenate([array.ravel() for _, array in decoder.arrays()])
        for _, (_, decoder, _) in zip(range(2), _states(cell), strict=False)
    ]
    assert np.linalg.norm(moved[1] - moved[0]) == pytest.approx(0.01, rel=1e-3)


def test_the_learning_rate_rises_over_the_warmup():
    cell = replace(SMALL, warmup=4, optimizer="adam", learning_rate=0.004)
    unembedding = [decoder.unembedding for _, decoder, _ in _states(cell)]
    change = np.abs(np.diff(unembedding[:2], axis=0)).max()
    assert change == pytest.approx(0.001, rel=1e-3)  # a first step of Adam is the rate


def test_a_decaying_rate_falls_linearly_to_0():
    """Without momentum's first step, a step of Adam is the rate while gradients keep their signs."""
    recipe = replace(SMALL, steps=50, warmup=10, decay="linear").recipe()
    shares = [recipe.share(step) for step in (0, 9, 10, 30, 49, 50)]
    assert shares == pytest.approx([0.1, 1, 1, 0.5, 1 / 40, 0])


def test_a_divisor_of_one_pass_alone():
    """Divided in both passes by hand, a decoder is the one with the rule; forward alone has its losses at
    the start, and gradients at q that are larger by the divisor.
    """

    def first(cell):
        return next(_states(cell))[2]

    divided, plain = first(SMALL), first(replace(SMALL, scaling=(PLAIN,)))
    forward = first(replace(SMALL, gradient_divisor=Scaling.parse("0.0625")))
    backward = first(replace(SMALL, scaling=(PLAIN,), gradient_divisor=ROOT))
    top = -1  # the block whose gradient passes through no other
    for one, other, factor in ((forward, divided, 16), (backward, plain, 1 / 16)):
        assert_array_equal(one.losses, other.losses)
        q, expected = one.to_blocks[top].q, factor * other.to_blocks[top].q
        assert_allclose(q, expected, rtol=1e-4, atol=1e-9)


def test_careful_readings_are_of_all_text_in_double_precision():
    cell = replace(SMALL, scaling=(PLAIN,), readings="careful", n_keys=64)
    careful, quick = (
        language.measure(one, 1, default_rng(0)) for one in (cell, replace(cell, readings="quick"))
    )
    assert_array_equal(careful.run_values[..., :-1, :], quick.run_values[..., :-1, :])
    assert_allclose(careful.head_values, quick.head_values, rtol=1e-3, atol=1e-8)
    assert (careful.head_values[..., -1, :, :, :] != quick.head_values[..., -1, :, :, :]).all()

    *_, (_, decoder, _) = _states(cell, end=len(corpus.trained_on("python")) - 64)
    (design,) = cell.designs()
    rest = corpus.held_out("python")
    firsts = range(0, len(rest) - 64, 64)
    expected = [losses(decoder, rest[None, i : i + 65], design).mean() for i in firsts]
    assert careful.run_values[0, 0, -1, 0] == pytest.approx(np.mean(expected), rel=1e-6)


def test_a_run_that_leaves_the_range_of_numbers_ends():
    cell = replace(SMALL, optimizer="momentum", learning_rate=1e5, scaling=(PLAIN, ROOT))
    chunks = [Chunk(language.EXPERIMENT, cell, i, 1, seed=0).measure() for i in range(2)]
    rows = language.EXPERIMENT.tabulate(cell, chunks[0].merge(chunks[1]))
    assert [row["final_loss"] for row in rows["measured"]] == [100, 100]
    assert [row["diverged"] for row in rows["measured"]] == [1, 1]
    assert all(np.isfinite(row["query_gradient"]) for row in rows["heads"])


@pytest.mark.parametrize("name", ["python", "scipy"])
def test_the_loss_is_that_of_text_no_batch_has(name):
    trained, rest = corpus.trained_on(name), corpus.held_out(name)
    characters = corpus.characters(name)
    text = "".join(characters[token] for token in np.concatenate([trained, rest]))
    assert text == corpus.text(name)
    assert len(rest) == pytest.approx(len(text) / 10, rel=0.01)
    stretches = corpus.held_out_stretches(name, 64)
    assert stretches.shape == (32, 65)
    assert stretches[-1].tolist() == rest[-65:].tolist()
    predicted = corpus.all_held_out(name, 64)[:, 1:].ravel()
    assert predicted.tolist() == rest[1 : len(predicted) + 1].tolist()
    assert len(rest) - 65 <= len(predicted) < len(rest)


def test_counts_of_characters_have_the_losses_that_docs_say(monkeypatch):
    """Counts of 2 to 4 characters in the text that decoders learn, 0.005 added to each, at the tested
    characters.
    """
    text = corpus.text("python")
    n = len(corpus.trained_on("python"))
    monkeypatch.setattr(corpus, "held_out", lambda _: np.arange(n, len(text)))
    places = corpus.held_out_stretches.__wrapped__("python", 64)[:, 1:].ravel()
    counts = Counter(text[i : i + size] for size in range(1, 5) for i in range(n + 1 - size))
    rest = 0.005 * len({*text})
    losses = []
    for length in (2, 3, 4):
        tested = [text[i + 1 - length : i + 1] for i in places]
        shares = [(counts[each] + 0.005) / (counts[each[:-1]] + rest) for each in tested]
        losses.append(-np.log(shares).mean())
    (printed,) = numbers("(0.005 added to each) have #, # and # nats")
    assert [*map(agrees, printed, losses)] == [True] * 3


@pytest.mark.slow
def test_a_learned_gain_moves_towards_the_divisor():
    """The first of the shipped runs, without recording."""
    cell = Cell(64, 64, 0.004, (PLAIN, ROOT), normalize="rms", gain="learned")
    rng = Chunk(language.EXPERIMENT, cell, 0, 1, seed=0).generator()
    *_, (_, decoder, _) = _states(cell, rng, len(corpus.trained_on(cell.text)) - cell.n_keys)
    gains = [block.query_gain.item() for block in decoder.blocks]
    (printed,) = numbers("the gains of the four layers end at #, #, # and #")
    assert [*map(agrees, printed, gains)] == [True] * 4


def rates_table(losses):
    """A main table of one rule: the losses by rate."""
    places = np.arange(len(losses))
    rows = pd.DataFrame({"learning_rate": 0.01 * 2.0**places})
    return rows.assign(
        final_loss=losses,
        final_loss_low=1.5,
        final_loss_high=9.5,
        diverged=places / 9,
        trials=9,
        d_k=7,
        scaling="d_k^1/2",
        exponent=0.5,
        divisor=math.sqrt(7),
    )


@pytest.mark.parametrize(
    "losses, best, band, octaves",
    [
        ((2.0, 1.5, 1.5149, 1.6), 1, (1, 2), 1),
        ((2.0, 1.5, 1.5151, 1.5), 1, (1, 1), 0),  # a gap ends the band; of equals, the first
        ((1.3, 1.2, 1.1), 2, (2, 2), 0),
        ((1.0, 1.01, 1.0), 0, (0, 2), 2),
    ],
)
def test_the_best_rate_has_the_least_loss_and_the_band_lies_around_it(losses, best, band, octaves):
    table = rates_table(losses)
    rates = table["learning_rate"]
    in_reverse = table.iloc[::-1]
    results = SimpleNamespace(measured=in_reverse, axes=SweepAxes.of_cell(Cell))
    (actual,) = bands(results).to_dict("records")
    assert (actual["best_rate"], actual["final_loss"]) == (rates[best], losses[best])
    assert (actual["band_from"], actual["band_to"]) == tuple(rates[list(band)])
    assert (actual["octaves"], actual["diverged_least"]) == (octaves, 0)
