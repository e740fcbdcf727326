"""What attention costs: multiplications, elements, products and loops, counted in what the code does."""

import ast
import inspect
import math
import textwrap
from typing import Any

import numpy as np

from experiments.statements.answers import Answer, Tables, cases, numbers, quantity
from experiments.statements.checks import example
from sdpa import (
    ScaledDotProductAttention,
    attention,
    softmax,
    trace_shapes,
)


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


@quantity
def products_of_scores(_: Tables) -> Answer:
    """Multiplications of Q K^T for n = 100, d_k = 64, counted as they are done."""
    return numbers(multiplications(100, 64, 100))


@quantity
def elements_of_scores(_: Tables) -> Answer:
    """Elements of the score matrix for n = 100."""
    return numbers(math.prod(trace_shapes(example(100, 64), example(100, 64, seed=1))["Q K^T"]))


@quantity
def quadratic_in_n(_: Tables) -> Answer:
    """Multiplications and elements at n = 24 over those at 12, d_k = d_v = 5."""
    work = [multiplications(n, 5, n) + multiplications(n, n, 5) for n in (12, 24)]
    elements = [math.prod(trace_shapes(example(n, 5), example(n, 5, seed=1))["weights"]) for n in (12, 24)]
    return numbers(work[1] / work[0], elements[1] / elements[0])


@quantity
def linear_in_d(_: Tables) -> Answer:
    """Multiplications are n^2 (d_k + d_v)."""
    counted = multiplications(9, 4, 9) + multiplications(9, 9, 3)
    return cases({"n squared times both widths": counted == 81 * 7}, f"{counted} for n = 9, d_k = 4, d_v = 3")


@quantity
def scaling_keeps_the_cost(_: Tables) -> Answer:
    """Multiplications and divisions at n = 24 over those at 12: dividing adds n^2 divisions."""
    work = [multiplications(n, 5, n) + multiplications(n, n, 5) + n * n for n in (12, 24)]
    return cases(
        {"twice the tokens still take four times the work": work[1] == 4 * work[0]}, f"{12 * 12} divisions at n = 12"
    )


@quantity
def squares(_: Tables) -> Answer:
    """Scores of sequences of 100, 10,000, 4,000 and 8,000 tokens."""
    return numbers(*(n * n for n in (100, 10_000, 4_000, 8_000)))


def matrix_products(*functions: Any) -> int:
    """Matrix products in the source of functions."""
    trees = [ast.parse(textwrap.dedent(inspect.getsource(function))) for function in functions]
    return sum(isinstance(node, ast.MatMult) for tree in trees for node in ast.walk(tree))


FORMULA = (attention.attention_weights, attention.scaled_dot_product_attention)


@quantity
def two_products(_: Tables) -> Answer:
    """Matrix products in softmax(Q K^T / sqrt(d_k)) V, counted in the source, and with the three projections."""
    formula = matrix_products(*FORMULA)
    whole = formula + matrix_products(ScaledDotProductAttention.__call__)
    return numbers(formula, note=f"{formula} in the formula, {whole} with the projections of Q, K and V")


@quantity
def no_loop(_: Tables) -> Answer:
    """Matrix products and loops in the source of attention."""
    trees = [ast.parse(inspect.getsource(function)) for function in (attention.attention_weights, softmax)]
    loops = sum(isinstance(node, ast.For | ast.While) for tree in trees for node in ast.walk(tree))
    return cases({"two matrix products": matrix_products(*FORMULA) == 2, "no loop": loops == 0})
