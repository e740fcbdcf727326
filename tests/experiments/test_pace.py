"""The time that a run still takes, against runs whose times are known."""

import itertools

import pytest

from experiments.engine.pace import Pace


def told(work, parts, workers=2):
    """The time told after each part (kind, amount, seconds) of workers that start after a minute,
    and the true rest.
    """
    free, ends = [60.0] * workers, []
    for part in parts:
        free.sort()
        free[0] += part[-1]
        ends.append((free[0], part))
    pace = Pace(work)
    for now, part in sorted(ends):
        yield pace.advance(*part, now), max(free) - now


def test_at_one_speed_the_rest_is_exact_once_every_worker_is_seen():
    """Whatever the estimates are off by, and however long the processes take to start."""
    parts = [("a", 2.0, 6.0), ("a", 2.0, 6.0), ("b", 2.0, 6.0), ("b", 2.0, 6.0)] * 5
    found = list(told({"a": 20.0, "b": 20.0}, parts))
    for remaining, truth in itertools.islice(found, 1, None, 2):
        assert remaining == pytest.approx(truth)
    assert found[-1] == (0.0, 0.0)


def test_each_kind_goes_at_its_own_speed_once_it_is_seen():
    parts = [("a", 1.0, 2.0), ("b", 1.0, 6.0)] + [("a", 1.0, 2.0)] * 49 + [("b", 1.0, 6.0)] * 49
    for remaining, truth in itertools.islice(told({"a": 50.0, "b": 50.0}, parts), 12, 90):
        assert remaining == pytest.approx(truth, rel=0.1)
