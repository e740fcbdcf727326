"""A run of training: its initial weights and draws, one rule beside others, and runs that blow up."""

import math

import numpy as np
import pytest

from sdpa.training import OPTIMIZERS, TASKS, Weights, draw_batch, initial_weights, loss_and_gradients, train

N_SEQUENCES, N_KEYS, D_K = 7, 5, 11
DIVISORS = (1.0, math.sqrt(11), 11.0)
OPTIONS = {"optimizer": "adam", "learning_rate": 0.03, "steps": 13, "n_sequences": N_SEQUENCES}


def states(divisors, seed=0, task="recall", d_k=D_K, **options):
    """The steps, weights, losses and ends of a run; copies, since a step changes the weights in place."""
    for run in train(np.random.default_rng(seed), task, d_k, N_KEYS, divisors, **OPTIONS | options):
        yield run.step, [array.copy() for array in run.weights], run.at.losses, run.has_ended


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("initial", "query", "key"), [("unit", 1.0, 1.0), ("small", 16 * 4e-4, 24 * 4e-4)])
def test_entries_of_initial_queries_and_keys_have_their_variance(task, initial, query, key):
    """Mean squares of 500 pairs of weights and batches, within 5 standard errors: 1 of 1.7 million seeds fails one."""
    rng = np.random.default_rng(7)
    found = []
    for _ in range(500):
        weights, batch = initial_weights(rng, D_K, initial), draw_batch(rng, task, N_SEQUENCES, N_KEYS)
        rows = batch.queries @ weights.W_Q, batch.tokens @ weights.W_K
        found.append([*(row.mean() for row in rows), *((row**2).mean() for row in rows)])
    for values, expected in zip(np.transpose(found), (0, 0, query, key), strict=True):
        assert abs(values.mean() - expected) <= 5 * values.std() / math.sqrt(500)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("task", TASKS)
def test_a_run_is_steps_from_one_draw_of_weights_along_a_batch_each(task, optimizer):
    rng = np.random.default_rng(3)
    one = initial_weights(rng, D_K, "small")
    weights = Weights(*(np.stack([array] * 3) for array in one))
    descend = OPTIMIZERS[optimizer](weights, 0.03)
    runs = train(
        np.random.default_rng(3), task, D_K, N_KEYS, DIVISORS, **OPTIONS | {"optimizer": optimizer, "initial": "small"}
    )
    for step, run in enumerate(runs):
        batch = draw_batch(rng, task, N_SEQUENCES, N_KEYS)
        at = loss_and_gradients(weights, batch, DIVISORS)
        np.testing.assert_array_equal(run.batch.tokens, batch.tokens)
        np.testing.assert_array_equal(run.at.losses, at.losses)
        for found, expected in zip(run.weights, weights, strict=True):
            np.testing.assert_array_equal(found, expected)
        assert run.step == step
        assert not run.has_ended.any()
        descend(at.gradients)
    assert step == OPTIONS["steps"]


# The first run ends after 26 of these steps; the others would take more than 40.
BLOWING_UP = {"seed": 2, "d_k": 64, "optimizer": "sgd", "learning_rate": 4.0, "steps": 33}


@pytest.mark.parametrize("options", [{}, {"optimizer": "sgd"}, {"d_k": 512}, BLOWING_UP], ids=str)
def test_a_run_beside_others_is_the_run_alone_to_the_bit(options):
    together = list(states(DIVISORS, **options))
    for i, divisor in enumerate(DIVISORS):
        for one, other in zip(states([divisor], **options), together, strict=True):
            for alone, beside in zip([*one[1], *one[2:]], [*other[1], *other[2:]], strict=True):
                np.testing.assert_array_equal(alone[0], beside[i], strict=True)


def test_a_run_that_blows_up_ends_while_the_others_go_on():
    """Its weights are 0 from then on, and its loss ln 8."""
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = list(states(DIVISORS, **BLOWING_UP))
    ends = np.array([ended for *_, ended in found])
    assert not ends[:20].any()
    assert ends[-1].tolist() == [True, False, False]
    assert (ends[:-1] <= ends[1:]).all()
    for _, weights, losses, ended in found:
        for array in weights:
            assert not array[ended].any()
            assert (np.abs(array[~ended]).max(axis=(-2, -1)) <= 1e25).all()
            assert array[~ended].any(axis=(-2, -1)).all()
        np.testing.assert_allclose(losses[ended], math.log(8), rtol=1e-12)
    assert max(losses[0].mean() for *_, losses, _ in found) > 1e10


SHAPES = (2, 3, 5), (7,)
N_STEPS = 11
RATE = 0.03


def sgd(weight, gradients):
    for gradient in gradients:
        weight -= RATE * gradient
    return weight


def adam(weight, gradients):
    """Algorithm 1 of Kingma and Ba (2015), with its constants."""
    m = v = 0.0
    for t, gradient in enumerate(gradients, 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        weight -= RATE * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return weight


TEXTBOOK = {"adam": adam, "sgd": sgd}


def drawn(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in SHAPES]


@pytest.mark.parametrize("size", [1.0, 1e-8, 1e60, 0.0])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_the_textbook(name, size):
    """Among them gradients as small as Adam's epsilon, and 0, which changes nothing."""
    arrays, gradients = drawn(0), [[size * array for array in drawn(1 + step)] for step in range(N_STEPS)]
    expected = [
        [TEXTBOOK[name](weight, numbers) for weight, *numbers in zip(*(x.ravel().tolist() for x in each), strict=True)]
        for each in zip(arrays, *gradients, strict=True)
    ]
    descend = OPTIMIZERS[name](arrays, RATE)
    for each in gradients:
        descend(each)
    for found, numbers in zip(arrays, expected, strict=True):  # the arrays themselves have changed
        np.testing.assert_allclose(found.ravel(), numbers, rtol=1e-12, atol=1e-15)
