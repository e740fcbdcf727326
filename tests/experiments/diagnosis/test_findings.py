"""The three sentences of a diagnosis: each fault is told with its cause and numbers, and normal entries have none."""

import re

import numpy as np
import pandas as pd
import pytest

from experiments.diagnosis.findings import APART, FACTOR, findings
from tests.kinds_of_heads import D_K, KINDS, N, normal, table_of

# Words of a claim, and the kinds of heads that deserve it.
CLAIMS = {
    "a weight above 0.99 in most rows": {"saturated", "sink"},
    "less than half of the largest possible entropy": set(),
    "weight nearly evenly": {"uniform"},
    "less sharp": {"sink"},
    "sharper": set(),
    "mostly due to alignment": {"aligned", "opposed"},
    "mostly due to the lengths of q and k": {"sink", "long_vectors"},
    "standard deviations of q and k alone": {"saturated", "uniform", "long_vectors"},
    "variance 1 under the divisor": {"saturated", "uniform", "aligned", "opposed", "long_vectors", "sink"},
    "to the first key": {"sink"},
    "too few": set(),
}


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return {kind: table_of(arrays()) for kind, arrays in KINDS.items()}


def numbers(text: str, pattern: str) -> list[float]:
    """The numbers in the groups of the only match of a pattern."""
    ((*found,),) = [match.groups() for match in re.finditer(pattern, text)]
    return [float(number.replace("−", "-")) for number in found]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_heads_has_its_claims_and_no_others(tables, kind):
    sentences = findings(tables[kind])
    assert len(sentences) == 3
    text = " ".join(sentences)
    assert {claim for claim in CLAIMS if claim in text} == {claim for claim, kinds in CLAIMS.items() if kind in kinds}
    for sentence in sentences:
        assert re.fullmatch(r"[A-Z1-9].*[^. ]\.", sentence)
        assert "nan" not in sentence


@pytest.mark.parametrize("kind", ["sink", "aligned", "opposed", "long_vectors"])
def test_a_claim_about_one_head_names_it_and_counts_it(tables, kind):
    _, variance, _ = findings(tables[kind])
    assert variance.startswith("1 of 3 heads has ")
    assert " in head 1)" in variance


def test_saturated_heads_are_as_sharp_as_gaussian_rows_because_of_their_standard_deviations(tables):
    sharp, variance, divisor = findings(tables["saturated"])
    assert sharp.startswith("All 3 heads have a weight above 0.99 in most rows; the sharpest, head ")
    least, exact = numbers(sharp, r"an entropy share of (\S+); .* would be as sharp \((\S+)\)\.")
    assert (least, exact) == (pytest.approx(0.01, abs=0.01), pytest.approx(0.01, abs=0.01))
    (most,) = numbers(variance, r"alone multiply it by up to (\S+) in all 3 heads \(head \d\)\.")
    assert 10_000 < most < 11_000
    wanted, power = numbers(divisor, r"under the divisor (\S+) = d_k\^(\S+); in use is d_k\^1/2 = 4\.")
    spread = np.sqrt(tables["saturated"]["row_variance"].median())
    assert wanted == pytest.approx(4 * spread, rel=0.03)
    assert power == pytest.approx(np.log(4 * spread) / np.log(D_K), abs=0.01)


def test_heads_that_attend_evenly_could_have_a_smaller_divisor(tables):
    sharp, _, divisor = findings(tables["uniform"])
    assert sharp.startswith("All 3 heads spread their weight nearly evenly; ")
    wanted, power = numbers(divisor, r"under the divisor (\S+) = d_k\^(\S+);")
    assert 0.03 < wanted < 0.05
    assert power < -1


@pytest.mark.parametrize("kind", ["sink", "lognormal"])
def test_agreement_with_gaussian_rows_counts_from_a_spread_at_which_heads_differ(kind):
    """Two heads that differ from Gaussian rows by more than 0.05 at a spread of 0.8, and by less than 0.01 at 0.15."""
    q, k = np.random.default_rng(0).standard_normal((2, 24, 64, 64))
    q, k = (q + 1, k + (np.arange(64) == 0)[:, None]) if kind == "sink" else (np.exp(q), np.exp(k))
    unit = table_of((q, k), axes="batch")["unit_divisor"].item()
    flat, tested = (findings(table_of((q, k), axes="batch", scaling=f"{unit / s:.4f}"))[0] for s in (0.15, 0.81))
    assert flat.endswith("), but the head has a spread below 0.8, where that says little.")
    assert "would be less sharp (" in tested
    assert "says little" not in tested


