"""Training: gradients of a layer against central differences, drawn tasks, and runs step by step by
hand.
"""

import itertools
import math

import numpy as np
import pytest

from sdpa import attention_gradients, scaled_dot_product_attention, training
from sdpa.training import (
    OPTIMIZERS,
    TASKS,
    Batch,
    Weights,
    accuracy,
    draw_batch,
    initial_weights,
    loss_and_gradients,
    loss_levels,
    train,
)

N_SEQUENCES, N_KEYS, D_MODEL, D_K, D_V, N_CLASSES = 2, 7, 5, 3, 13, 11  # of a layer
DIVISORS = (3.0, 1.0, 0.2)
ASKED = [1, 2]  # tokens of a query, as many as its target has classes


def batch_of(n_asked: int) -> Batch:
    """Random tokens and queries, and targets of one class or of two."""
    rng = np.random.default_rng(n_asked)
    targets = np.zeros((N_SEQUENCES, N_CLASSES))
    targets[0, [4, 9][:n_asked]] = targets[1, [0, 4][:n_asked]] = 1 / n_asked
    shapes = (N_SEQUENCES, N_KEYS, D_MODEL), (N_SEQUENCES, D_MODEL)
    return Batch(*map(rng.standard_normal, shapes), targets, n_asked)


@pytest.fixture
def weights() -> Weights:
    """Random weights, different ones for each divisor."""
    rng = np.random.default_rng(17)
    shapes = (D_MODEL, D_K), (D_MODEL, D_K), (D_MODEL, D_V), (D_V, N_CLASSES)
    drawn = Weights(*(rng.standard_normal((len(DIVISORS), *shape)) for shape in shapes))
    return drawn._replace(W_Q=0.3 * drawn.W_Q)


def layers_of(weights: Weights) -> list[Weights]:
    """The weights of each layer alone."""
    return [Weights(*arrays) for arrays in zip(*weights, strict=True)]


def assert_gradients(gradients: Weights, weights: Weights, batch: Batch) -> None:
    """Each gradient of each layer against central differences of its mean loss, within 1e-6 of the
    largest entry.

    Rounding changes a difference by about 1e-10, a millionth of the smallest of these largest
    entries.
    """
    step = 1e-5
    for name, array in weights._asdict().items():
        differences = np.empty_like(array)
        for index in np.ndindex(array.shape[1:]):
            shift = np.zeros_like(array)
            shift[:, *index] = step  # of all layers at once: none sees the weights of another
            high, low = (
                loss_and_gradients(weights._replace(**{name: moved}), batch, DIVISORS).losses.mean(
                    axis=-1
                )
                for moved in (array + shift, array - shift)
            )
            differences[:, *index] = (high - low) / (2 * step)
        for layer, (found, expected) in enumerate(
            zip(getattr(gradients, name), differences, strict=True)
        ):
            scale = np.abs(expected).max()
            assert scale > 1e-4, f"{name} of layer {layer}: too small for differences"
            np.testing.assert_allclose(
                found, expected, rtol=0, atol=1e-6 * scale, err_msg=f"{name} of layer {layer}"
            )


@pytest.mark.parametrize("n_asked", ASKED)
def test_gradients_of_unsaturated_and_saturated_rows_equal_central_differences(weights, n_asked):
    batch = batch_of(n_asked)
    step = loss_and_gradients(weights, batch, DIVISORS)
    assert_gradients(step.gradients, weights, batch)
    largest = step.weights.max(axis=-1)
    assert largest[0].max() < 0.5
    assert largest[-1].max() > 0.99


