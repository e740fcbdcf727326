"""Records of finished chunks: exact, refused when anything about them is not right, and stale with
their source.
"""

import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.config.paths import STORE
from experiments.kinds import experiment_names
from experiments.kinds.rows import cell as rows
from experiments.measuring.chunk import Chunk
from experiments.measuring.experiment import load_experiment
from experiments.running import fingerprint
from experiments.running.files import locked
from experiments.running.store import RecordError, Store
from experiments.running.work import cell_chunks
from tests.examples import hashed_files
from tests.plain_rows import RULES

ROWS = rows.Cell(d_k=4, n_keys=5, scaling=RULES, n_queries=3)
CHUNK = Chunk(rows.EXPERIMENT, ROWS, 2, 3, seed=3)


@pytest.fixture
def kept(tmp_path):
    """A store with the record of one chunk."""
    filled = Store(tmp_path)
    filled.write(CHUNK, CHUNK.packed())
    return filled


@pytest.mark.parametrize("experiment", experiment_names())
def test_a_measurement_reads_back_to_the_bit(tmp_path, tiny, experiment):
    sweep = next(each for each in tiny[0].sweeps if each.experiment.name == experiment)
    chunk, filled = Chunk(sweep.experiment, sweep.cells[0], 1, 3, seed=3), Store(tmp_path)
    assert filled.state(chunk) == "missing"
    filled.write(chunk, chunk.packed())
    assert filled.state(chunk) == "sound"
    assert pickle.dumps(filled.read(chunk)) == pickle.dumps(chunk.measure())


def test_a_flipped_bit_is_noticed_wherever_it_is(kept):
    """Also in the record's own checksum."""
    content = kept.path(CHUNK).read_bytes()
    for place in (*range(0, len(content), 50), -1):
        flipped = bytearray(content)
        flipped[place] ^= 4
        kept.path(CHUNK).write_bytes(flipped)
        assert kept.state(CHUNK) == "damaged", place
        with pytest.raises(RecordError, match="got one that is damaged"):
            kept.read(CHUNK)


def test_a_sound_record_in_the_place_of_another_is_not_taken_for_it(kept):
    other = replace(CHUNK, index=5)
    kept.path(other).parent.mkdir(exist_ok=True)
    shutil.copy(kept.path(CHUNK), kept.path(other))
    assert kept.state(other) == "stale"
    with pytest.raises(RecordError, match="got one that is stale"):
        kept.read(other)


@pytest.mark.parametrize("made_by", ["store.measuring_source", "fingerprint.versions"])
def test_a_record_of_other_source_or_libraries_is_stale(kept, monkeypatch, made_by):
    monkeypatch.setattr(f"experiments.running.{made_by}", lambda *_: "another")
    assert kept.state(CHUNK) == "stale"


def test_a_number_that_is_not_finite_is_not_kept(monkeypatch):
    broken = rows.RowsMeasurement(np.array([[[1.0, np.nan]]]))
    monkeypatch.setattr(Chunk, "measure", lambda *_: broken)
    with pytest.raises(FloatingPointError, match=r"expected finite numbers in \.scores, got nan"):
        CHUNK.packed()


