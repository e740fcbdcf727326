"""One version in library, CHANGELOG.md, CITATION.cff and wheel; and the names that the library
offers.
"""

import email
import re
import subprocess
import sys
import zipfile

import pytest
import yaml
from flit_core.buildapi import build_wheel

import sdpa
from tests.shipped import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
RELEASES = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", CHANGELOG, re.MULTILINE)
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_last_release_of_the_changelog_and_the_citation_have_this_version():
    cited = CITATION["version"], CITATION["date-released"].isoformat()
    assert RELEASES[0] == cited
    assert RELEASES[0][0] == sdpa.__version__


def test_the_wheel_is_the_library_alone(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / build_wheel(str(tmp_path))) as wheel:
        names = wheel.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        stated = email.message_from_bytes(wheel.read(metadata))
    assert {name.partition("/")[0] for name in names} == {"sdpa", metadata.partition("/")[0]}
    assert "sdpa/py.typed" in names
    assert stated["Version"] == sdpa.__version__
    assert "Provides-Extra" not in stated
    assert [re.match(r"\w+", one)[0] for one in stated.get_all("Requires-Dist")] == [
        "numpy",
        "scipy",
    ]


def test_every_name_that_is_offered_is_there_and_theory_is_loaded_late():
    """Nor is the package of bfloat16 loaded before that format is asked for."""
    for name in sdpa.__all__:
        getattr(sdpa, name)
    code = (
        "import sys, sdpa; assert {*sdpa.__all__, '__version__', '__name__'} <= set(dir(sdpa)); "
        "assert {'scipy', 'ml_dtypes'}.isdisjoint(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    with pytest.raises(AttributeError, match="module 'sdpa' has no attribute 'attend'"):
        sdpa.attend  # noqa: B018
