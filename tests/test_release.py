"""One version: that of the library, in CHANGELOG.md, in CITATION.cff and in the wheel, which is the library alone."""

import ast
import datetime
import email
import re
import tomllib
import zipfile

import yaml
from flit_core.buildapi import build_wheel

import sdpa
from tests.shipped import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASES = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", CHANGELOG, re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_library_states_the_version_as_a_literal():
    """So that a build reads it without an import."""
    module = ast.parse((ROOT / "sdpa" / "__init__.py").read_bytes())
    values = [
        node.value
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__"
    ]
    assert [ast.literal_eval(value) for value in values] == [sdpa.__version__]
    assert PROJECT["project"]["dynamic"] == ["version"]


def test_the_last_release_of_the_changelog_has_this_version():
    assert RELEASES[0][0] == sdpa.__version__
    assert sorted(RELEASES, key=lambda release: tuple(map(int, release[0].split("."))), reverse=True) == RELEASES


def test_the_citation_is_of_the_last_release():
    version, date = RELEASES[0]
    assert (CITATION["version"], CITATION["date-released"]) == (version, datetime.date.fromisoformat(date))


def test_the_wheel_is_the_library_alone(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / build_wheel(str(tmp_path))) as wheel:
        names = wheel.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        stated = email.message_from_bytes(wheel.read(metadata))
    assert {name.partition("/")[0] for name in names} == {"sdpa", metadata.partition("/")[0]}
    assert stated["Version"] == sdpa.__version__
    assert "Provides-Extra" not in stated
    assert [re.match(r"\w+", one)[0] for one in stated.get_all("Requires-Dist")] == ["numpy", "scipy"]
