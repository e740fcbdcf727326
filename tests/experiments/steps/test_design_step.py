"""The command that finds a divisor: its numbers are those of theory, and impossible wishes end with one line."""

import re

import pytest

from sdpa import theory
from tests.command_line import call


def test_the_divisor_and_its_table_are_those_of_theory():
    shown = call("design", "--d-k", "16", "--n-keys", "64", "--max-weight", "0.2")
    assert (shown.returncode, shown.stderr) == (0, "")
    told = re.match(r"divide the scores by ([\d.]+) for max_weight = 0.2 at d_k = 16 and n_keys = 64", shown.stdout)
    divisor = float(told[1])
    exact = theory.divisor_for("max_weight", 0.2, 16, 64)
    assert divisor == pytest.approx(exact, rel=1e-3)
    lengths = [int(line.split()[0]) for line in shown.stdout.splitlines()[4:]]
    assert lengths == [4, 16, 64, 256, 1024]
    longest = shown.stdout.splitlines()[-1].split()
    assert float(longest[3]) == pytest.approx(theory.attention_expectations(16, 1024, exact).max_weight, rel=1e-3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--max-weight", "2"), r"max_weight: expected a value above 0\.\d+ and below 0\.\d+, got 2\.0"),
        ((), "expected one of --entropy-share, --effective-keys, --max-weight, --row-variance, got 0"),
        (("--max-weight", "0.2", "--entropy-share", "0.5"), "expected one of .*, got 2"),
        (("--max-weight", "0.2", "--normalize", "L2"), "normalize: expected one of none, l2, rms, got 'L2'"),
        (("--max-weight", "0.2", "--query-std", "-1"), "query_std: expected a finite number above 0, got -1.0"),
    ],
)
def test_impossible_wishes_end_with_one_line(words, message):
    shown = call("design", "--d-k", "16", "--n-keys", "64", *words)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert re.fullmatch(f"{message}\n", shown.stderr)
