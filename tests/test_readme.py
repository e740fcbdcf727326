"""The README is what results/ and the code say: its numbers, its examples, its commands."""

import re
from pathlib import Path

import pytest

from experiments.harness.config import load_config
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.harness.grid import cell_fields, defaults
from experiments.harness.tables import read_sweep
from experiments.page.readme import ReadmeError, rewrite

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def shipped(monkeypatch):
    monkeypatch.chdir(ROOT)
    config = load_config(Path("config.yaml"))
    return config.sweeps, {sweep.name: read_sweep(Path("results"), config, sweep) for sweep in config.sweeps}


def test_its_numbers_are_those_of_the_results(shipped):
    assert rewrite(README, *shipped, Path("results")) == README


def test_a_marker_that_is_missing_or_unknown_is_refused(shipped):
    with pytest.raises(ReadmeError, match=r"expected one block each of findings, .*columns, got findings, measured"):
        rewrite(README.replace("<!-- begin slopes -->", ""), *shipped, Path("results"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_its_python_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    for block in blocks("python"):
        exec(block, {})
    assert "unscaled" in capsys.readouterr().out


def test_its_config_is_good(tmp_path):
    (block,) = blocks("yaml")
    path = tmp_path / "mine.yaml"
    path.write_text(block)
    assert load_config(path).sweeps[0].name == "wide"


def test_its_commands_are_targets_and_its_links_lead_somewhere():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE)
    assert len(commands) > 5
    assert set(commands) <= targets
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_every_config_key_is_in_its_table():
    table = README.split("| key | meaning")[1].split("\n\n")[0]
    described = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", table, re.MULTILINE))
    cells = [load_experiment(name).cell for name in experiment_names()]
    of_every_sweep = {"experiment", "trials", "precision", "max_trials", "figures"}
    assert set(described) == of_every_sweep.union(*map(cell_fields, cells))
    for name, value in {name: value for cell in cells for name, value in defaults(cell).items()}.items():
        assert described[name].strip("`") == (f"{value:g}" if isinstance(value, float) else str(value))
    figures = {figure for name in experiment_names() for figure in load_experiment(name).figures}
    assert all(f"`{figure}`" in table for figure in figures)


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"\.PHONY: (.*)", makefile)[1].split()
    assert set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)) == set(phony)
