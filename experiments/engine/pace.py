"""The time that work still takes, from the speed seen so far in the same run.

Estimates are off by a factor that depends on the machine, its load and the kind of work, such as
the experiment. Let an amount d_k of kind k be done in t_k seconds of work, and l_k be left. Work
goes on in several processes, so that t = sum_k t_k seconds took less time T. Then

    remaining = T / t sum_k l_k r_k,   r_k = t_k / d_k, and t / sum_k d_k while d_k = 0
"""

from collections.abc import Mapping


class Pace:
    """Amounts of work by kind, done and left, and the time that they took.

    Args:
        work: the amount to do of each kind, in any unit, such as estimated seconds.
    """

    def __init__(self, work: Mapping[str, float]) -> None:
        self._left = dict(work)
        self._done = dict.fromkeys(work, 0.0)
        self._took = dict.fromkeys(work, 0.0)
        self._start: float | None = None

    def advance(self, kind: str, amount: float, seconds: float, now: float) -> float:
        """Count an amount that is done now and took some seconds; the result is the time that the
        rest takes.

        Time begins with the first amount, and not with the start of processes.
        """
        if self._start is None:
            self._start = now - seconds
        self._left[kind] = max(0.0, self._left[kind] - amount)
        self._done[kind] += amount
        self._took[kind] += seconds
        took = sum(self._took.values())
        done = sum(self._done.values())
        speeds = {
            each: self._took[each] / of_kind if of_kind else took / done
            for each, of_kind in self._done.items()
        }
        rest = sum(left * speeds[each] for each, left in self._left.items())
        return rest * (now - self._start) / took
