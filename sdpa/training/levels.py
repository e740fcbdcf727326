"""The least losses of the tasks of training, in closed form."""

from __future__ import annotations

import math

from sdpa.training.tasks import N_ASKED, N_CLASSES, Task


def loss_levels(task: Task) -> dict[str, float]:
    """The least expected cross-entropy in nats: with the best rows, with one-hot rows, and of a guess.

    If a query asks for a tokens, a one-hot row shows one of their classes, of probability 1/a; the other classes share
    1 - 1/a. A guess does not depend on the tokens.

    Args:
        task: `recall` or `pair`.

    >>> {name: round(level, 2) for name, level in loss_levels("pair").items()}
    {'best row': 0.69, 'one-hot row': 1.67, 'guess': 2.08}
    """
    asked = N_ASKED[task]
    others = 1 - 1 / asked
    one_hot = math.log(asked) / asked + (others * math.log((N_CLASSES - 1) / others) if others else 0.0)
    return {"best row": math.log(asked), "one-hot row": one_hot, "guess": math.log(N_CLASSES)}
