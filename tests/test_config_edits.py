"""Edits of the shipped config.yaml: `make all`, then the tests that read results/, in a copy of the
tree.

Trials are cut, so that a run takes seconds; sweeps, axes, rules and figures are the shipped ones.
"""

import json
import os
import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from tests.suite_process import ROOT, captured

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".cells", ".lock", "*.svg", ".*_cache", ".hypothesis"
)
pytestmark = pytest.mark.edits


def with_few_trials(config: dict) -> dict:
    """The config with a twentieth of the trials, but at least 200 where there were more, and 20 in
    any case.

    Decoders take 25 steps: with 300 keys, 400 would take ten minutes of a core.
    """
    for body in config["sweeps"].values():
        if body["experiment"] == "language":
            body["steps"] = 25
        if "precision" in body:
            body["precision"] = 0.05
        else:
            least = 200 if body["trials"] > 200 else 20
            body["trials"] = min(body["trials"], max(body["trials"] // 20, least))
    return config


def run(tree: Path, *command: str) -> CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "SHIPPED"}
    return captured(*command, cwd=tree, env=environment)


def write_config(tree: Path, config: dict) -> None:
    """JSON is YAML without aliases, which the suite refuses."""
    (tree / "config.yaml").unlink(missing_ok=True)  # it may be a link to another tree's
    (tree / "config.yaml").write_text(json.dumps(config), encoding="utf-8")


@pytest.fixture
def tree(tmp_path) -> Path:
    """A copy of the tree with the shipped results, and without a measured chunk."""
    tree = shutil.copytree(ROOT, tmp_path / "tree", ignore=LEFT_OUT)
    (tree / ".venv").symlink_to(ROOT / ".venv")
    return tree


def with_other_axes(config: dict) -> None:
    """The first sweep of each experiment, and the first with a precision; with other widths, a single
    rule, rows of 5 keys, and a new name.
    """
    kinds: dict[tuple, str] = {}
    for name, body in config["sweeps"].items():
        kinds.setdefault((body["experiment"], "precision" in body), name)
    first, *others = kinds.values()
    kept = {"mine": first} | {name: name for name in others}
    config["sweeps"] = {new: config["sweeps"][name] for new, name in kept.items()}
    other = {
        "d_k": [8, 32, 128],
        "layers": [1, 2],
        "n_keys": 5,
        "n_queries": 3,
        "scaling": "d_k^3/4",
        "variants": [{}],
    }
    for body in config["sweeps"].values():
        body |= {key: value for key, value in other.items() if key in body}


def test_an_edited_config_runs_and_its_results_pass_the_tests(tree):
    config = yaml.safe_load((tree / "config.yaml").read_text(encoding="utf-8"))
    with_other_axes(with_few_trials(config))
    write_config(tree, config)
    results = tree / "results"
    statements = (results / "statements" / "statements.csv").read_bytes()
    ran = run(tree, "make", "--no-print-directory", "all")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    assert (results / "statements" / "statements.csv").read_bytes() == statements
    tests = ("tests/test_results.py", "tests/test_docs.py")
    tested = run(tree, ".venv/bin/python", "-m", "pytest", "-q", *tests)
    assert tested.returncode == 0, tested.stdout
