"""Levels of the loss of tasks, against the entropy of all targets that a row leaves possible."""

import itertools

import numpy as np
import pytest

from sdpa.training import N_CLASSES, TASKS, loss_levels

ASKED = {"recall": 1, "pair": 2}


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
