"""Records of finished chunks: exact, refused when anything about them is not right, and stale with
their source.
"""

import dataclasses
import pickle
import random
import shutil
import sys
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

from experiments.analysis.analyse import analyse
from experiments.kinds import experiment_names, rows
from experiments.measuring.chunk import Chunk, measure_chunk
from experiments.measuring.experiment import load_experiment
from experiments.paths import STORE
from experiments.running import fingerprint, store
from experiments.running.store import RecordError, Store, measure_record
from experiments.running.work import cell_chunks, tabulate_sweep
from sdpa import LAWS, scaling
from tests.experiments.test_every_experiment import CELLS
from tests.plain_rows import RULES

ROWS = rows.Cell(d_k=4, n_keys=5, scaling=RULES, n_queries=3)
CHUNKS = {name: Chunk(load_experiment(name), cell, 1, 3) for name, (cell, _) in CELLS.items()} | {
    "rows": Chunk(rows.EXPERIMENT, ROWS, 2, 3)
}
FINGERPRINTED = ("saturation", "rows", "distribution", "language")
CHUNK = CHUNKS["rows"]


@pytest.fixture
def kept(tmp_path):
    """A store with the record of one chunk."""
    filled = Store(tmp_path, seed=3)
    filled.write(CHUNK, measure_record(CHUNK, 3, filled.stamp(CHUNK)))
    return filled


@pytest.mark.parametrize("experiment", CHUNKS)
def test_a_measurement_reads_back_to_the_bit(tmp_path, experiment):
    chunk, filled = CHUNKS[experiment], Store(tmp_path, seed=3)
    assert filled.state(chunk) == "missing"
    filled.write(chunk, measure_record(chunk, 3, filled.stamp(chunk)))
    assert filled.state(chunk) == "sound"
    assert pickle.dumps(filled.read(chunk)) == pickle.dumps(measure_chunk(chunk, 3))


def test_each_of_200_flipped_bits_is_noticed(kept):
    """And so it is in the record's own checksum."""
    content = kept.path(CHUNK).read_bytes()
    places = {*random.Random(5).sample(range(8 * len(content)), 198), 0, 8 * len(content) - 1}
    for place in places:
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        kept.path(CHUNK).write_bytes(bytes(flipped))
        assert kept.state(CHUNK) == "damaged", place
        with pytest.raises(RecordError, match="got one that is damaged"):
            kept.read(CHUNK)


@pytest.mark.parametrize("content", [b"", b"x" * 1000, None])
def test_an_empty_truncated_or_foreign_record_is_noticed(kept, content):
    whole = kept.path(CHUNK).read_bytes()
    kept.path(CHUNK).write_bytes(whole[:-1] if content is None else content)
    assert kept.state(CHUNK) == "damaged"


def test_a_sound_record_in_the_place_of_another_is_not_taken_for_it(kept):
    other = dataclasses.replace(CHUNK, index=5)
    kept.path(other).parent.mkdir(exist_ok=True)
    shutil.copy(kept.path(CHUNK), kept.path(other))
    assert kept.state(other) == "stale"
    with pytest.raises(RecordError, match="expected the record of"):
        kept.read(other)


@pytest.mark.parametrize("made_by", ["measuring_fingerprint", "versions"])
def test_a_record_of_other_source_or_libraries_is_stale(kept, monkeypatch, made_by):
    monkeypatch.setattr(store, made_by, lambda *_: "another")
    assert kept.state(CHUNK) == "stale"


def test_a_number_that_is_not_finite_is_not_kept(monkeypatch):
    broken = rows.RowsMeasurement(np.array([[[1.0, np.nan]]]))
    monkeypatch.setattr(store, "measure_chunk", lambda *_: broken)
    with pytest.raises(FloatingPointError, match=r"expected finite numbers in \.scores, got nan"):
        measure_record(CHUNK, 0, {})


@pytest.fixture
def copied_sources(tmp_path, monkeypatch):
    """A copy of both packages, and a function that reads the fingerprints of their files."""

    def forget():
        for name in ("_code_of", "_file", "measuring_fingerprint", "tables_fingerprint"):
            getattr(fingerprint, name).cache_clear()

    def fingerprints():
        forget()
        measuring = {name: fingerprint.measuring_fingerprint(name) for name in FINGERPRINTED}
        others = {
            "tables": fingerprint.tables_fingerprint("saturation"),
            "theory": fingerprint.theory_fingerprint("experiments/models/heads.py"),
        }
        return measuring | others | {"worker": fingerprint.worker_fingerprint(*FINGERPRINTED)}

    for package in ("sdpa", "experiments"):
        shutil.copytree(fingerprint.ROOT / package, tmp_path / package)
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    yield tmp_path, fingerprints
    forget()


