"""Edits of the shipped config.yaml: `make all`, then the tests that read results/, in a copy of the tree.

Trials are cut, so that a run takes seconds; sweeps, axes, rules and figures are the shipped ones.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from experiments.folders import figure_path
from experiments.harness.config import load_config

ROOT = Path(__file__).parents[1]
SHIPPED = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".cells", ".lock", "*.svg", ".*_cache", ".hypothesis")
# The tests that read results/ and config.yaml, which a user changes.
READING = ("tests/test_results.py", "tests/test_readme.py", "tests/test_shipped_page.py")

pytestmark = pytest.mark.edits


def with_few_trials(config: dict) -> dict:
    """The config with a twentieth of the trials, but at least 200 where there were more, and 20 in any case.

    Runs of training take 20 steps: with 300 keys, 400 would take ten minutes of a core.
    """
    for body in config["sweeps"].values():
        if body["experiment"] == "training":
            body["steps"] = 20
        if "precision" in body:
            body["precision"] = 0.05
        else:
            least = 200 if body["trials"] > 200 else 20
            body["trials"] = min(body["trials"], max(body["trials"] // 20, least))
    return config


def make(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *words]
    environment = {name: value for name, value in os.environ.items() if name != "SHIPPED"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)


class _Plain(yaml.SafeDumper):
    """Writes a value that stands in several places out in full, as the suite refuses aliases."""

    def ignore_aliases(self, _: object) -> bool:
        return True


def write_config(tree: Path, config: dict) -> None:
    (tree / "config.yaml").unlink(missing_ok=True)  # it may be a link to another tree's
    (tree / "config.yaml").write_text(yaml.dump(config, Dumper=_Plain, sort_keys=False), encoding="utf-8")


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> Path:
    """A copy of the tree after `make all` with few trials."""
    tree = tmp_path_factory.mktemp("edits") / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    (tree / ".venv").symlink_to(ROOT / ".venv")
    write_config(tree, with_few_trials(yaml.safe_load(yaml.safe_dump(SHIPPED))))
    ran = make(tree, "all")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return tree


@pytest.fixture
def tree(warm, tmp_path) -> Path:
    """A tree of its own; files but for locks are replaced, never written in place, so that links will do."""
    without_locks = shutil.ignore_patterns(".lock")
    return shutil.copytree(warm, tmp_path / "tree", copy_function=os.link, symlinks=True, ignore=without_locks)


def without(name: str):
    return lambda config: config["sweeps"].pop(name)


def changed(**keys: object):
    """Keys changed in every sweep that has them."""

    def edit(config: dict) -> None:
        for body in config["sweeps"].values():
            body |= {key: value for key, value in keys.items() if key in body}

    return edit


def renamed(config: dict) -> None:
    config["sweeps"] = {"mine" if name == "dimension" else name: body for name, body in config["sweeps"].items()}


def with_few_keys(config: dict) -> None:
    """Rows of 5 keys, without `assumptions`: its correlation needs a key for each of 64 queries."""
    del config["sweeps"]["assumptions"]
    changed(n_keys=5, n_queries=3)(config)


def single_cell(config: dict) -> None:
    body = {"experiment": "saturation", "d_k": 64, "n_keys": 8, "scaling": "d_k^1/2", "trials": 100}
    config["sweeps"] = {"mine": body}


def only(name: str):
    def edit(config: dict) -> None:
        config["sweeps"] = {name: config["sweeps"][name]}

    return edit


EDITS = {
    "a sweep deleted": without("dimension"),
    "a sweep renamed": renamed,
    "d_k narrowed": changed(d_k=[8, 32, 128]),
    "other powers": changed(scaling=["d_k^1/4", "d_k^3/4"]),
    "a single rule": changed(scaling="d_k^1"),
    "few keys": with_few_keys,
    "one sweep of one cell": single_cell,
    "distribution alone": only("dot_products"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_config_runs_and_its_results_pass_the_tests(tree, edit):
    config = yaml.safe_load((tree / "config.yaml").read_text(encoding="utf-8"))
    EDITS[edit](config)
    write_config(tree, config)
    statements = (tree / "results" / "statements" / "statements.csv").read_bytes()
    ran = make(tree, "all")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    results = tree / "results"
    page = (results / "index.html").read_text(encoding="utf-8")
    for sweep in load_config(tree / "config.yaml").sweeps:
        assert (results / f"{sweep.name}.csv").stat().st_size > 0
        for figure in sweep.figures:
            assert figure_path(results, sweep.name, figure, ".png").stat().st_size > 10_000
            assert f'id="{sweep.name}-{figure}"' in page
    assert (results / "statements" / "statements.csv").read_bytes() == statements
    assert "complete" in make(tree, "plan").stdout
    assert_tested(tree)


def assert_tested(tree: Path) -> None:
    """The tests that read results/ and config.yaml pass in that tree."""
    command = [tree / ".venv" / "bin" / "python", "-m", "pytest", "-q", *READING]
    environment = {name: value for name, value in os.environ.items() if name != "SHIPPED"}
    tested = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout
