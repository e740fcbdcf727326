"""All cut-offs chosen by hand, each with its reason and with other values that one might choose.

A word such as "nearly" or "strongly" has no number of its own, so a verdict on it needs a cut-off. Each cut-off here is
a round number, and the same for all statements that use the word. The table of statements names every verdict that
another value changes. Bounds that follow from something else, such as a uniform weight of 1/n or the rounding of
doubles, are not choices.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class CutOff:
    """A cut-off: the words that need it, its value, and other values that one might choose.

    Attributes:
        words: as in statements.
        chosen: the value behind the verdicts.
        others: the values that the column `other_cutoffs` tries.
        was_read: set by `value`, so that one can tell which answers depend on the cut-off.
    """

    words: str
    chosen: float
    others: tuple[float, ...]
    was_read: bool = field(default=False, init=False)

    @property
    def value(self) -> float:
        """The value in use: the chosen one, or another one within `moved`."""
        self.was_read = True
        return self._value

    def __post_init__(self) -> None:
        self._value = self.chosen

    def __str__(self) -> str:
        return f"{self.value:g}"

    @contextmanager
    def moved(self, other: float) -> Iterator[None]:
        """Use another value within the context."""
        self._value = other
        try:
            yield
        finally:
            self._value = self.chosen


# Numbers.
# 5%, a usual rounding in prose; between 0 and 1, of the distance from the nearer end
ABOUT = CutOff("about", 0.05, (0.02, 0.1))
# a random draw this improbable does not count as chance: one false alarm in a hundred such statements
UNLIKELY = CutOff("by chance", 0.01, (0.001, 0.05))
# standard errors between a measured and an exact value; by chance once in 150,000
CERTAIN = CutOff("agrees", 4.5, (3.0, 6.0))
# of the last digit, and 5%: the limit of a slip; anything further away is another number
SLIP_UNITS = CutOff("slip", 3.0, (1.0, 5.0))

# Softmax rows.
ONE_HOT = CutOff("nearly one-hot, close to 1", 0.9, (0.8, 0.95))  # one weight is nine times the sum of all others
SATURATED = CutOff("saturated", 0.99, (0.95, 0.999))  # the bound of the metric `saturated_rows`, which stays there
RARE = CutOff("keeps from, stays, always", 0.01, (0.001, 0.05))  # fewer than one row in a hundred is an exception
DOMINANT = CutOff("dominant, sharp", 0.5, (0.4, 0.6))  # one weight exceeds all others together; below, a row is "soft"
STRONGLY = CutOff("strongly", 2.0, (1.5, 3.0))  # times the weight of a key in a uniform row
BROAD = CutOff("broadly", 0.9, (0.8, 0.95))  # nine tenths of the entropy of a uniform row

# Training: it "works" if the 95% interval of the share of runs that solve lies above one half, and "fails" if below.
MOST = CutOff("works, fails", 0.5, (0.4, 0.6))

# Sizes.
# Eight times 512, the largest d_k in the sources, and equal to the largest measured number of keys. Training is
# measured at 512 only, because a run at 4096 takes several times as long.
LARGE = CutOff("large d_k", 4096, (512,))
TENTH = CutOff("vanishing, small, modest", 0.1, (0.05, 0.2))  # a tenth or less; more is "meaningful"
LEVEL = CutOff("does not change, around", 1.1, (1.05, 1.25))  # the largest value is within 10% of the smallest
TYPICAL = CutOff("typically", 0.95, (0.9, 0.99))  # 19 cases in 20, as with two standard deviations
AMPLIFIED = CutOff("much larger", 2.0, (1.5, 3.0))  # twice as large

CUTOFFS = {name: one for name, one in list(globals().items()) if isinstance(one, CutOff)}
