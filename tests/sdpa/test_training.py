"""Training: gradients of a layer against central differences, drawn tasks, and runs step by step by
hand.
"""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

from sdpa import attention_gradients, scaled_dot_product_attention, softmax, training
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


def central_differences(weights: Weights, batch: Batch, name: str) -> np.ndarray:
    """The gradient of the mean loss of each layer to one of the weights."""
    array = getattr(weights, name)
    step = 1e-5

    def losses(moved):
        found = loss_and_gradients(weights._replace(**{name: moved}), batch, DIVISORS)
        return found.losses.mean(axis=-1)

    differences = np.empty_like(array)
    for index in np.ndindex(array.shape[1:]):
        shift = np.zeros_like(array)
        shift[:, *index] = step  # of all layers at once: none sees the weights of another
        change = losses(array + shift) - losses(array - shift)
        differences[:, *index] = change / (2 * step)
    return differences


def largest_errors(found, expected):
    """Of each layer, over its largest entry."""
    scale = np.abs(expected).max(axis=(1, 2))
    return np.abs(found - expected).max(axis=(1, 2)) / scale


@pytest.mark.parametrize("n_asked", ASKED)
@pytest.mark.parametrize("name", Weights._fields)
def test_gradients_of_unsaturated_and_saturated_rows_equal_central_differences(
    weights, name, n_asked
):
    """Of each layer within 1e-6 of the largest entry.

    Rounding changes a difference by about 1e-10, a millionth of the smallest of these largest
    entries.
    """
    batch = batch_of(n_asked)
    found = loss_and_gradients(weights, batch, DIVISORS)
    expected = central_differences(weights, batch, name)
    assert np.abs(expected).max(axis=(1, 2)).min() > 1e-4
    gradient = getattr(found.gradients, name)
    assert (largest_errors(gradient, expected) < 1e-6).all()
    assert (largest_errors(-gradient, expected) > 1).all()  # a planted error of sign
    largest = found.weights.max(axis=-1)
    assert largest[0].max() < 0.5
    assert largest[-1].max() > 0.99


@pytest.mark.parametrize(("n_asked", "scale"), [(1, 30.0), (2, 1.0)])
def test_it_is_attention_with_explicit_keys_and_values(weights, n_asked, scale):
    """Up to rows whose other weights are 1e-99."""
    weights = weights._replace(W_Q=scale * weights.W_Q)
    batch = batch_of(n_asked)
    found = loss_and_gradients(weights, batch, DIVISORS)
    sequences = list(zip(batch.tokens, batch.queries, batch.targets, strict=True))
    for i, (w_q, w_k, w_v, w_o) in enumerate(zip(*weights, strict=True)):
        gradients = Weights(*(np.zeros_like(array) for array in (w_q, w_k, w_v, w_o)))
        options = {"scaling": DIVISORS[i]}
        for n, (tokens, query, target) in enumerate(sequences):
            q, k, v = query[None] @ w_q, tokens @ w_k, tokens @ w_v
            output, rows = scaled_dot_product_attention(q, k, v, return_weights=True, **options)
            logits = output @ w_o
            to_logits = softmax(logits) - target
            back = attention_gradients(q, k, v, to_logits @ w_o.T, **options)
            gradients.W_Q[:] += query[:, None] @ back.q / N_SEQUENCES
            gradients.W_K[:] += tokens.T @ back.k / N_SEQUENCES
            gradients.W_V[:] += tokens.T @ back.v / N_SEQUENCES
            gradients.W_O[:] += output.T @ to_logits / N_SEQUENCES
            scores = (q @ k.T)[0] / DIVISORS[i]
            assert_allclose(found.q[i, n], q[0], rtol=1e-12)
            assert_allclose(found.scores[i, n], scores, rtol=1e-11)
            assert_allclose(found.weights[i, n], rows[0], rtol=1e-10)
            assert_allclose(found.logits[i, n], logits[0], rtol=1e-11)
            assert_allclose(found.score_gradients[i, n], back.scores[0], rtol=1e-9)
        for values, expected in zip(found.gradients, gradients, strict=True):
            least = 1e-12 * np.abs(expected).max()
            assert_allclose(values[i], expected, rtol=1e-9, atol=least)