@pytest.mark.parametrize("layer", range(len(DIVISORS)))
@pytest.mark.parametrize("name", Weights._fields)
def test_a_planted_sign_error_is_found(weights, name, layer):
    batch = batch_of(2)
    gradients = loss_and_gradients(weights, batch, DIVISORS).gradients
    getattr(gradients, name)[layer] *= -1
    with pytest.raises(AssertionError, match=f"{name} of layer {layer}"):
        assert_gradients(gradients, weights, batch)


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("n_asked", ASKED)
def test_it_is_attention_with_explicit_keys_and_values(weights, n_asked, scale):
    """Up to rows whose other weights are 1e-99."""
    weights, batch = weights._replace(W_Q=scale * weights.W_Q), batch_of(n_asked)
    found = loss_and_gradients(weights, batch, DIVISORS)
    for i, (layer, divisor) in enumerate(zip(layers_of(weights), DIVISORS, strict=True)):
        gradients = Weights(*map(np.zeros_like, layer))
        for n, (tokens, query, target) in enumerate(zip(*batch[:3], strict=True)):
            q, k, v = query[None] @ layer.W_Q, tokens @ layer.W_K, tokens @ layer.W_V
            output, rows = scaled_dot_product_attention(
                q, k, v, scaling=divisor, return_weights=True
            )
            to_logits = np.exp(output @ layer.W_O) / np.exp(output @ layer.W_O).sum() - target
            back = attention_gradients(q, k, v, to_logits @ layer.W_O.T, scaling=divisor)
            of_sequence = (
                query[:, None] @ back.q,
                tokens.T @ back.k,
                tokens.T @ back.v,
                output.T @ to_logits,
            )
            for total, gradient in zip(gradients, of_sequence, strict=True):
                total += gradient / N_SEQUENCES
            np.testing.assert_allclose(found.q[i, n], q[0], rtol=1e-12)
            np.testing.assert_allclose(found.scores[i, n], (q @ k.T / divisor)[0], rtol=1e-11)
            np.testing.assert_allclose(found.weights[i, n], rows[0], rtol=1e-10)
            np.testing.assert_allclose(found.logits[i, n], (output @ layer.W_O)[0], rtol=1e-11)
            np.testing.assert_allclose(found.score_gradients[i, n], back.scores[0], rtol=1e-9)
        for name, expected in gradients._asdict().items():
            scale = np.abs(expected).max()
            np.testing.assert_allclose(
                getattr(found.gradients, name)[i], expected, rtol=1e-9, atol=1e-12 * scale
            )


@pytest.mark.parametrize("d_k", [1, 7, 64, 512])
def test_layers_side_by_side_are_each_layer_alone_to_the_bit(d_k):
    rng = np.random.default_rng(d_k)
    batch, drawn = (
        draw_batch(rng, "pair", 13, 11),
        [initial_weights(rng, d_k, "unit") for _ in DIVISORS],
    )
    together = loss_and_gradients(
        Weights(*map(np.stack, zip(*drawn, strict=True))), batch, DIVISORS
    )
    for i, (layer, divisor) in enumerate(zip(drawn, DIVISORS, strict=True)):
        alone = loss_and_gradients(layer, batch, divisor)
        for name in ("losses", "logits", "q", "scores", "weights", "score_gradients"):
            np.testing.assert_array_equal(
                getattr(alone, name), getattr(together, name)[i], strict=True
            )
        for one, other in zip(alone.gradients, together.gradients, strict=True):
            np.testing.assert_array_equal(one, other[i], strict=True)


OF_TASK = {"recall": 1, "pair": 2}
SIDE = training.D_MODEL - training.N_CLASSES  # features of a key


@pytest.fixture(params=TASKS)
def task(request) -> str:
    return request.param


def parts(task, n_keys=7, seed=3):
    """A batch, the keys of its tokens and their classes, read from the tokens."""
    batch = draw_batch(np.random.default_rng(seed), task, 9973, n_keys)
    return batch, batch.tokens[..., :SIDE], batch.tokens[..., SIDE:].argmax(axis=-1)


def assert_mean(values, expected):
    """Within 5 standard errors: a false alarm for one mean in 1.7 million, if the seed changed."""
    values = np.asarray(values, dtype=float)
    assert (
        np.abs(values.mean(axis=0) - expected) <= 5 * values.std(axis=0) / math.sqrt(len(values))
    ).all()


