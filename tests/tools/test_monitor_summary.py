"""`summary` of `sdpa.watch` and its steps, both in NumPy, without PyTorch."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sdpa import watch
from sdpa.theory.gaussian_rows import gaussian_rows
from sdpa.theory.query_lengths import largest_score_mean
from sdpa.tools.monitor import summary
from tests.numerics import normals
from tests.plain_rows import of_row

SQUARES = [1.0, 3.0, 2.0, 0.5, 4.0]  # |q|^2 of the rows of a head
SATURATED, EQUAL = [9.0, 0.0, 0.0], [2.0] * 4


def layer(heads):
    """The arrays of a layer for summary(): those of rows, and of keys that differ by head."""
    rows = np.full((7, len(heads), len(heads[0])), np.nan)
    for head, row in np.ndindex(rows.shape[1:]):
        s = np.array(heads[head][row])
        rows[[0, -1], head, row] = len(s), SQUARES[row]
        if len(s) >= 2:
            deviation = (s.max() - s.mean()) / s.std() if s.std() else math.nan
            of = of_row(s.tolist())[0]
            values = deviation, of["row_variance"], of["entropy"], of["max_weight"]
            rows[1:-1, head, row] = s.max(), *values
    return rows, np.arange(2.0)[:, None] + 10 * np.arange(len(heads))


def expected(rows):
    """The numbers of a head by their definitions, from the visible scores of each row."""
    pairs = [(row, square) for row, square in zip(rows, SQUARES, strict=False) if len(row) >= 2]
    rows, squares = zip(*pairs, strict=True)
    lengths = np.array([*map(len, rows)])
    of_square = np.mean([np.var(row, ddof=1) for row in rows]) / np.mean(squares)
    sigma = np.sqrt(of_square * np.array(squares))
    _, nats, _, saturated = gaussian_rows(sigma, lengths).T
    row_table = pd.DataFrame([of_row([*row])[0] for row in rows])
    return {
        "largest_score": max(map(max, rows)),
        "largest_score_exact": float(largest_score_mean(sigma, lengths)),
        "spread": row_table["row_variance"].mean() ** 0.5,
        "entropy_share": (row_table["entropy"] / np.log(lengths)).mean(),
        "entropy_share_exact": np.mean(nats / np.log(lengths)),
        "saturated_rows": row_table["saturated_rows"].mean(),
        "saturated_rows_exact": saturated.mean(),
    }


def test_the_numbers_are_those_of_loops_over_rows():
    """Two layers with other numbers of heads and rows, and rows of no and of one key."""
    sizes = [[5, 3, 9], [6, 4, 1]], [[2, 0, 7, 1, 4], [3, 8, 5, 5, 2], [9, 2, 2, 6, 3]]
    whole = [[[2 * normals(n, seed=n + 1) for n in head] for head in heads] for heads in sizes]
    whole[0][0][1] = SATURATED
    whole[1][2][4] = EQUAL
    whole[1][0] = [scores - 99 for scores in whole[1][0]]
    actual = summary([layer(heads) for heads in whole])
    assert len(actual) == 5 * 10
    for place, heads in enumerate(whole):
        for head, rows in enumerate(heads):
            wanted = expected(rows) | {"top_key": 10 * head, "top_key_share": 10 * head + 1}
            got = {name: actual[f"layer{place}/head{head}/{name}"] for name in wanted}
            assert got == pytest.approx(wanted, rel=5e-5, abs=1e-9)


def test_the_p_value_is_that_of_the_row_that_deviates_most_times_the_rows():
    """By Student's t (Grubbs 1950); rows of equal scores count, and deviate by nothing,
    neither do those that are equal to the rounding of single precision.
    """
    scores = np.append(np.sin(np.arange(39.0)), 6.0)
    x = (6.0 - scores.mean()) / scores.std()
    t = x * math.sqrt(38 / (39 - x**2))
    rows = [scores, [0.0, 1.0], EQUAL, [3.0]]
    of_head = summary([layer([rows, [[1e8, 1e8, 1e8 + 1]] * 4])])
    assert of_head["layer0/head0/largest_score_p"] == pytest.approx(3 * 40 * stats.t.sf(t, 38))
    assert of_head["layer0/head1/largest_score_p"] == 1


def test_a_head_without_rows_has_no_numbers_and_a_pass_without_layers_none():
    actual = summary([layer([[[1.0], []], [[1.0, 2.0], []]])])
    assert [name for name, value in actual.items() if math.isnan(value)] == [*actual][::2]
    assert summary([]) == {}


class Model:
    """A model without attention, as far as the monitor needs it."""

    def __init__(self):
        self._forward_pre_hooks, self._forward_hooks = {}, {}

    def named_modules(self):
        return []

    def register_forward_pre_hook(self, hook, **_):
        return self.registered(hook, self._forward_pre_hooks)

    def register_forward_hook(self, hook, **_):
        return self.registered(hook, self._forward_hooks)

    def registered(self, hook, hooks):
        hooks[hook] = hook
        return SimpleNamespace(remove=lambda: hooks.pop(hook, None))

    @property
    def hooks(self):
        return [*self._forward_pre_hooks, *self._forward_hooks]


def test_each_watched_step_without_attention_warns():
    model = Model()
    monitor = watch(model, every=3)
    warned = []
    for _ in range(7):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert monitor.step() == {}
        warned.append(len(caught))
    assert warned == [1, 0, 0, 1, 0, 0, 1]
    assert len(model.hooks) == 2
    monitor.close()
    assert model.hooks == []


def test_a_second_monitor_replaces_the_first():
    """And leaves the hooks of others."""
    model = Model()
    model.register_forward_pre_hook(print)
    monitors = [watch(model), watch(model)]
    assert [hook.__self__ for hook in model.hooks if hook is not print] == [monitors[1]] * 2
    monitors[1].close()
    assert model.hooks == [print]
