"""README.md and docs/: their numbers are those of results/, their examples run, their commands and links exist."""

import importlib
import re
from pathlib import Path

import pytest

from experiments.harness.columns import cell_fields, defaults
from experiments.harness.config import load_config
from experiments.harness.discovery import experiment_names
from experiments.harness.experiment import load_experiment
from experiments.page.blocks import BlockError, rewrite
from experiments.steps.documents import read_pages
from tests.shipped import IS_SHIPPED, RESULTS, shipped_only

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FIGURES = RESULTS / "figures"
LARGEST = 12_000
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture
def pages(monkeypatch) -> dict[Path, str]:
    monkeypatch.chdir(ROOT)
    return read_pages()


@shipped_only
def test_generated_parts_are_those_of_the_results(pages):
    for path, text in rewrite(pages, Path("results")).items():
        assert pages[path] == text, path


def test_a_marker_that_is_missing_is_refused(pages):
    without = {path: text.replace("<!-- end headline -->", "") for path, text in pages.items()}
    with pytest.raises(BlockError, match=r"expected the blocks .*columns, .*once each, got "):
        rewrite(without, Path("results"))


def test_the_readme_is_short():
    assert len(README.encode()) < LARGEST


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@shipped_only
def test_the_python_of_the_readme_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    for block in blocks(README, "python"):
        exec(block, {})
    assert "unscaled" in capsys.readouterr().out


def test_the_config_of_the_readme_is_good(tmp_path):
    (block,) = blocks(README, "yaml")
    path = tmp_path / "mine.yaml"
    path.write_text(block)
    assert load_config(path).sweeps[0].name == "wide"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_are_targets(path):
    commands = re.findall(r"(?:^|`)make ([a-z-]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(commands) <= TARGETS


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    links = [path.parent / link for link in re.findall(r"\]\((?!https:)([^)#]+)\)", path.read_text(encoding="utf-8"))]
    missing = [link.resolve() for link in links if not link.exists()]
    # Figures of sweeps are those of the shipped config; a user may have deleted a sweep.
    assert [link for link in missing if IS_SHIPPED or FIGURES not in link.parents] == []


def test_every_config_key_is_described_with_its_default():
    table = (ROOT / "docs" / "config.md").read_text(encoding="utf-8").split("| key | meaning")[1].split("\n\n")[0]
    described = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", table, re.MULTILINE))
    cells = [load_experiment(name).cell for name in experiment_names()]
    of_every_sweep = {"experiment", "variants", "trials", "precision", "max_trials", "figures"}
    assert set(described) == of_every_sweep.union(*map(cell_fields, cells))
    usual = {name: value for cell in cells for name, value in defaults(cell).items()}
    for name, value in usual.items():
        default, *exceptions = described[name].split("; ")
        assert default.strip("`") == (f"{value:g}" if isinstance(value, float) else str(value))
        required = [
            f"required for `{experiment}`"
            for experiment, cell in zip(experiment_names(), cells, strict=True)
            if name in cell_fields(cell) and name not in defaults(cell)
        ]
        assert exceptions == required


def source_items() -> list[tuple[str, str]]:
    """Command or import, and file, of every row of the table of the sources."""
    text = (ROOT / "docs" / "worked-examples.md").read_text(encoding="utf-8")
    return re.findall(r"^\| \S+ \| .* \| `([^`]+)` \| (\S+) \|$", text, re.MULTILINE)


def test_every_item_of_the_sources_has_a_command_or_import_and_a_file():
    assert len(source_items()) >= 30
    for command, path in source_items():
        of_sweeps = FIGURES in (ROOT / path).parents and not IS_SHIPPED
        assert of_sweeps or (ROOT / path).exists(), path
        if command.startswith("make"):
            assert command.split()[1] in TARGETS
        else:
            _, module, _, name = command.split()
            assert hasattr(importlib.import_module(module), name), command


def test_every_example_is_listed_and_among_the_items_of_the_sources():
    from experiments.examples.declared import EXAMPLES
    from experiments.steps.examples import spelled

    listed = (ROOT / "docs" / "worked-examples.md").read_text(encoding="utf-8")
    commands = {command for command, _ in source_items()}
    for name in EXAMPLES:
        assert f"| `make walk EXAMPLE={spelled(name)}` |" in listed
        assert f"make walk EXAMPLE={spelled(name)}" in commands


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"\.PHONY: (.*)", makefile)[1].split()
    assert set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)) == set(phony)
