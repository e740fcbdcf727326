"""An experiment is deleted by deleting its folder and its sweeps, the tools and a study by deleting theirs
with its tests.
"""

import shutil
import sys
from pathlib import Path

import pytest
import yaml

from experiments.kinds import experiment_names
from experiments.studies import study_names
from tests.suite_process import ROOT, captured

pytestmark = pytest.mark.slow  # each is a run of its own

OTHER = """\
seed: 0
sweeps:
  mine:
    experiment: EXPERIMENT
    d_k: 4
    n_keys: 5
    n_queries: 3
    scaling: d_k^1/2
    trials: 30
"""
# What CONTRIBUTING.md says to delete with an experiment: generated parts of docs, and studies.
BLOCKS = {"saturation": ["dimension"], "network": ["network-growth", "networks"]}
PICTURES = {"language": ["training"]}
# Generates all parts of docs, and prints those that ask for a sweep of the deleted experiment.
REWRITE = """
import re
from pathlib import Path
from experiments.page import blocks

pages = {path: path.read_text() for path in (*Path().glob("*.md"), *Path().glob("[dr]*/**/*.md"))}
found = {name for text in pages.values() for name in re.findall("<!-- begin (.*) -->", text)}
gone = found - {*blocks.BLOCKS}
while True:
    for name in gone:
        blocks.BLOCKS.pop(name, None)
        pages = {path: text.replace(f"<!-- begin {name} -->", "") for path, text in pages.items()}
    try:
        blocks.rewrite(pages, Path("results"))
        break
    except blocks.BlockError as error:
        name = re.match("block (.*?): expected .* sweep", str(error))[1]
        print(name)
        gone = {name}
"""


def copy_without(deleted: str, folder: Path):
    hidden = shutil.ignore_patterns(".*")
    for name in ("sdpa", "experiments", "tests", "docs", "results"):
        shutil.copytree(ROOT / name, folder / name, ignore=hidden)
    for path in ROOT.glob("*.*"):
        if path.is_file():
            shutil.copy(path, folder)
    shutil.rmtree(folder / deleted)


def delete_sweeps(experiment: str, folder: Path):
    """Delete its sweeps from configs, and the studies that go with it."""
    for name in ("config.full.yaml", "results/config.yaml"):
        config = yaml.safe_load((folder / name).read_text())
        for sweep, keys in [*config["sweeps"].items()]:
            if keys["experiment"] == experiment:
                del config["sweeps"][sweep]
        (folder / name).write_text(yaml.safe_dump(config))
    for study in PICTURES.get(experiment, []):
        shutil.rmtree(folder / "experiments/studies" / study)


def run_all(experiment: str, folder: Path):
    (folder / "mine.yaml").write_text(OTHER.replace("EXPERIMENT", experiment))
    command = (sys.executable, "-m", "experiments", "all", "--config", "mine.yaml", "--jobs", "1")
    return captured(*command, cwd=folder)


@pytest.mark.parametrize("deleted", experiment_names())
def test_the_others_run_without_it_and_what_misses_it_is_a_line(deleted, tmp_path):
    copy_without(f"experiments/kinds/{deleted}", tmp_path)
    refused = run_all(deleted, tmp_path)
    assert refused.returncode == 2
    assert f"mine.yaml:4:17: sweeps.mine.experiment: got {deleted}, expected" in refused.stderr
    ran = run_all("saturation" if deleted == "rows" else "rows", tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "results" / "mine" / "index.html").exists()
    delete_sweeps(deleted, tmp_path)
    rewritten = captured(sys.executable, "-c", REWRITE, cwd=tmp_path)
    assert rewritten.stdout.split() == BLOCKS.get(deleted, []), rewritten.stderr
    assert rewritten.returncode == 0, rewritten.stderr


def assert_whole(folder: Path, *tests: str):
    ran = run_all("rows", folder)
    assert ran.returncode == 0, ran.stderr
    tested = captured(sys.executable, "-m", "pytest", "-n", "0", *tests, cwd=folder)
    assert tested.returncode == 0, tested.stdout


def test_the_suite_is_whole_without_the_tools(tmp_path):
    copy_without("sdpa/tools", tmp_path)
    assert_whole(
        tmp_path, "tests/sdpa", "tests/experiments/kinds", "tests/experiments/test_tables.py"
    )


@pytest.mark.parametrize("deleted", study_names())
def test_the_suite_is_whole_without_a_study_and_its_command_says_so(deleted, tmp_path):
    copy_without(f"experiments/studies/{deleted}", tmp_path)
    for path in (tmp_path / "tests/studies").glob(f"test_{deleted}*.py"):
        path.unlink()
    assert_whole(tmp_path, "tests/test_architecture.py", "tests/experiments/test_page.py")
    assert_whole(tmp_path, "tests", "--collect-only")
    if name := {"examples": "walk", "smollm2": "model"}.get(deleted):
        ran = captured(sys.executable, "-m", "experiments", name, cwd=tmp_path)
        assert ran.returncode == 2
        assert f"expected the study {deleted} in this clone, got no folder" in ran.stderr