def test_a_comment_changes_no_fingerprint(copied_sources):
    folder, fingerprints = copied_sources
    before = fingerprints()
    for path in (
        "sdpa/diagnostics.py",
        "experiments/measuring/chunk.py",
        "experiments/analysis/analyse.py",
        "sdpa/theory/limits.py",
    ):
        source = folder / path
        source.write_text(f"# A comment.\n{source.read_text()}\n# Another.\n")
    assert fingerprints() == before


def test_changed_code_changes_the_fingerprint(copied_sources):
    """One module at a time gets a line more."""
    folder, fingerprints = copied_sources
    before = fingerprints()
    for path, changed in {
        "sdpa/diagnostics.py": {"saturation", "worker", "tables"},
        "sdpa/scaling.py": {"worker"},
        "sdpa/theory/rows.py": {"tables", "theory"},
        "experiments/figures/lines.py": set(),
        "experiments/measuring/chunk.py": {*FINGERPRINTED, "worker", "tables"},
        "experiments/measuring/row_metrics.py": {"saturation", "worker", "tables"},
        "experiments/kinds/rows.py": {"rows", "worker"},
    }.items():
        text = (folder / path).read_text()
        (folder / path).write_text(text + "\nX = 1\n")
        after = fingerprints()
        assert {name for name in before if after[name] != before[name]} == changed, path
        (folder / path).write_text(text)
    assert fingerprints() == before


def files_that_run(function):
    """The project files whose functions a call runs."""
    names: set[str] = set()
    before = sys.gettrace()
    sys.settrace(lambda frame, *_: names.add(frame.f_code.co_filename))
    try:
        function()
    finally:
        sys.settrace(before)
    folders = [f"{fingerprint.ROOT / package}/" for package in ("sdpa", "experiments")]
    paths = [Path(name) for name in names if any(name.startswith(folder) for folder in folders)]
    return {path.relative_to(fingerprint.ROOT).as_posix() for path in paths}


def without(files, patterns):
    return {file for file in files if not any(fnmatch(file, pattern) for pattern in patterns)}


@pytest.mark.parametrize("experiment", experiment_names())
def test_all_files_that_run_for_a_table_count_or_are_declared_not_to(tiny, experiment):
    """An independent route: the fingerprint follows imports, and this test what runs."""
    config, folder = tiny
    sweep = next(each for each in config.sweeps if each.experiment.name == experiment)
    kept = Store(folder / STORE, sweep.seed)
    chunk = cell_chunks(kept, sweep, sweep.cells[0])[0]

    ran = files_that_run(lambda: measure_chunk(chunk, sweep.seed))
    assert f"experiments/kinds/{experiment}.py" in fingerprint.measuring_code(experiment)
    assert without(ran, fingerprint.STAMPED) <= {*fingerprint.measuring_code(experiment)}

    ran = files_that_run(lambda: analyse(sweep, tabulate_sweep(kept, sweep)))
    assert "experiments/analysis/analyse.py" in ran
    assert without(ran, fingerprint.STAMPED + fingerprint.AROUND) <= {
        *fingerprint.tables_code(experiment)
    }


def test_a_law_or_rule_that_means_something_else_makes_its_results_stale(monkeypatch):
    """And no others: the law's own code and moments count, and the divisors, not the modules that
    hold them.
    """
    chunk, law = CHUNKS["saturation"], LAWS["uniform"]

    def named(inputs):
        cell = dataclasses.replace(chunk.cell, inputs=inputs)
        return Store(Path(), 0).stamp(dataclasses.replace(chunk, cell=cell))["named"]

    before = named(law)
    assert named(LAWS["gaussian"]) != before
    assert named(dataclasses.replace(law, sample=LAWS["gaussian"].sample)) != before
    assert named(dataclasses.replace(law, moments=(0, 1, 0, 1, 0, 1))) != before
    with monkeypatch.context() as patched:
        patched.setattr(scaling, "_function", lambda _: lambda sizes: 1.01 * sizes["d_k"])
        assert named(law) != before
    doubled = property(lambda rule: 2 * rule.power_of("d_k"))
    monkeypatch.setattr(scaling.Scaling, "exponent", doubled)
    assert named(law) != before
