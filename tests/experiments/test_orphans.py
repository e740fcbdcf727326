"""Files without a sweep, and those of killed runs: listed, and removed if the suite wrote them."""

from tests.command_line import SMALL


def test_what_a_renamed_sweep_leaves_is_listed_and_pruned_if_the_suite_wrote_it(suite):
    for command in ("run", "draw"):
        suite(command, text=f"{SMALL}    figures: length\n")
    owned = ["derived/mine/slopes.csv", "derived/mine/verdicts.csv", "mine.json", "mine.csv"]
    figures = sorted((suite.folder / "figures" / "mine").iterdir())
    notes = {name: suite.folder / name for name in ("mine-notes.csv", "budget.csv", "figures/mine/variance2.png")}
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
    suite("prune", text=SMALL.replace("mine", "yours"))
    assert (suite.folder / "derived/mine/slopes.csv").read_text() == "changed by hand"
    assert not (suite.folder / "mine.csv").exists()
    assert not (suite.folder / "figures" / "mine").exists()


def test_what_killed_runs_left_half_written_is_cleared_and_nothing_else(suite):
    left = [suite.folder / name for name in (".a.sdpa-part", "figures/mine/.b.sdpa-part", ".cells/ab/.c.sdpa-part")]
    others = [suite.folder / name for name in ("another/.d.sdpa-part", "another/.lock", ".a.part", "notes.txt")]
    for path in (*left, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert suite("run").returncode == 0
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in others)
