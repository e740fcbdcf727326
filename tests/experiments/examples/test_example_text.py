"""The printed text shows exactly the numbers of the steps, within 100 columns."""

import math
import re

import numpy as np
import pytest

from experiments.examples import example_names, load_example
from experiments.examples.example import Matrix, Step, table
from experiments.examples.text import WIDTH, matrix_lines, number, text

BARS = "·▁▂▃▄▅▆▇█"


def printed_value(token: str) -> float:
    return float(token.replace("−", "-").replace("∞", "inf"))


def unit(token: str) -> float:
    """One unit of the last digit that a number shows."""
    digits, _, power = token.partition("e")
    return 10.0 ** (int(power.replace("−", "-") or 0) - len(digits.partition(".")[2]))


def read_back(lines: list[str], matrix: Matrix) -> list[list[str]]:
    """The numbers in the lines of a matrix, under its own names; a strip of bars is the last of a row."""
    rows: list[list[str]] = [[] for _ in matrix.rows]
    heads: list[str] = []
    size = len(matrix.rows) + 1
    assert len(lines) % size == 0
    for start in range(0, len(lines), size):
        head, *body = lines[start : start + size]
        heads += re.split(r"\s{2,}", head.strip())
        for cells, name, line in zip(rows, matrix.rows, body, strict=True):
            assert line.startswith(f"   {name} ")
            cells += line[3 + len(name) :].split()
    assert heads == [*matrix.columns, *(["strip"] * matrix.bars)]
    return rows


def assert_shown(lines: list[str], matrix: Matrix) -> None:
    for cells, values in zip(read_back(lines, matrix), matrix.values, strict=True):
        if matrix.bars:
            *cells, bars = cells
            assert bars == "".join(BARS[round(8 * value)] for value in values)
        assert len(cells) == len(values)
        for cell, value in zip(cells, values, strict=True):
            if math.isinf(value):
                assert printed_value(cell) == value
            else:
                assert abs(printed_value(cell) - value) <= 0.5000001 * unit(cell), (cell, value)
                assert value == 0 or printed_value(cell) != 0
                assert unit(cell) <= 10.0**-matrix.digits or "e" in cell


def blocks(printed: str) -> list[list[str]]:
    """The lines of each numbered step."""
    return [block.splitlines() for block in re.split(r"\n\n(?=\d+\. )", printed)[1:]]


@pytest.mark.parametrize("name", example_names())
def test_every_step_shows_its_heading_its_text_and_exactly_its_numbers(name):
    example = load_example(name)
    steps = example.steps()
    printed = text(example.title, example.source, steps)
    assert printed.splitlines()[:2] == [example.title, f"From: {example.source}"]
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert len(printed.splitlines()) <= 125
    assert len(steps) == len(blocks(printed))
    for place, (step, lines) in enumerate(zip(steps, blocks(printed), strict=True), start=1):
        assert lines[0] == f"{place}. {step.heading}"
        size = 0 if step.matrix is None else len(step.matrix.rows) + 1
        words = " ".join(" ".join(lines[1 : len(lines) - size]).split())
        assert words == step.text
        if step.matrix:
            assert_shown(lines[len(lines) - size :], step.matrix)


@pytest.mark.parametrize("name", example_names())
def test_a_shape_in_a_heading_is_that_of_the_matrix(name):
    for step in load_example(name).steps():
        if found := re.search(r"\((\d+) x (\d+)\)$", step.heading):
            assert step.matrix.values.shape == (int(found[1]), int(found[2]))


def test_a_wide_matrix_comes_in_blocks_that_fit():
    values = np.random.default_rng(0).normal(size=(3, 64)) * 1e3
    matrix = table(values, ("a", "a long name", "b"), tuple(f"column {i}" for i in range(64)), 3)
    lines = list(matrix_lines(matrix))
    assert max(map(len, lines)) <= WIDTH
    assert_shown(lines, matrix)


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (0.0, 2, "0.00"),
        (-0.004, 2, "−4.0e−03"),
        (1234567.0, 2, "1.23e+06"),
        (math.inf, 2, "∞"),
        (-math.inf, 2, "−∞"),
        (3.0, 0, "3"),
    ],
)
def test_a_number_never_loses_all_its_digits(value, digits, expected):
    assert number(value, digits) == expected


def test_a_step_without_numbers_is_words_alone():
    assert text("Title", "source", [Step("s", "Heading", "Words.")]).splitlines()[3:] == ["1. Heading", "   Words."]


@pytest.mark.parametrize(
    ("values", "rows", "problem"),
    [([[1]], ("a", "b"), r"got shape \(1, 1\)"), ([[1], [2]], ("a", "a"), "unique names")],
)
def test_a_matrix_has_one_name_for_each_row(values, rows, problem):
    with pytest.raises(ValueError, match=problem):
        table(values, rows, ("c",))
