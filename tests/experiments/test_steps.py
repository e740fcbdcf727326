"""The step that finds a divisor."""

import re

import pytest

from sdpa import Scaling, theory
from tests.command_line import printed, sdpa


def test_the_divisor_and_its_table_are_those_of_theory():
    shown = printed(sdpa("design", "--d-k", "16", "--n-keys", "64", "--max-weight", "0.2"))
    told = re.match(
        r"divide the scores by ([\d.]+) for max_weight = 0.2 at d_k = 16 and n_keys = 64",
        shown,
    )
    divisor = float(told[1])
    exact = theory.divisor_for("max_weight", 0.2, 16, 64)
    assert divisor == pytest.approx(exact, rel=1e-3)
    rule = re.search(r"the same as the rule (\S+) for scaling", shown)[1]
    assert Scaling.parse(rule).divisor(16, 64) == pytest.approx(exact, rel=1e-3)
    table = shown.split("\n\n")[-2].splitlines()[1:]
    assert [int(line.split()[0]) for line in table] == [4, 16, 64, 256, 1024]
    longest = theory.attention_expectations(16, 1024, exact)
    assert float(table[-1].split()[3]) == pytest.approx(longest.max_weight, rel=1e-3)
