"""The bounds chosen by hand, for words of statements such as "nearly"."""

from dataclasses import dataclass, field, fields
from typing import Any

from sdpa.metrics import SATURATED


def _bound(value: float, others: tuple[float, ...]) -> Any:
    """A field with its value, and other values that one might choose."""
    return field(default=value, metadata={"others": others})


@dataclass(frozen=True)
class Cutoffs:
    """The value of each cut-off, below its words and the reason; the defaults are those behind the
    verdicts.
    """

    # "about, around": 5%, a usual rounding in prose; between 0 and 1, of the distance from
    # the nearer end
    about: float = _bound(0.05, (0.02, 0.1))
    # "by chance": a random draw this improbable does not count as chance: one false alarm in
    # a hundred such statements
    unlikely: float = _bound(0.01, (0.001, 0.05))
    # "agrees": standard errors between a measured and an exact value; by chance once in
    # 150,000
    certain: float = _bound(4.5, (3, 6))
    # "slip": of the last digit, and 5%: the limit of a slip; anything further away is another
    # number
    slip_units: float = _bound(3, (1, 5))
    # "nearly one-hot, close to 1": one weight is nine times the sum of all others
    one_hot: float = _bound(0.9, (0.8, 0.95))
    # "saturated": the bound of the metric saturated_rows, which stays there
    saturated: float = _bound(SATURATED, (0.95, 0.999))
    # "keeps from, stays, always": fewer than one row in a hundred is an exception
    rare: float = _bound(0.01, (0.001, 0.05))
    # "dominant, sharp": one weight exceeds all others together; below, a row is "soft"
    dominant: float = _bound(0.5, (0.4, 0.6))
    # "strongly": times the weight of a key in a uniform row
    strongly: float = _bound(2, (1.5, 3))
    # "broadly": nine tenths of the entropy of a uniform row
    broad: float = _bound(0.9, (0.8, 0.95))
    # "large d_k": eight times 512, the largest d_k in the sources, and equal to the largest
    # measured number of keys
    large: float = _bound(4096, (512,))
    # "vanishing, small, modest": a tenth or less; more is "meaningful"
    tenth: float = _bound(0.1, (0.05, 0.2))
    # "does not change": the largest value is within 10% of the smallest
    level: float = _bound(1.1, (1.05, 1.25))
    # "typically": 19 cases in 20, as with two standard deviations
    typical: float = _bound(0.95, (0.9, 0.99))
    # "much larger": twice as large
    amplified: float = _bound(2, (1.5, 3))


OTHERS: dict[str, tuple[float, ...]] = {
    cutoff.name: cutoff.metadata["others"] for cutoff in fields(Cutoffs)
}
