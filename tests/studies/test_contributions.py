"""What studies give to the suite, for each folder that is there."""

import shutil

import pytest

from experiments.measuring.processor import is_supported
from experiments.studies import contributions, study_names
from experiments.tables.reporter import Reporter
from tests.shipped import RESULTS, shipped_only


@pytest.mark.slow
@shipped_only
@pytest.mark.skipif(not is_supported(), reason="the last digits are those of AVX2")
@pytest.mark.parametrize("study", contributions(), ids=study_names())
def test_a_study_writes_the_shipped_pictures(study, tmp_path):
    if not study.write:
        pytest.skip("it draws no picture")
    copy = tmp_path / "results"
    shutil.copytree(RESULTS, copy, ignore=shutil.ignore_patterns(".*", "*.png"))
    study.write(copy, Reporter(say=lambda _: None))
    pictures = [*copy.rglob("*.png")]
    assert pictures
    for path in (*pictures, *copy.rglob("*.csv")):
        assert path.read_bytes() == (RESULTS / path.relative_to(copy)).read_bytes(), path