def test_chunks_follow_what_measures_them_tables_no_figure_and_pictures_all_code(
    tmp_path, monkeypatch
):
    """One file at a time gets a comment and another docstring, then a line of code more."""
    for package in ("sdpa", "experiments"):
        shutil.copytree(fingerprint.ROOT / package, tmp_path / package)
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    experiments = {name: load_experiment(name) for name in experiment_names()}

    def hashes():
        fingerprint.source.cache_clear()
        of_chunks = {name: fingerprint.measuring_source(of) for name, of in experiments.items()}
        later = {"tables": fingerprint.tables_source(), "pictures": fingerprint.suite_source()}
        return of_chunks | later

    def stale():
        now = hashes()
        return {name for name in now if now[name] != before[name]}

    before = hashes()
    for name, expected in {
        "sdpa/scaling.py": {*experiments, "tables"},
        "sdpa/theory/rows.py": {"tables"},
        "sdpa/theory/special/overlap.py": {"tables"},
        "sdpa/tools/heads/table.py": set(),
        "experiments/tables/analyse.py": {"tables"},
        "experiments/figures/draw.py": set(),
        "experiments/measuring/chunk.py": {*experiments, "tables"},
        "experiments/kinds/rows/cell.py": {"rows", "tables"},
        "experiments/kinds/rows/figures.py": set(),
        "experiments/kinds/network/tables.py": {"tables"},
        "experiments/kinds/saturation/figures/sizes.py": set(),
        "experiments/page/index.py": set(),
    }.items():
        path = tmp_path / name
        text = path.read_text()
        path.write_text(text.replace('"""', '"""Other. ', 1) + "# A comment.\n")
        assert stale() == set(), name
        path.write_text(f"{text}X = 1\n")
        assert stale() == {*expected, "pictures"}, name
        path.write_text(text)
    for name in ("experiments/README.md", "experiments/kinds/language/text/LICENSE"):
        (tmp_path / name).write_text("Other words.")
    assert stale() == set()
    text = next(tmp_path.glob("experiments/kinds/language/text/*.txt"))
    text.write_text(f"{text.read_text()}.")
    assert stale() == {"language", "tables", "pictures"}
    fingerprint.source.cache_clear()


@pytest.mark.parametrize(
    "text, different",
    [
        ("X = ```\n# VALUE\n```\n", 2),
        ("f(\n    # as:\n    ```VALUE```\n)\n", 2),
        ('X = ```as:\n```\nY = "VALUE"\nZ = ```\n```\n', 2),
        ("defaults = {'a':\n```VALUE```\n}\n", 2),
        ("X = '```'  # don't\nY = '''\n# VALUE\n'''\n", 2),
        ("def f(\n    x,\n):  # as: a name\n    ```VALUE```\n", 1),
    ],
)
def test_text_counts_unless_it_is_a_docstring_or_comment(tmp_path, monkeypatch, text, different):
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    module = text.replace("```", '"""')
    hashes = set()
    for value in ("one", "another"):
        (tmp_path / "module.py").write_text(module.replace("VALUE", value))
        fingerprint.source.cache_clear()
        hashes.add(fingerprint.source("*.py"))
    assert len(hashes) == different


def files_that_run(function):
    """The project files whose functions a call runs."""
    names = set()
    before = sys.gettrace()
    sys.settrace(lambda frame, *_: names.add(frame.f_code.co_filename))
    try:
        function()
    finally:
        sys.settrace(before)
    folders = tuple(f"{fingerprint.ROOT / package}/" for package in ("sdpa", "experiments"))
    return {Path(name) for name in names if name.startswith(folders)}


@pytest.mark.parametrize("experiment", experiment_names())
def test_all_files_that_run_for_a_measurement_count(tiny, experiment):
    """An independent route: the hash knows folders, and this test what runs."""
    config, folder = tiny
    sweep = next(each for each in config.sweeps if each.experiment.name == experiment)
    chunk = cell_chunks(Store(folder / STORE), sweep, sweep.cells[0])[0]
    ran = files_that_run(chunk.packed)
    assert fingerprint.ROOT / "experiments/measuring/chunk.py" in ran
    assert ran <= hashed_files(experiment)


def test_a_lock_removes_the_parts_of_killed_runs_but_for_folders_with_a_lock_of_their_own(tmp_path):
    parts = [tmp_path / folder / ".x.csv.1.sdpa-part" for folder in ("figures", "mine")]
    with locked(tmp_path / "mine"):
        parts[0].parent.mkdir()
    for part in parts:
        part.touch()
    with locked(tmp_path):
        assert [part.exists() for part in parts] == [False, True]
