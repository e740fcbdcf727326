"""The two tasks: keys, classes, targets and noise of drawn batches, their best rows, and the accuracy by hand."""

import itertools
import math

import numpy as np
import pytest

from sdpa.training import D_MODEL, N_CLASSES, TASKS, accuracy, draw_batch, loss_levels

N_SEQUENCES, N_KEYS = 9973, 7
ASKED = {"recall": 1, "pair": 2}
SIDE = D_MODEL - N_CLASSES  # features of a key


@pytest.fixture(params=TASKS)
def task(request) -> str:
    return request.param


def parts(task, n_keys=N_KEYS, seed=3):
    """A batch, the keys of its tokens and their classes, read from the tokens."""
    batch = draw_batch(np.random.default_rng(seed), task, N_SEQUENCES, n_keys)
    return batch, batch.tokens[..., :SIDE], batch.tokens[..., SIDE:].argmax(axis=-1)


def assert_mean(values, expected):
    """Within 5 standard errors: a false alarm for one mean in 1.7 million, if the seed changed."""
    values = np.asarray(values, dtype=float)
    assert (np.abs(values.mean(axis=0) - expected) <= 5 * values.std(axis=0) / math.sqrt(len(values))).all()


def test_tokens_hold_a_key_of_length_4_and_one_class_of_length_root_8(task):
    batch, keys, classes = parts(task)
    assert batch.tokens.shape == (N_SEQUENCES, N_KEYS, 24)
    assert keys.shape[-1] == 16
    np.testing.assert_allclose(np.linalg.norm(keys, axis=-1), 4, rtol=1e-13)
    np.testing.assert_array_equal(batch.tokens[..., SIDE:], math.sqrt(8) * np.eye(8)[classes])


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
    assert batch.n_asked == ASKED[task]
    for target, of_tokens in zip(batch.targets.tolist(), classes.tolist(), strict=True):
        asked = of_tokens[: ASKED[task]]
        assert target == [asked.count(c) / len(asked) for c in range(8)]


@pytest.mark.parametrize("n_keys", [2, N_KEYS])
def test_the_classes_of_a_pair_differ_and_each_other_class_is_as_frequent(n_keys):
    _, _, classes = parts("pair", n_keys)
    apart = (classes[:, 1] - classes[:, 0]) % 8
    assert apart.min() == 1
    assert_mean(np.eye(8)[apart][:, 1:], 1 / 7)


def test_a_query_is_a_noisy_copy_without_a_class(task):
    """Its noise has a tenth of the deviation of the copy, and is independent of all keys."""
    batch, keys, _ = parts(task)
    copies = keys[:, : ASKED[task]].sum(axis=1) / math.sqrt(ASKED[task])
    noise = batch.queries[:, :SIDE] * math.sqrt(1.01) - copies
    assert_mean(noise, 0)
    assert_mean(noise**2, 0.01)
    assert_mean(noise * np.roll(noise, 1, axis=-1), 0)
    assert_mean(np.vecdot(noise[:, None], keys), 0)
    assert_mean(batch.queries[:, :SIDE] ** 2, 1)
    assert not batch.queries[:, SIDE:].any()


def test_a_row_on_the_tokens_asked_for_shows_the_target_and_a_one_hot_row_half_of_a_pair(task):
    batch, _, _ = parts(task)
    shown = batch.tokens[:, : ASKED[task], SIDE:].mean(axis=1)
    assert accuracy(shown, batch.targets) == 1
    np.testing.assert_allclose(shown / math.sqrt(8), batch.targets)
    of_one = accuracy(batch.tokens[:, 0, SIDE:], batch.targets)
    assert of_one == {"recall": 1, "pair": 0}[task]  # a pair's second class ties with those of no token


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


def test_accuracy_is_the_share_of_sequences_of_each_layer():
    """Three sequences that ask for the class 0, with the logits of two layers."""
    logits = np.array([[[2.0, 1.0], [1.0, 2.0], [5.0, 0.0]], [[0.0, 1.0], [0.0, 2.0], [0.0, 0.0]]])
    assert accuracy(logits, np.array([[1.0, 0.0]] * 3)).tolist() == [2 / 3, 0.0]


@pytest.mark.parametrize("task", TASKS)
def test_levels_are_the_least_losses_of_what_a_row_shows(task):
    """The least cross-entropy of a prediction from some knowledge is that of the mean target given it."""
    classes = list(itertools.permutations(range(N_CLASSES), ASKED[task]))
    targets = np.array([np.bincount(own, minlength=N_CLASSES) / len(own) for own in classes])

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
    assert loss_levels(task) == pytest.approx({name: least(known) for name, known in shown.items()}, abs=1e-12)