@pytest.mark.parametrize("d_k", [1, 7, 512])
def test_layers_side_by_side_are_each_layer_alone_to_the_bit(d_k):
    rng = np.random.default_rng(d_k)
    batch = draw_batch(rng, "pair", 13, 11)
    layers = [initial_weights(rng, d_k, "unit") for _ in DIVISORS]
    stacked = Weights(*map(np.stack, zip(*layers, strict=True)))
    together = loss_and_gradients(stacked, batch, DIVISORS)
    for i, layer in enumerate(layers):
        alone = loss_and_gradients(layer, batch, DIVISORS[i])
        for name in ("losses", "logits", "q", "scores", "weights", "score_gradients"):
            one, other = getattr(alone, name), getattr(together, name)
            assert_array_equal(one, other[i], strict=True)
        for one, other in zip(alone.gradients, together.gradients, strict=True):
            assert_array_equal(one, other[i], strict=True)


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
    error = 5 * values.std(axis=0) / math.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - expected) <= error).all()


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
        ([2.0, 1.0, 2.0], [0.5, 0, 0.5], 1.0),  # but within the target
        ([3.0, 2.0, 2.0], [0.5, 0, 0.5], 0.0),
        ([3.0, 1.0, 2.0], [0.5, 0.5, 0], 0.0),
    ],
)
def test_accuracy_by_hand(logits, target, expected):
    assert accuracy(np.array([logits]), np.array([target])) == expected


KNOWN = {
    "best row": frozenset,
    "one-hot row": lambda classes: classes[0],
    "guess": lambda _: None,
}


@pytest.mark.parametrize("level", KNOWN)
@pytest.mark.parametrize("task", TASKS)
def test_levels_are_the_least_losses_of_what_a_row_shows(task, level):
    """The least cross-entropy of a prediction from some knowledge is that of the mean target given
    it.
    """
    by_knowledge = {}
    for classes in itertools.permutations(range(training.N_CLASSES), OF_TASK[task]):
        target = np.bincount(classes, minlength=training.N_CLASSES) / len(classes)
        by_knowledge.setdefault(KNOWN[level](classes), []).append(target)
    losses = []
    for targets in by_knowledge.values():
        mean = np.mean(targets, axis=0)
        losses += [-special.xlogy(target, mean).sum() for target in targets]
    assert loss_levels(task)[level] == pytest.approx(np.mean(losses), abs=1e-12)


RULES = (1.0, math.sqrt(11), 11.0)
OPTIONS = {"optimizer": "adam", "learning_rate": 0.03, "steps": 13, "n_sequences": 7}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("initial", "query", "key"), [("unit", 1.0, 1.0), ("small", 16 * 4e-4, 24 * 4e-4)]
)
def test_entries_of_initial_queries_and_keys_have_their_variance(task, initial, query, key):
    """Over 500 pairs of weights and batches."""
    rng = np.random.default_rng(7)
    found = []
    for _ in range(500):
        weights = initial_weights(rng, 11, initial)
        batch = draw_batch(rng, task, 7, 5)
        q = batch.queries @ weights.W_Q
        k = batch.tokens @ weights.W_K
        found.append([q.mean(), k.mean(), (q**2).mean(), (k**2).mean()])
    assert_mean(found, [0, 0, query, key])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("task", TASKS)
def test_a_run_is_steps_from_one_draw_of_weights_along_a_batch_each(task, optimizer):
    rng = np.random.default_rng(3)
    weights = Weights(*(np.stack([array] * 3) for array in initial_weights(rng, 11, "small")))
    descend = OPTIMIZERS[optimizer](weights, [0.03] * 4)
    options = OPTIONS | {"optimizer": optimizer, "initial": "small"}
    runs = train(np.random.default_rng(3), task, 11, 5, RULES, **options)
    for step, run in enumerate(runs):
        batch = draw_batch(rng, task, 7, 5)
        at = loss_and_gradients(weights, batch, RULES)
        assert_array_equal(run.batch.tokens, batch.tokens)
        assert_array_equal(run.at.losses, at.losses)
        for found, expected in zip(run.weights, weights, strict=True):
            assert_array_equal(found, expected)
        assert run.step == step
        assert not run.has_ended.any()
        descend(at.gradients)
    assert step == OPTIONS["steps"]


# The divisor in place of which W_Q starts at 1/a and W_K at 1/b of its size, with ab = C.
C = math.sqrt(11)
SPLITS = {"both": (math.sqrt(C), math.sqrt(C)), "W_Q alone": (C, 1.0), "uneven": (0.5, 2 * C)}
POWERS = {"sgd": 2, "adam": 1}  # of a and b, by which their learning rates are divided
RATES = {"sgd": 0.3, "adam": 0.003}


