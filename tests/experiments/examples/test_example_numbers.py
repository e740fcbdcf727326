"""Every number of every example against plain Python, and against the digits that the sources print."""

import math
import random

import numpy as np
import pytest

from experiments.examples.declared import EXAMPLES
from tests.plain_attention import softmax, times
from tests.plain_examples import COMPARED, REFERENCES, comparison


@pytest.fixture(scope="module")
def shown():
    """The matrices of an example's steps by name, computed once."""
    found = {}

    def of(name):
        if name not in found:
            found[name] = {step.name: step.table.to_numpy() for step in EXAMPLES[name].steps()}
        return found[name]

    return of


def test_every_example_has_a_reference():
    assert [reference.__name__ for reference in REFERENCES] == sorted(EXAMPLES)


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.__name__)
def test_every_number_is_that_of_plain_python(reference, shown):
    got, expected = shown(reference.__name__), reference()
    exact = {"exact"} if reference is comparison else set()
    assert set(got) == set(expected) | exact
    for step, values in expected.items():
        np.testing.assert_allclose(got[step], values, rtol=1e-9, atol=1e-13, err_msg=step)


def test_exact_expectations_are_the_means_of_many_draws(shown):
    """The means of 4,000 rows of five weights, by the standard library's generator, within 4.5 standard errors."""
    rng = random.Random(1)
    exact = shown("comparison")["exact"]
    np.testing.assert_allclose(exact[:2], [[math.sqrt(d_k) for d_k in COMPARED], [1] * 5], rtol=1e-12)
    for column, d_k in enumerate(COMPARED):
        rows = []
        for _ in range(4000):
            length = math.sqrt(rng.gammavariate(d_k / 2, 2))  # of a query: its square is chi-squared
            rows.append([rng.gauss(0, length) for _ in range(5)])
        for row, divisor in ((2, 1), (3, math.sqrt(d_k))):
            largest = [max(weights) for weights in softmax(times(rows, 1 / divisor))]
            mean = math.fsum(largest) / 4000
            error = math.sqrt(math.fsum((x - mean) ** 2 for x in largest) / 4000 / 3999)
            assert abs(exact[row][column] - mean) < 4.5 * error


# Digits as the article prints them.
PRINTED = [
    ("session", "scores", 3, "0.045 -0.237 -0.014 0.061 -0.053 0.492 0.015 -0.134 -0.147 0.173 0.044 0.191 "
                             "-0.114 0.163 0.109 -0.301"),
    ("session", "weights", 3, "0.258 0.230 0.252 0.260 0.236 0.294 0.242 0.228 0.229 0.261 0.247 0.263 "
                              "0.241 0.270 0.264 0.224"),
    ("session", "batch_shapes", 0, "3 4 6 3 4 6 3 4 6 3 4 4 3 4 6"),
    ("two_scales", "spread", 4, "0.3479 1.3434 0.9820 0.0906"),
    ("two_scales", "weights", 4, "0.3479 0.2848 0.2110 0.1563 0.9820 0.0180 0.0000 0.0000"),
    ("abc", "scores", 2, "0.80 0.30 0.10 0.50 0.50 0.50 0.20 0.70 0.90"),
    ("abc", "scaled_scores", 4, "0.5657 0.2121 0.0707 0.3536 0.3536 0.3536 0.1414 0.4950 0.6364"),
    ("abc", "weights", 4, "0.4326 0.3037 0.2637 0.3333 0.3333 0.3333 0.2460 0.3504 0.4036"),
    ("abc", "output", 4, "0.5644 0.4356 0.5000 0.5000 0.4478 0.5522"),
]  # fmt: skip


@pytest.mark.parametrize(("example", "step", "digits", "printed"), PRINTED)
def test_the_digits_that_the_article_prints_are_met(shown, example, step, digits, printed):
    assert [f"{x:z.{digits}f}" for x in shown(example)[step].ravel()] == printed.split()


def test_the_exponentials_of_a_are_those_that_the_article_prints(shown):
    assert [f"{x:.4f}" for x in shown("abc")["exponentials"][0]] == ["1.7607", "1.2363", "1.0733", "4.0702"]


def test_outputs_before_a_changed_token_stay_to_the_bit(shown):
    steps = shown("causal_mask")
    assert (steps["output"][:2] == steps["changed_output"][:2]).all()
    assert (steps["moved"][0][:2] == 0).all()
    assert (steps["moved"][0][2:] > 0.1).all()
    assert (steps["moved"][1] > 0.1).all()
