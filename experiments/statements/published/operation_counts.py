"""The cost of attention: multiplications, elements, products and loops, counted in what the code does."""

import ast
import math
from typing import Any

import numpy as np

from experiments.statements.answer import Answer, cases, numbers
from experiments.statements.declare import statement
from experiments.statements.shared import normals
from sdpa import trace_shapes


class _Counted:
    """A number that counts the multiplications it takes part in."""

    multiplications = 0

    def __mul__(self, _: Any) -> "_Counted":
        _Counted.multiplications += 1
        return self

    def __add__(self, _: Any) -> "_Counted":
        return self


def multiplications(n: int, width: int, columns: int) -> int:
    """Multiplications of a product (n, width) @ (width, columns), counted as NumPy does them."""
    one, other = np.full((n, width), _Counted(), object), np.full((width, columns), _Counted(), object)
    _Counted.multiplications = 0
    one @ other
    return _Counted.multiplications


@statement(
    "textbook-22",
    says="For n = 100 and d_k = 64, Q K^T costs n^2 d_k multiplications.",
    claimed="640000",
    rule="count",
    severity="wrong number",
)
def products_of_scores() -> Answer:
    """Multiplications of Q K^T for n = 100, d_k = 64, counted as they are done."""
    return numbers(multiplications(100, 64, 100))


@statement(
    "textbook-23",
    says="For n = 100, the score matrix has n^2 elements.",
    claimed="10000",
    rule="count",
    severity="wrong number",
)
def elements_of_scores() -> Answer:
    """Elements of the score matrix for n = 100."""
    return numbers(math.prod(trace_shapes(normals(100, 64), normals(100, 64, seed=1))["Q K^T"]))


@statement(
    "textbook-25 article-143 article-152",
    says="Twice the tokens take four times the work and the memory.",
    claimed="4.00 4.00",
    rule="digits",
    severity="wrong number",
)
def quadratic_in_n() -> Answer:
    """Multiplications and elements at n = 24 over those at 12, d_k = d_v = 5."""
    work = [multiplications(n, 5, n) + multiplications(n, n, 5) for n in (12, 24)]
    elements = [math.prod(trace_shapes(normals(n, 5), normals(n, 5, seed=1))["weights"]) for n in (12, 24)]
    return numbers(work[1] / work[0], elements[1] / elements[0])


@statement(
    "textbook-24", says="The work of attention is proportional to n^2 and to the widths.", severity="conceptual error"
)
def linear_in_d() -> Answer:
    """Multiplications are n^2 (d_k + d_v)."""
    counted = multiplications(9, 4, 9) + multiplications(9, 9, 3)
    return cases(
        {"there are n^2 (d_k + d_v) multiplications": counted == 81 * 7},
        f"There are {counted} multiplications for n = 9, d_k = 4 and d_v = 3",
    )


@statement("article-144", says="Scaling does not reduce the quadratic cost.", severity="conceptual error")
def scaling_keeps_the_cost() -> Answer:
    """Multiplications and divisions at n = 24 over those at 12: dividing adds n^2 divisions."""
    work = [multiplications(n, 5, n) + multiplications(n, n, 5) + n * n for n in (12, 24)]
    return cases(
        {"with scaling, twice the tokens still take four times the work": work[1] == 4 * work[0]},
        f"Scaling adds {12 * 12} divisions at n = 12",
    )


@statement(
    "article-80 article-81 article-145 article-146",
    says="100, 10,000, 4,000 and 8,000 tokens have ten thousand, 100 million, 16 million and 64 million scores.",
    claimed="10000 100000000 16000000 64000000",
    rule="count",
    severity="wrong number",
)
def squares() -> Answer:
    """Scores of sequences of 100, 10,000, 4,000 and 8,000 tokens."""
    return numbers(*(n * n for n in (100, 10_000, 4_000, 8_000)))


FORMULA = "softmax(Q @ K.T / d_k**0.5) @ V"
PROJECTIONS = ("X @ W_Q", "X @ W_K", "X @ W_V")


def matrix_products(*expressions: str) -> int:
    """Matrix products in Python expressions."""
    return sum(isinstance(node, ast.MatMult) for text in expressions for node in ast.walk(ast.parse(text)))


@statement(
    "lesson-45", says="Attention is three matrix products and a softmax.", claimed="3", rule="count", severity="slip"
)
@statement(
    "textbook-20", says="Attention is two matrix products and a softmax.", claimed="2", rule="count", severity="slip"
)
def products_of_the_formula() -> Answer:
    """Matrix products in softmax(Q K^T / sqrt(d_k)) V, and with the three projections."""
    formula, whole = matrix_products(FORMULA), matrix_products(FORMULA, *PROJECTIONS)
    return numbers(
        formula, note=f"The formula has {formula} matrix products, and {whole} with the projections of Q, K and V"
    )