def losses_of(optimizer, divisor, starts=(1.0, 1.0), slower=(1.0, 1.0)) -> np.ndarray:
    """The mean losses of 121 batches, where W_Q and W_K start divided by `starts`, and their rates
    by `slower`.
    """
    rng = np.random.default_rng(5)
    one = initial_weights(rng, 11, "unit")
    weights = one._replace(W_Q=one.W_Q / starts[0], W_K=one.W_K / starts[1])
    rates = RATES[optimizer] / np.array([*slower, 1.0, 1.0])
    descend = OPTIMIZERS[optimizer](weights, rates.tolist())
    losses = []
    for _ in range(121):
        at = loss_and_gradients(weights, draw_batch(rng, "pair", 23, 7), divisor)
        losses.append(at.losses.mean())
        descend(at.gradients)
    assert np.ptp(losses) > 0.3  # it does learn
    return np.array(losses)


def distances(optimizer, starts, *rates) -> list[float]:
    """From the losses under the divisor to those with these starts, for each of the rates."""
    expected = losses_of(optimizer, C)
    return [np.abs(losses_of(optimizer, 1.0, starts, one) - expected).max() for one in rates]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("split", ["W_Q alone", "uneven"])
def test_a_divisor_is_a_smaller_start_and_a_smaller_rate(optimizer, split, monkeypatch):
    """Losses of 120 steps are equal to rounding, for Adam with an epsilon that no gradient feels.

    They differ by more than 0.05 if one factor is left out, or has the power of the other
    optimizer.
    """
    monkeypatch.setattr(training, "_EPS", 1e-30)
    starts, power = SPLITS[split], POWERS[optimizer]
    slower = [x**power for x in starts]
    wrong = [x ** (3 - power) for x in starts]
    right, *others = distances(optimizer, starts, slower, wrong, (1.0, 1.0))
    assert right < 1e-12
    assert min(others) > 0.05
    assert distances(optimizer, (1.0, 1.0), starts)[0] > 0.05


def test_with_the_usual_epsilon_it_holds_up_to_a_multiple_of_epsilon(monkeypatch):
    """The r.m.s. gradients of entries are 0.007 or more, so epsilon shortens steps by a share of up
    to 1.4e-6.

    It moves a loss that falls by less than 1 by about that share of its fall, and in proportion to
    epsilon.
    """
    both = SPLITS["both"]
    (usual,) = distances("adam", both, both)
    assert 0 < usual < 2e-6
    monkeypatch.setattr(training, "_EPS", 1e-9)
    assert distances("adam", both, both) == [pytest.approx(usual / 10, rel=0.1)]


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
    slower = [x**power for x in starts]
    wrong = [x ** (1 - power) for x in starts]
    right, other = distances("other", starts, slower, wrong)
    assert right < 1e-9
    assert other > 0.02


def test_a_run_that_blows_up_ends_while_the_others_go_on():
    """Its weights are 0 from then on, and its loss ln 8.

    It ends after 26 of these steps; the others would take more than 40.
    """
    ends, largest_loss = [], 0.0
    options = OPTIONS | {"optimizer": "sgd", "learning_rate": 4.0, "steps": 33}
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for run in train(np.random.default_rng(2), "recall", 64, 5, RULES, **options):
            ended = run.has_ended
            ends.append(ended.copy())
            for array in run.weights:
                sizes = np.abs(array).max(axis=(-2, -1))
                assert ((sizes == 0) == ended).all()
                assert sizes.max() <= 1e25
            assert_allclose(run.at.losses[ended], math.log(8), rtol=1e-12)
            largest_loss = max(largest_loss, run.at.losses[0].mean())
    assert not np.any(ends[:20])
    assert ends[-1].tolist() == [True, False, False]
    assert (np.diff(np.array(ends, int), axis=0) >= 0).all()
    assert largest_loss > 1e10


SHAPES = (2, 3, 5), (7,)
N_STEPS = 11
RATE = 0.03


def sgd(weight, gradients):
    return weight - RATE * gradients.sum(axis=0)


def adam(weight, gradients):
    """Algorithm 1 of Kingma and Ba (2015), with its constants."""
    m = v = 0.0
    for t, gradient in enumerate(gradients, 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        weight = weight - RATE * step
    return weight


TEXTBOOK = {"adam": adam, "sgd": sgd}


@pytest.mark.parametrize("size", [1.0, 1e-8, 1e60, 0.0])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_the_textbook(name, size):
    """Among them gradients as small as Adam's epsilon, and 0, which changes nothing."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in SHAPES]
    gradients = [size * rng.standard_normal((N_STEPS, *shape)) for shape in SHAPES]
    expected = [TEXTBOOK[name](*each) for each in zip(arrays, gradients, strict=True)]
    descend = OPTIMIZERS[name](arrays, [RATE] * len(SHAPES))
    for each in zip(*gradients, strict=True):
        descend(each)
    for found, values in zip(arrays, expected, strict=True):  # the arrays themselves have changed
        assert_allclose(found, values, rtol=1e-12, atol=1e-15)