def test_keys_point_anywhere_and_classes_are_as_frequent_as_each_other(task):
    """About 1,100 different means of independent sequences: one seed in 1,500 fails."""
    _, keys, classes = parts(task)
    assert_mean(keys, 0)
    assert_mean(keys**2, 1)
    for shift in range(1, SIDE):
        assert_mean(keys * np.roll(keys, shift, axis=-1), 0)
    assert_mean(np.eye(8)[classes], 1 / 8)
    assert_mean(classes[:, 2] == classes[:, 0], 1 / 8)


def test_a_target_is_the_classes_of_the_tokens_asked_for(task):
    batch, _, classes = parts(task)
    assert batch.n_asked == OF_TASK[task]
    for target, of_tokens in zip(batch.targets.tolist(), classes.tolist(), strict=True):
        asked = of_tokens[: OF_TASK[task]]
        assert target == [asked.count(c) / len(asked) for c in range(8)]


@pytest.mark.parametrize("n_keys", [2, 7])
def test_the_classes_of_a_pair_differ_and_each_other_class_is_as_frequent(n_keys):
    _, _, classes = parts("pair", n_keys)
    apart = (classes[:, 1] - classes[:, 0]) % 8
    assert apart.min() == 1
    assert_mean(np.eye(8)[apart][:, 1:], 1 / 7)


def test_a_query_is_a_noisy_copy_without_a_class(task):
    """Its noise has a tenth of the deviation of the copy, and is independent of all keys."""
    batch, keys, _ = parts(task)
    copies = keys[:, : OF_TASK[task]].sum(axis=1) / math.sqrt(OF_TASK[task])
    noise = batch.queries[:, :SIDE] * math.sqrt(1.01) - copies
    assert_mean(noise, 0)
    assert_mean(noise**2, 0.01)
    assert_mean(noise * np.roll(noise, 1, axis=-1), 0)
    assert_mean(np.vecdot(noise[:, None], keys), 0)
    assert_mean(batch.queries[:, :SIDE] ** 2, 1)
    assert not batch.queries[:, SIDE:].any()


@pytest.mark.parametrize(
    ("logits", "target", "expected"),
    [
        ([3.0, 1.0, 2.0], [1, 0, 0], 1.0),
        ([3.0, 1.0, 2.0], [0, 0, 1], 0.0),
        ([2.0, 1.0, 2.0], [1, 0, 0], 0.0),  # a tie decides nothing
        ([0.0, 0.0, 0.0], [0, 1, 0], 0.0),
        ([3.0, 1.0, 2.0], [0.5, 0, 0.5], 1.0),
        ([2.0, 1.0, 2.0], [0.5, 0, 0.5], 1.0),  # but within the target
        ([3.0, 2.0, 2.0], [0.5, 0, 0.5], 0.0),
        ([3.0, 1.0, 2.0], [0.5, 0.5, 0], 0.0),
    ],
)
def test_accuracy_by_hand(logits, target, expected):
    assert accuracy(np.array([logits]), np.array([target])) == expected


@pytest.mark.parametrize("task", TASKS)
def test_levels_are_the_least_losses_of_what_a_row_shows(task):
    """The least cross-entropy of a prediction from some knowledge is that of the mean target given
    it.
    """
    classes = list(itertools.permutations(range(training.N_CLASSES), OF_TASK[task]))
    targets = np.array(
        [np.bincount(own, minlength=training.N_CLASSES) / len(own) for own in classes]
    )

    def least(known):
        losses = []
        for value in set(known):
            same = targets[[other == value for other in known]]
            mean = same.mean(axis=0)
            losses += [-(row[row > 0] @ np.log(mean[row > 0])) for row in same]
        return np.mean(losses)

    shown = {
        "best row": [frozenset(own) for own in classes],
        "one-hot row": [own[0] for own in classes],
        "guess": [None for _ in classes],
    }
    assert loss_levels(task) == pytest.approx(
        {name: least(known) for name, known in shown.items()}, abs=1e-12
    )


RULES = (1.0, math.sqrt(11), 11.0)
OPTIONS = {"optimizer": "adam", "learning_rate": 0.03, "steps": 13, "n_sequences": 7}


