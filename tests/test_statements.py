"""The record of published statements: what is arithmetic is computed again, and the verdict follows
from it.
"""

import re
from decimal import Decimal
from math import sqrt

import numpy as np
import pytest

from experiments.page.statements import SEVERITIES, VERDICTS, read_statements
from sdpa import attention_weights
from tests.shipped import RESULTS

RECORD = read_statements(RESULTS)
ROWS = RECORD.set_index(RECORD["id"].str.split().str[0])


def test_arithmetic_gives_the_recorded_values_and_verdict():
    pytest.importorskip("experiments.studies.examples")  # of whose numbers some are
    from tests.arithmetic import ARITHMETIC  # computes for seconds

    for name, values in ARITHMETIC.items():
        row, actual = ROWS.loc[name], np.ravel(values)
        if row["claimed"]:
            computed = [*map(float, row["computed"].split())]
            assert actual == pytest.approx(computed, rel=6e-6, abs=1e-11), name
            assert row["verdict"] in verdicts(row["claimed"], actual), name
        else:
            cases = re.findall(r"(?:^|; )(yes|no): ", row["computed"])
            assert [*map(bool, actual)] == [case == "yes" for case in cases], name
            some = "misleading" if any(actual) else "wrong"
            assert row["verdict"] in ("holds" if all(actual) else some, "open"), name


def verdicts(claimed, actual):
    """What a verdict may be, by the digits of a claim: a unit is one of the last digit."""
    numbers = [Decimal(number) for number in claimed.split()]
    values = np.array(numbers, dtype=float)
    errors = abs(values - actual) / [10.0 ** x.as_tuple().exponent for x in numbers]
    if all(errors <= 0.5 + 1e-6):
        return {"reproduced", "holds", "within sampling error"}
    share = (values >= 0) & (values <= 1)
    near = 0.05 * np.where(share, np.minimum(values, 1 - values), abs(values))
    close = "approximately" if all(abs(values - actual) <= near) else "wrong"
    within_a_unit = all(errors <= 1 + 1e-6)
    return {close, "within sampling error", "to rounding" if within_a_unit else "wrong"}


def test_most_unscaled_weights_are_zero_in_half_precision():
    """As notebook-15 says. Among 40 draws the share has a standard error of 0.5%."""
    draws = np.random.default_rng(0).standard_normal((2, 40, 100, 512))
    keys = draws[1, :, :64]
    share = {
        divisor: np.mean(attention_weights(draws[0], keys, scaling=divisor).astype(np.float16) == 0)
        for divisor in (1.0, sqrt(512))
    }
    assert share[1.0] > 0.9
    assert share[sqrt(512)] == 0


def test_the_record_is_complete():
    ids = RECORD["id"].str.split().explode()
    assert ids.is_unique
    assert set(RECORD["verdict"]) <= {*VERDICTS}
    faulty = RECORD["verdict"].isin(("wrong", "misleading"))
    assert (RECORD["severity"].isin(SEVERITIES) == faulty).all()
    assert (RECORD.loc[faulty, "note"] != "").all()