def test_alignment_is_split_from_lengths(tables):
    _, variance, _ = findings(tables["aligned"])
    ratio, alignment, lengths = numbers(
        variance, r"has (\S+) times .* \((\S+) by alignment and (\S+) by lengths in head 1\)"
    )
    # Two directions of 16 that q and k share: 16 / 2.
    assert (ratio, alignment, lengths) == (
        pytest.approx(8, rel=0.1),
        pytest.approx(8, rel=0.1),
        pytest.approx(1, rel=0.05),
    )
    _, variance, _ = findings(tables["opposed"])
    assert numbers(variance, r"has (\S+) times")[0] < 0.01
    _, variance, _ = findings(tables["long_vectors"])
    ratio, alignment, lengths = numbers(variance, r"has (\S+) times .* \((\S+) by alignment and (\S+) by lengths")
    # A quarter of the sequences has 3 times the length: E[l^4] / E[l^2]^2 = (3/4 + 81/4) / (3/4 + 9/4)^2.
    assert lengths == pytest.approx(21 / 9, rel=0.05)
    assert ratio == pytest.approx(alignment * lengths, rel=0.05)


def test_a_sink_is_told_with_what_the_other_keys_have(tables):
    sharp, _, sink = findings(tables["sink"])
    row = tables["sink"].loc[1]
    assert numbers(sharp, r"less sharp than 1 of 3 heads \((\S+) instead of (\S+) in head 1\)") == [
        round(row["entropy_share_exact"], 2),
        round(row["entropy_share"], 2),
    ]
    weight, rest = numbers(sink, r"an attention sink \((\S+) in head 1\); without it, the entropy share is ([\d.]+);")
    assert (weight, rest) == (round(row["first_key_weight"], 2), round(row["entropy_share_without_first"], 2))
    assert sink.startswith("1 of 3 heads gives more than half of the weight to the first key")


@pytest.mark.parametrize(
    ("sequences", "heads", "options"),
    [(1, 40, {}), (2, 40, {}), (3, 20, {"mask": "causal"}), (8, 10, {"scaling": "4"}), (64, 3, {})],
)
def test_normal_entries_give_no_claim_however_few_rows_there_are(sequences, heads, options):
    q, k = normal(sequences, heads)
    for rows in (1, 3, N):
        text = " ".join(findings(table_of((q[:, :, -rows:], k), **options)))
        expected = (
            {"too few", "less than half of the largest possible entropy"} if rows * sequences < 9 else {"too few"}
        )
        assert {claim for claim in CLAIMS if claim in text} <= expected, text


def test_rows_of_two_keys_and_rows_that_share_few_keys_give_no_claim():
    """Two normal scores have the variance 1/2, with 1/n; and four keys of width 2 vary by chance for all queries."""
    q, k = normal(24, 2)
    assert findings(table_of((q, k[:, :, :2])))[2].startswith("Under the divisor in use, d_k^1/2 = 4, ")
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((1, 40, 400, 2)), rng.standard_normal((1, 40, 4, 2))
    text = " ".join(findings(table_of((q, k))))
    assert {claim for claim in CLAIMS if claim in text} <= {"too few"}


def test_a_first_key_with_less_than_half_of_the_weight_is_no_sink():
    q, k = normal()
    k[:, :, 0] += 1.0
    table = table_of((q + 0.4, k))
    assert 0.2 < table["first_key_weight"].min() < table["first_key_weight"].max() < 0.5
    assert "first key" not in " ".join(findings(table))


def test_one_row_is_no_proof_but_many_are():
    """The same fault in one row and in many."""
    q, k = KINDS["aligned"]()
    few, many = (findings(table_of((q[:, :, :rows], k)))[1] for rows in (1, N))
    assert "mostly due to alignment" in many
    one = findings(table_of((q[:1, :, :1], k[:1])))[1]
    assert "mostly due to" not in one
    assert "mostly due to alignment" in few  # 24 sequences with a row each


def test_standard_errors_between_sequences_count(tables):
    """An error as large as the difference silences each claim."""
    for kind in ("sink", "aligned", "long_vectors"):
        table = tables[kind].copy()
        columns = ("entropy_share", "variance_ratio", "row_variance", "first_key_weight", "q_std", "k_std")
        for name in columns:
            table[f"{name}_se"] = np.maximum(10 * table[name], 1.0)
        text = " ".join(findings(table))
        assert not {claim for claim in CLAIMS if claim in text} - {"a weight above 0.99 in most rows", "too few"}, text