def states(divisors, seed=0, task="recall", d_k=11, **options):
    """The steps, weights, losses and ends of a run; copies, since a step changes the weights in
    place.
    """
    for run in train(np.random.default_rng(seed), task, d_k, 5, divisors, **OPTIONS | options):
        yield run.step, [array.copy() for array in run.weights], run.at.losses, run.has_ended


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("initial", "query", "key"), [("unit", 1.0, 1.0), ("small", 16 * 4e-4, 24 * 4e-4)]
)
def test_entries_of_initial_queries_and_keys_have_their_variance(task, initial, query, key):
    """Mean squares of 500 pairs of weights and batches, within 5 standard errors: 1 of 1.7 million
    seeds fails one.
    """
    rng = np.random.default_rng(7)
    found = []
    for _ in range(500):
        weights, batch = initial_weights(rng, 11, initial), draw_batch(rng, task, 7, 5)
        rows = batch.queries @ weights.W_Q, batch.tokens @ weights.W_K
        found.append([*(row.mean() for row in rows), *((row**2).mean() for row in rows)])
    for values, expected in zip(np.transpose(found), (0, 0, query, key), strict=True):
        assert abs(values.mean() - expected) <= 5 * values.std() / math.sqrt(500)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("task", TASKS)
def test_a_run_is_steps_from_one_draw_of_weights_along_a_batch_each(task, optimizer):
    rng = np.random.default_rng(3)
    one = initial_weights(rng, 11, "small")
    weights = Weights(*(np.stack([array] * 3) for array in one))
    descend = OPTIMIZERS[optimizer](weights, [0.03] * 4)
    runs = train(
        np.random.default_rng(3),
        task,
        11,
        5,
        RULES,
        **OPTIONS | {"optimizer": optimizer, "initial": "small"},
    )
    for step, run in enumerate(runs):
        batch = draw_batch(rng, task, 7, 5)
        at = loss_and_gradients(weights, batch, RULES)
        np.testing.assert_array_equal(run.batch.tokens, batch.tokens)
        np.testing.assert_array_equal(run.at.losses, at.losses)
        for found, expected in zip(run.weights, weights, strict=True):
            np.testing.assert_array_equal(found, expected)
        assert run.step == step
        assert not run.has_ended.any()
        descend(at.gradients)
    assert step == OPTIONS["steps"]


C = math.sqrt(
    11
)  # the divisor in place of which W_Q starts at 1/a and W_K at 1/b of its size, with ab = C
SPLITS = {"both": (math.sqrt(C), math.sqrt(C)), "W_Q alone": (C, 1.0), "uneven": (0.5, 2 * C)}
POWERS = {"sgd": 2, "adam": 1}  # of a and b, by which their learning rates are divided
RATES = {"sgd": 0.3, "adam": 0.003}


def losses_of(optimizer, divisor, starts=(1.0, 1.0), slower=(1.0, 1.0)) -> np.ndarray:
    """The mean losses of 121 batches, where W_Q and W_K start divided by `starts`, and their rates
    by `slower`.
    """
    rng, rate = np.random.default_rng(5), RATES[optimizer]
    one, losses = initial_weights(rng, 11, "unit"), []
    weights = one._replace(W_Q=one.W_Q / starts[0], W_K=one.W_K / starts[1])
    descend = OPTIMIZERS[optimizer](weights, [rate / slower[0], rate / slower[1], rate, rate])
    for _ in range(121):
        at = loss_and_gradients(weights, batch := draw_batch(rng, "pair", 23, 7), divisor)
        losses.append(at.losses.mean())
        descend(at.gradients)
    assert len(batch.tokens) == 23
    assert np.ptp(losses) > 0.3  # it does learn
    return np.array(losses)


def distance(optimizer, starts, slower) -> float:
    return np.abs(losses_of(optimizer, 1.0, starts, slower) - losses_of(optimizer, C)).max()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("split", SPLITS)
