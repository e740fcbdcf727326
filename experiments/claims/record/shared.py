"""What statements of several sources share."""

import numpy as np
import numpy.typing as npt

from experiments.claims.entry import Answering, Cases, digits, numbers
from experiments.claims.judge import Answer
from experiments.claims.laws import normals, same
from experiments.claims.measured import Floats, Given
from experiments.claims.words import tempered
from sdpa import softmax


def weights_of(ids: str, statement: str, claimed: str, scores: npt.ArrayLike) -> None:
    """Declare a printed softmax of scores; the note says of which scores the printed one is."""
    note = f"The claimed weights are {tempered(scores, claimed)}"
    digits(ids, statement, claimed, softmax(scores), note)


def slope(scaling: str) -> Answering:
    """The exact slope of ln variance against ln d_k under a rule, beside the measured one."""

    def answer(given: Given) -> Answer:
        row = given.tables["dimension/slopes"].set_index("scaling").loc[scaling]
        note = (
            "This is the slope of ln variance against ln d_k, exactly 1 - 2 p for the divisor"
            f" d_k^p. The measured slope is {row['slope']:.4f}, with a 99.9% interval from"
            f" {row['slope_low']:.4f} to {row['slope_high']:.4f} (derived/dimension/slopes.csv)"
        )
        return numbers(row["slope_exact"], note)

    return answer


def are_exactly_1(sums: Floats) -> Cases:
    """The case that sums of rows are exactly 1."""
    return {"row sums are 1 to the rounding of doubles": same(sums, 1, 1e-15)}, (
        f"Row sums in double precision differ from 1 by up to {abs(sums - 1).max():.1g}"
    )


def tokens(moved: float = 0.0) -> Floats:
    """Five tokens of width 6, with the first entry of token 1 moved."""
    found = normals(5, 6)
    found[1, 0] += moved
    return np.asarray(found)


FORMULA = "softmax(Q @ K.T / d_k**0.5) @ V"
_PROJECTIONS = "X @ W_Q, X @ W_K, X @ W_V"
PRODUCTS = (
    f"The formula has {FORMULA.count('@')} matrix products, and"
    f" {(FORMULA + _PROJECTIONS).count('@')} with the projections of Q, K and V"
)


def multiplications(n: int, width: int, columns: int) -> int:
    """Multiplications of a product (n, width) @ (width, columns), one per pair of entries that meet."""
    return n * width * columns


def work(n: int) -> int:
    """Multiplications of attention of n tokens with d_k = d_v = 5."""
    return multiplications(n, 5, n) + multiplications(n, n, 5)