def test_differences_that_do_not_matter_are_none():
    """A variance off by less than the factor, with small errors: it is named, and no cause."""
    q, k = normal(200, 2)
    factor = (0.9 * FACTOR) ** 0.25
    sharp, variance, divisor = findings(table_of((q * factor, k * factor)))
    assert "alone" not in variance
    assert "Under the divisor in use, d_k^1/2 = 4, the variance within rows is 1." in divisor
    assert "as sharp" in sharp
    q, k = normal(200, 2)
    factor = (1.1 * FACTOR) ** 0.25
    _, variance, divisor = findings(table_of((q * factor, k * factor)))
    assert "alone multiply it by up to 1.6" in variance
    assert "variance 1 under the divisor" in divisor


def test_a_single_head_is_told_without_counts_and_names():
    for kind in KINDS:
        q, k = KINDS[kind]()
        text = " ".join(findings(table_of((q[:, 1], k[:, 1]), axes="batch")))
        assert not re.search(r"\d of \d|heads|head \d|all", text.replace("standard deviations of q and k alone", "")), (
            text
        )
        assert text.startswith("The head ")


@pytest.mark.parametrize(
    ("scaling", "in_use"), [("d_k^1/2", "d_k^1/2 = 4"), ("64", "64"), ("unscaled", "1 (unscaled)")]
)
def test_the_divisor_in_use_has_its_rule_and_value(scaling, in_use):
    q, k = KINDS["saturated"]()
    assert findings(table_of((q, k), scaling=scaling))[2].endswith(f"in use is {in_use}.")


def test_another_rule_is_compared_with_standard_normal_entries_under_the_usual_one():
    _, _, divisor = findings(table_of(normal(), scaling="4"))
    assert divisor.endswith("of that of standard normal entries under d_k^1/2.")
    _, _, divisor = findings(table_of(normal(), scaling="unscaled"))
    assert "under the divisor 3.9 = d_k^0.49; in use is 1 (unscaled)." in divisor


def test_scores_without_variance_have_no_divisor():
    q, k = normal(2, 2)
    assert findings(table_of((0 * q, k)))[1:] == [
        "The variance within rows has nothing to compare with, because the variance of q or of k is 0.",
        "No divisor gives the rows the variance 1, because the scores of each row have the variance 0.",
    ]


def test_the_sharpest_head_beside_gaussian_rows_is_within_what_counts_as_equal(tables):
    table = tables["normal"]
    assert (table["entropy_share"] - table["entropy_share_exact"]).abs().max() < APART


def test_every_sharp_head_is_counted_beside_saturated_ones():
    """Head 1 saturated, head 2 sharp by its standard deviations, head 0 as drawn."""
    q, k = normal(64, 3)
    q[:, 1] *= 100
    q[:, 2] *= 6
    sharp, variance, divisor = findings(table_of((q, k)))
    assert sharp.startswith("1 of 3 heads has a weight above 0.99 in most rows, and 1 more head less than half of the ")
    assert "multiply it by up to 1" in variance
    assert " in 2 of 3 heads (head 1)." in variance
    assert divisor.startswith("The rows would have the variance 1 under the divisor ")


def test_the_head_that_is_named_is_one_that_differs():
    """Head 0 is aligned; head 1 has a larger ratio, but with an error as large."""
    q, k = KINDS["aligned"]()
    table = table_of((q[:, [1, 0]], k[:, [1, 0]]))
    table.loc[1, ["variance_ratio", "variance_ratio_se"]] = 20.0, 60.0
    assert table["variance_ratio"][1] > table["variance_ratio"][0]
    _, variance, _ = findings(table)
    assert variance.startswith("1 of 2 heads has ")
    assert "mostly due to alignment (" in variance
    assert "in head 0)" in variance


def test_a_head_without_variance_takes_no_part():
    """Rounding leaves equal entries of keys a variance of 1e-32 of their squares."""
    q, k = normal(64, 3)
    k[:, 1] = 0.1
    text = " ".join(findings(table_of((q, k))))
    assert "2 of 3 heads have the variance within rows of independent entries" in text
    assert "e−" not in text
    assert "factor of 0" not in text


def test_heads_of_several_widths_have_no_power_and_no_single_divisor():
    wide, narrow = (table_of(tuple(array[..., :width] * 3 for array in normal(64, 2))) for width in (D_K, D_K // 2))
    divisor = findings(pd.concat([wide, narrow], ignore_index=True).assign(head=range(4)))[2]
    assert "= d_k^" not in divisor
    assert divisor.endswith("in use is d_k^1/2.")


def test_two_sequences_need_a_difference_of_twelve_errors():
    """Student's quantile with one degree of freedom is 12.7; a normal one would be 2."""
    table = table_of(KINDS["aligned"]())
    table["sequences"] = 2
    ratio = table["variance_ratio"][1]
    for errors, claims in ((6, False), (14, True)):
        table["variance_ratio_se"] = ratio * np.log(ratio) / errors
        assert ("mostly due to alignment" in findings(table)[1]) == claims
