"""The shipped audits of public packages are those of the declared functions and of the lock."""

import re

import numpy as np
import pandas as pd
import pytest

from experiments.studies.libraries.faults import FAULTS, plain
from experiments.studies.libraries.functions import FUNCTIONS
from sdpa import scaled_dot_product_attention
from tests.shipped import ROOT

NAMES = ["package", "function"]
TABLES = {
    name: pd.read_csv(ROOT / "docs" / f"{name}.csv", keep_default_na=False)
    for name in ("audited", "faults")
}


def named(table):
    """The functions of a table."""
    return [*table[NAMES].itertuples(index=False, name=None)]


def test_every_declared_function_was_audited():
    audited = TABLES["audited"]
    assert named(audited) == [(entry.package, entry.calls) for entry in FUNCTIONS]


def test_what_is_not_right_is_a_confirmed_fault():
    audited, faults = TABLES.values()
    wrong = audited[~audited["verdict"].str.startswith("right")]
    assert {*named(wrong)} == {*named(faults)}
    assert (faults["confirmed"] == "yes").all()
    assert faults["computes"].tolist() == [fault.computes for fault in FAULTS]


@pytest.mark.parametrize("name", TABLES)
def test_versions_are_those_of_the_lock(name):
    locked = (ROOT / "requirements-libraries.lock").read_text().split()
    table = TABLES[name]
    assert {*(table["package"] + "==" + table["version"])} <= {*locked}


def test_every_fault_has_a_report():
    reports = (ROOT / "experiments/studies/libraries/reports.md").read_text()
    titles = re.findall(r"^## (\S+) (\S+), `([^`]+)`", reports, re.MULTILINE)
    columns = ["package", "version", "function"]
    assert titles == [*TABLES["faults"][columns].itertuples(index=False, name=None)]


def test_plain_attention_is_that_of_the_library():
    """Of keys that are left out, or there twice."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 7, 64))
    places = [1, 2, 3, 4, 5, 5, 6, 6]
    expected = scaled_dot_product_attention(q, k[places], v[places])
    np.testing.assert_allclose(plain(q, k, v, np.bincount(places)), expected, atol=1e-12)
