"""The rows whose metrics theory computes: their length, width, divisor and law."""

from dataclasses import dataclass
from typing import Self

from sdpa.pairs import PairLaw
from sdpa.scaling import Rule, Scaling, resolve_divisor
from sdpa.theory.integrals import UnknownError, check_sizes


@dataclass(frozen=True)
class RowLaw:
    """Rows of n_keys scores q.k / divisor."""

    d_k: float
    n_keys: float
    divisor: float
    law: PairLaw = PairLaw()

    @classmethod
    def checked(
        cls,
        d_k: float,
        n_keys: float,
        divisor: Rule,
        law: PairLaw,
    ) -> Self:
        """The rows of these sizes under one divisor.

        Raises:
            ValueError: n_keys is no whole number from 2, d_k is below 1, or the divisor is not above
                0.
            UnknownError: the divisor is a rule with n_visible.
        """
        check_sizes(d_k, n_keys)
        divisor = divisor_of_rows(d_k, n_keys, divisor)
        if isinstance(divisor, Scaling):
            raise UnknownError(f"rows with divisors of their own are unknown, got {divisor}")
        return cls(d_k, n_keys, divisor, law)

    @property
    def to_query(self) -> float:
        """key_std / divisor, a factor of gradients to a query."""
        return self.law.key_std / self.divisor

    @property
    def to_key(self) -> float:
        """query_std / divisor, a factor of gradients to a key."""
        return self.law.query_std / self.divisor

    @property
    def unit(self) -> float:
        """The deviation of scores over |q| / query_std."""
        return self.law.query_std * self.law.key_std / self.divisor


def divisor_of_rows(d_k: float, n_keys: float, divisor: Rule) -> float | Scaling:
    """The divisor of all rows, or a rule with n_visible itself, which gives each row its own.

    >>> divisor_of_rows(16, 64, "d_k^1/2"), divisor_of_rows(16, 64, "d_k^1/2/ln(n_visible)")
    (4.0, Scaling.parse('d_k^1/2/ln(n_visible)'))
    """
    rule = Scaling.parse(divisor) if isinstance(divisor, str) else divisor
    if isinstance(rule, Scaling) and rule.is_by_row:
        return rule
    return resolve_divisor(rule, d_k, n_keys)
