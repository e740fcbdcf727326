"""The command that finds a divisor: its numbers are those of theory, and impossible wishes end with one line."""

import math
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


def test_a_causal_mask_takes_the_mean_over_every_position():
    shown = call("design", "--d-k", "16", "--n-keys", "4", "--row-variance", "0.5", "--mask", "causal")
    divisor = float(re.match(r"divide the scores by ([\d.]+) ", shown.stdout)[1])
    rows = [theory.attention_expectations(16, n, divisor) for n in (2, 3, 4)]
    row = next(line.split() for line in shown.stdout.splitlines() if line.split()[0] == "4")
    assert float(row[1]) == pytest.approx(sum(row.entropy for row in rows) / math.log(2 * 3 * 4), rel=1e-3)
    assert float(row[3]) == pytest.approx((1 + sum(row.max_weight for row in rows)) / 4, rel=1e-3)
    assert float(row[4]) == 0.5


def test_other_values_of_unknown_rows_are_not_shown():
    shown = call("design", "--d-k", "16", "--n-keys", "64", "--row-variance", "0.5", "--inputs", "laplace")
    assert shown.returncode == 0
    assert shown.stdout.startswith("divide the scores by 5.612 ")  # sqrt(16 (63 / 64) / 0.5)
    assert shown.stdout.endswith("no other exact values: softmax rows are known only for gaussian entries\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--max-weight", "2"), r"max_weight: expected a value above 0\.\d+ and below 0\.\d+, got 2\.0"),
        ((), "expected one of --entropy-share, --effective-keys, --max-weight, --row-variance, got 0"),
        (("--max-weight", "0.2", "--entropy-share", "0.5"), "expected one of .*, got 2"),
        (("--max-weight", "0.2", "--normalize", "L2"), "normalize: expected one of none, l2, rms, got 'L2'"),
        (("--max-weight", "0.2", "--mask", "full"), "mask: expected one of none, causal, got 'full'"),
        (("--max-weight", "0.2", "--mask", "casual"), r"mask: expected .*, got 'casual'; did you mean causal\?"),
        (
            ("--max-weight", "0.2", "--inputs", "normal"),
            r"--inputs: expected one of gaussian, .*, got 'normal'; did you mean gaussian\?",
        ),
        (("--max-weight", "0.2", "--inputs", "laplace"), "softmax rows are known only for gaussian entries"),
        (("--max-weight", "0.2", "--query-std", "-1"), "query_std: expected a finite number above 0, got -1.0"),
    ],
)
def test_impossible_wishes_end_with_one_line(words, message):
    shown = call("design", "--d-k", "16", "--n-keys", "64", *words)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert re.fullmatch(f"{message}\n", shown.stderr)