def test_a_divisor_is_a_smaller_start_and_a_smaller_rate(optimizer, split, monkeypatch):
    """Losses of 120 steps are equal to rounding, for Adam with an epsilon that no gradient feels.

    They differ by more than 0.05 if one factor is left out, or has the power of the other
    optimizer.
    """
    monkeypatch.setattr(training, "_EPS", 1e-30)
    starts, power = SPLITS[split], POWERS[optimizer]
    assert distance(optimizer, starts, [x**power for x in starts]) < 1e-12
    other = [x ** (3 - power) for x in starts]
    for wrong in ((1.0, 1.0), starts), (starts, (1.0, 1.0)), (starts, other):
        assert distance(optimizer, *wrong) > 0.05


def test_with_the_usual_epsilon_it_holds_up_to_a_multiple_of_epsilon(monkeypatch):
    """The r.m.s. gradients of entries are 0.007 or more, so epsilon shortens steps by a share of up
    to 1.4e-6.

    It moves a loss that falls by less than 1 by about that share of its fall, and in proportion to
    epsilon.
    """
    both = SPLITS["both"]
    usual = distance("adam", both, both)
    assert 0 < usual < 2e-6
    monkeypatch.setattr(training, "_EPS", 1e-9)
    assert distance("adam", both, both) == pytest.approx(usual / 10, rel=0.1)


def trusting(gradient, weights):
    """A gradient with the norm of its matrix, as LARS steps; LAMB does the same to Adam's steps,
    here of one sign.
    """
    return gradient * np.linalg.norm(weights) / np.linalg.norm(gradient)


def orthogonal(gradient, _):
    """A gradient on its way to the nearest orthogonal matrix, by five steps of Newton and Schulz,
    as Muon steps.
    """
    matrix = gradient / np.linalg.norm(gradient)
    for _ in range(5):
        matrix = 1.5 * matrix - 0.5 * matrix @ matrix.T @ matrix
    return matrix


@pytest.mark.parametrize(
    ("step", "rate", "power"),
    [
        (trusting, 0.01, 0),
        (lambda gradient, weights: trusting(np.sign(gradient), weights), 0.01, 0),
        (orthogonal, 0.01, 1),
    ],
    ids=["lars", "lamb", "muon"],
)
def test_other_optimizers_need_the_rates_of_the_docs(step, rate, power, monkeypatch):
    """docs/theory.md: trust ratios scale steps with the matrix, so that rates stay; Muon's are
    divided as Adam's.
    """

    def descend(weights, rates):
        def one(gradients):
            for array, gradient, own in zip(weights, gradients, rates, strict=True):
                array -= own * step(gradient, array)

        return one

    monkeypatch.setitem(OPTIMIZERS, "other", descend)
    monkeypatch.setitem(RATES, "other", rate)
    starts = SPLITS["both"]
    assert distance("other", starts, [x**power for x in starts]) < 1e-9
    assert distance("other", starts, [x ** (1 - power) for x in starts]) > 0.02


# The first run ends after 26 of these steps; the others would take more than 40.
BLOWING_UP = {"seed": 2, "d_k": 64, "optimizer": "sgd", "learning_rate": 4.0, "steps": 33}


def test_a_run_that_blows_up_ends_while_the_others_go_on():
    """Its weights are 0 from then on, and its loss ln 8."""
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = list(states(RULES, **BLOWING_UP))
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
    arrays, gradients = (
        drawn(0),
        [[size * array for array in drawn(1 + step)] for step in range(N_STEPS)],
    )
    expected = [
        [
            TEXTBOOK[name](weight, numbers)
            for weight, *numbers in zip(*(x.ravel().tolist() for x in each), strict=True)
        ]
        for each in zip(arrays, *gradients, strict=True)
    ]
    descend = OPTIMIZERS[name](arrays, [RATE] * len(SHAPES))
    for each in gradients:
        descend(each)
    for found, numbers in zip(arrays, expected, strict=True):  # the arrays themselves have changed
        np.testing.assert_allclose(found.ravel(), numbers, rtol=1e-12, atol=1e-15)
