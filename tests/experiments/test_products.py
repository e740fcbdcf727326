"""Products are made again if what they follow from changed; files of no sweep are listed and pruned."""

import dataclasses
from functools import partial
from pathlib import Path

import pytest

from experiments.harness import products
from experiments.harness.products import Product, build
from tests.command_line import SMALL


def copied(path: Path) -> list[bytes]:
    return [path.read_bytes(), b"a text"]


def fail() -> list[bytes]:
    raise ValueError("a product that nobody can make")


@pytest.fixture
def made(tmp_path) -> Product:
    """A product of one input."""
    (tmp_path / "in.csv").write_text("x\n1\n")
    files = (tmp_path / "out.csv", tmp_path / "below" / "out.txt")
    product = Product(files, partial(copied, tmp_path / "in.csv"), (tmp_path / "in.csv",), {"seed": 0})
    assert built(tmp_path, product) == ["new"]
    assert built(tmp_path, product) == ["up to date"]
    return product


def built(folder: Path, *listed: Product) -> list[str]:
    told: list[str] = []
    build(folder, listed, lambda _, change: told.append(change.kind if change else "up to date"))
    return told


@pytest.mark.parametrize("name", ["out.csv", "below/out.txt", "in.csv"])
@pytest.mark.parametrize("content", ["x\n2\n", None])
def test_a_changed_or_missing_file_is_made_again(made, tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content) if content else path.unlink()
    if name == "in.csv" and not content:
        with pytest.raises(FileNotFoundError):
            built(tmp_path, made)
        return
    assert built(tmp_path, made) != ["up to date"]
    assert [file.read_bytes() for file in made.files] == made.make()
    assert built(tmp_path, made) == ["up to date"]


def test_other_parameters_source_or_libraries_make_it_again(made, tmp_path, monkeypatch):
    other = dataclasses.replace(made, parameters={"seed": 1})
    assert built(tmp_path, other) == ["unchanged"]
    monkeypatch.setattr(products, "source_of_the_suite", lambda: "other")
    assert built(tmp_path, other) == ["unchanged"]
    monkeypatch.setattr(products, "versions", lambda *_: {"numpy": "0"})
    assert built(tmp_path, other) == ["unchanged"]
    assert built(tmp_path, other) == ["up to date"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"out.csv": 3}'])
def test_a_damaged_ledger_makes_everything_again(made, tmp_path, content):
    (tmp_path / ".made.json").write_text(content)
    assert built(tmp_path, made) == ["unchanged"]


def test_a_product_that_fails_stops_no_other(made, tmp_path):
    bad = Product((tmp_path / "bad.csv",), fail)
    good = dataclasses.replace(made, parameters=None)
    told: list[Path] = []
    with pytest.raises(ValueError, match="nobody can make"):
        build(tmp_path, [bad, good], lambda path, _: told.append(path))
    assert told == [good.files[0]]


def test_what_a_renamed_sweep_leaves_is_listed_and_pruned_if_the_suite_wrote_it(suite):
    for command in ("run", "draw"):
        suite(command, text=f"{SMALL}    figures: length\n")
    owned = ["derived/mine/slopes.csv", "derived/mine/verdicts.csv", "mine.json", "mine.csv"]
    figures = sorted((suite.folder / "figures" / "mine").iterdir())
    notes = {name: suite.folder / name for name in ("mine-notes.csv", "budget.csv")}
    for path in notes.values():
        path.write_text("of a user")
    renamed = SMALL.replace("mine", "yours")
    for command in ("plan", "check"):
        said = suite(command, text=renamed).stdout
        (line,) = [line for line in said.splitlines() if "make prune with the same config removes them" in line]
        assert all(f"{suite.folder}/{name}" in line for name in owned)
        assert all(str(path) in line for path in figures)
        assert f"in this config (make prune keeps them): {notes['budget.csv']}, {notes['mine-notes.csv']}\n" in said
    pruned = suite("prune")
    assert (pruned.returncode, pruned.stderr) == (0, "")
    assert pruned.stdout.count("removed ") == len(owned) + len(figures)
    assert not any(path.exists() for path in (*figures, *(suite.folder / name for name in owned)))
    assert all(path.read_text() == "of a user" for path in notes.values())
    assert "no leftover files to remove" in suite("prune").stdout


def test_prune_keeps_what_a_sweep_owns_and_what_was_changed_by_hand(suite):
    suite("run", text=f"{SMALL}    figures: [length, saturation]\n")
    suite("draw")
    (suite.folder / "derived/mine/slopes.csv").write_text("changed by hand")
    suite("prune", text=f"{SMALL}    figures: length\n")
    left = {path.name for path in (suite.folder / "figures" / "mine").iterdir()}
    assert left == {"length.png", "length.txt"}
    assert (suite.folder / "mine.csv").exists()
    (suite.folder / "figures/mine/length.png").write_text("changed by hand")
    suite("prune", text=SMALL.replace("mine", "yours"))
    assert (suite.folder / "derived/mine/slopes.csv").read_text() == "changed by hand"
    assert (suite.folder / "figures/mine/length.png").exists()
    assert not (suite.folder / "mine.csv").exists()
