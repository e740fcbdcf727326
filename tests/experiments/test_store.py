"""Records of finished chunks: exact, refused when anything about them is not right, and stale with their source."""

import ast
import dataclasses
import random
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from experiments import distribution, rows, sampling, saturation, training
from experiments.harness import fingerprint, store
from experiments.harness.fingerprint import measuring_fingerprint, source_fingerprint
from experiments.harness.grid import Chunk
from experiments.harness.measuring import measure_chunk
from experiments.harness.store import RecordError, Store, measure_record
from sdpa import LAWS, Scaling, scaling

SCALINGS = tuple(map(Scaling.parse, ("unscaled", "d_k^1/2")))
CHUNKS = {
    "saturation": Chunk(saturation.EXPERIMENT, saturation.Cell(d_k=4, n_keys=5, scaling=SCALINGS, n_queries=3), 0, 7),
    "rows": Chunk(rows.EXPERIMENT, sampling.Cell(d_k=4, n_keys=5, scaling=SCALINGS, n_queries=3), 2, 3),
    "distribution": Chunk(distribution.EXPERIMENT, distribution.Cell(d_k=4), 1, 50),
    "training": Chunk(training.EXPERIMENT, training.Cell("pair", 4, 5, 0.1, SCALINGS, steps=11, n_sequences=3), 1, 2),
}
CHUNK = CHUNKS["rows"]


@pytest.fixture
def kept(tmp_path) -> Store:
    """A store with the record of one chunk."""
    filled = Store(tmp_path, seed=3)
    filled.write(CHUNK, measure_record(CHUNK, 3, filled.stamp(CHUNK)))
    return filled


def same(one, other) -> bool:
    if dataclasses.is_dataclass(one):
        return type(one) is type(other) and all(
            same(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one)
        )
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and np.array_equal(one, other)


@pytest.mark.parametrize("experiment", CHUNKS)
def test_a_measurement_reads_back_to_the_bit(tmp_path, experiment):
    chunk, filled = CHUNKS[experiment], Store(tmp_path, seed=3)
    assert filled.state(chunk) == "missing"
    filled.write(chunk, measure_record(chunk, 3, filled.stamp(chunk)))
    assert filled.state(chunk) == "sound"
    assert same(filled.read(chunk), measure_chunk(chunk, 3))


def test_each_of_200_flipped_bits_is_noticed(kept):
    """And so it is in the record's own checksum."""
    content = kept.path(CHUNK).read_bytes()
    places = {*random.Random(5).sample(range(8 * len(content)), 198), 0, 8 * len(content) - 1}
    for place in places:
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        kept.path(CHUNK).write_bytes(bytes(flipped))
        assert kept.state(CHUNK) == "damaged", place
        with pytest.raises(RecordError, match=r"expected SHA-256"):
            kept.read(CHUNK)


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 1000, None])
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


@dataclass(frozen=True)
class CopiedSources:
    """A copy of both packages, whose fingerprints follow from what is in its files."""

    folder: Path

    def fingerprints(self) -> dict[str, str]:
        source_fingerprint.cache_clear()
        return {name: measuring_fingerprint(chunk.experiment) for name, chunk in CHUNKS.items()} | {
            "tables": fingerprint.tables_fingerprint(saturation.EXPERIMENT)
        }


@pytest.fixture
def copied_sources(tmp_path, monkeypatch):
    for package in ("sdpa", "experiments"):
        shutil.copytree(fingerprint._package_folder(package), tmp_path / package)
    monkeypatch.setattr(fingerprint, "_package_folder", lambda package: tmp_path / package)
    parsed = cache(ast.parse)
    monkeypatch.setattr(fingerprint, "_parsed", lambda name: parsed(fingerprint._path(name).read_bytes()))
    yield CopiedSources(tmp_path)
    source_fingerprint.cache_clear()


def test_a_comment_changes_no_fingerprint(copied_sources):
    before = copied_sources.fingerprints()
    for path in ("sdpa/diagnostics.py", "experiments/harness/seeds.py", "experiments/analysis/__init__.py"):
        source = copied_sources.folder / path
        source.write_text(f"# A comment.\n{source.read_text()}\n# Another.\n")
    assert copied_sources.fingerprints() == before


def test_changed_code_changes_the_fingerprint(copied_sources):
    """One module at a time gets a line more."""
    before = copied_sources.fingerprints()
    for path, changed in {
        "sdpa/diagnostics.py": {"saturation"},
        "sdpa/scaling.py": set(),
        "sdpa/inputs.py": set(),
        "sdpa/_names.py": set(),
        "sdpa/theory/rows.py": {"tables"},
        "experiments/harness/run.py": {"tables"},
        "experiments/harness/tables.py": {"tables"},
        "experiments/figures/lines.py": set(),
        "experiments/harness/seeds.py": {*CHUNKS, "tables"},
        "experiments/statistics/moments.py": {"saturation", "distribution", "training", "tables"},
        "experiments/distribution.py": {"distribution", "tables"},
        "experiments/training.py": {"training", "tables"},
        "sdpa/training.py": {"training", "tables"},
        "experiments/__main__.py": set(),
    }.items():
        source = copied_sources.folder / path
        text = source.read_text()
        source.write_text(text + "\nX = 1\n")
        after = copied_sources.fingerprints()
        assert {name for name in before if after[name] != before[name]} == changed, path
        source.write_text(text)
    assert copied_sources.fingerprints() == before


def test_a_law_or_rule_that_means_something_else_makes_its_results_stale(monkeypatch):
    """And no others: the law's own code and moments count, and the divisors, not the modules that hold them."""
    law = LAWS["uniform"]
    uniform = dataclasses.replace(CHUNKS["saturation"], cell=dataclasses.replace(CHUNKS["saturation"].cell, inputs=law))
    before = [Store(Path(), 0).stamp(chunk) for chunk in (CHUNKS["saturation"], uniform)]
    assert before[0]["named"] != before[1]["named"]
    for other in (
        dataclasses.replace(law, sample=LAWS["gaussian"].sample),
        dataclasses.replace(law, moments=(0, 1, 0, 1, 0, 1)),
    ):
        changed = dataclasses.replace(uniform.cell, inputs=other)
        assert Store(Path(), 0).stamp(dataclasses.replace(uniform, cell=changed))["named"] != before[1]["named"]
    with monkeypatch.context() as patched:
        patched.setitem(scaling.FACTORS, "d_k", lambda d_k, _: 1.01 * d_k)
        assert Store(Path(), 0).stamp(uniform)["named"] != before[1]["named"]
    monkeypatch.setattr(scaling.Scaling, "exponent", property(lambda rule: 2 * rule.power_of("d_k")))
    assert Store(Path(), 0).stamp(uniform)["named"] != before[1]["named"]
