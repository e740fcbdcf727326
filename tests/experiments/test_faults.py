"""What may happen to a run and must not harm it, on real processes."""

import contextlib
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.measuring.processor import VARIABLES, is_supported
from tests.suite_process import ROOT, Suite, ends_within

pytestmark = pytest.mark.faults

OF_THE_RUN = (".lock", ".made.json")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
STATUS = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[int, dict[str, bytes]]:
    """The tables of runs that nothing happened to, by trials."""
    tables = {}

    def of(trials: int) -> dict[str, bytes]:
        if trials not in tables:
            suite = Suite(tmp_path_factory.mktemp("undisturbed"), trials)
            assert suite.run("run")[0] == 0
            tables[trials] = suite.tables()
        return tables[trials]

    return of


def wait_for_its_handlers(process: subprocess.Popen[str]) -> None:
    """Until then a signal ends Python as it would any program; how long that is depends on the machine's load."""
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        caught = re.search(r"SigCgt:\s*(\w+)", status.read_text())
        if caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


def wait_for_the_lock(results: Path) -> None:
    """Until then a run may still be reading its config."""
    lock = results / ".lock"
    while not (lock.exists() and lock.read_text()):
        time.sleep(0.05)


def disturb(suite: Suite, kills: int, seed: int) -> None:
    """Kill runs at random moments, each signal in turn; what was finished stays as it is, and nothing lives on."""
    rng = random.Random(seed)
    kept: dict[str, int] = {}
    for kill in range(kills):
        process = suite.start("run")
        # At any moment, and every other time while chunks are finished, however long a loaded machine takes to start.
        while kill % 2 and process.poll() is None and set(suite.records()) <= set(kept):
            time.sleep(0.02)
        wait_for_its_handlers(process)
        time.sleep(rng.uniform(0, 1) if kill % 2 else rng.uniform(0, 3.0))
        ended_by_itself = process.poll() is not None
        sent = SIGNALS[kill % len(SIGNALS)]
        with contextlib.suppress(ProcessLookupError):
            # Ctrl-C reaches the whole group, as in a terminal; the others the run alone.
            (os.killpg if sent == signal.SIGINT else os.kill)(process.pid, sent)
        _, said = process.communicate(timeout=30)
        assert ended_by_itself or process.returncode in (STATUS[sent], 0), said
        if process.returncode in (130, 143):
            assert re.fullmatch(r"interrupted; finished work is kept; repeat the command to continue\n", said)
        assert ends_within(5, process.pid)
        now = suite.records()
        assert {name: now.get(name) for name in kept} == kept, "a finished chunk was lost, or measured again"
        kept = now
    assert kept, "no run lived long enough to finish a chunk"
    status, _, said = suite.run("run")
    assert (status, said) == (0, "")
    now = suite.records()
    assert {name: now[name] for name in kept} == kept
    assert suite.temporary_files() == []


@pytest.mark.parametrize("seed", range(2))
def test_12_kills_lose_nothing(tmp_path, undisturbed, seed):
    suite = Suite(tmp_path, trials=8000)
    disturb(suite, kills=6, seed=100 + seed)
    assert suite.tables() == undisturbed(8000)


def test_a_damaged_record_is_measured_again_alone_and_a_damaged_table_is_made_good(tmp_path, undisturbed):
    suite = Suite(tmp_path, trials=2000)
    suite.run("run")
    before = suite.records()
    victim = next(path for path in (suite.results / ".cells").rglob("[0-9a-f]*") if path.is_file())
    content = victim.read_bytes()
    victim.write_bytes(content[:200] + bytes([content[200] ^ 4]) + content[201:])
    status, said, _ = suite.run("run")
    assert status == 0
    assert f"{victim} is damaged; measuring it again" in said
    after = suite.records()
    assert {name for name in before if after[name] != before[name]} == {victim.name}
    table = suite.results / "derived/second/histogram.csv"
    table.write_bytes(table.read_bytes()[:-9] + b"7" + table.read_bytes()[-8:])
    status, _, said = suite.run("check")
    assert (status, "histogram.csv has been altered" in said) == (1, True)
    assert suite.run("run")[0] == 0
    assert suite.records() == after
    assert suite.tables() == undisturbed(2000)


def test_a_second_run_on_the_same_folder_ends_at_once_and_a_dead_one_blocks_nobody(tmp_path):
    suite = Suite(tmp_path, trials=10**6)
    first = suite.start("run")
    wait_for_the_lock(suite.results)
    status, _, said = suite.run("run", timeout=30)
    assert status == 1
    holder = f"process {first.pid} on {os.uname().nodename}"
    assert said == f"{suite.results} is in use by {holder}; wait for it, or choose another folder\n"
    assert suite.run("draw", timeout=30)[0] == 1
    assert suite.run("plan")[0] == 0  # which only reads
    first.kill()
    first.communicate()
    assert ends_within(5, first.pid)
    suite.set_trials(100)
    assert suite.run("run")[0] == 0


def limited(size: int):
    """No file may grow beyond that size: the system answers as it does where a disk is full."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def test_a_disk_that_is_full_stops_the_run_and_leaves_old_tables_whole(tmp_path):
    suite = Suite(tmp_path, trials=1000)
    suite.run("run")
    tables, records = suite.tables(), suite.records()
    suite.set_trials(4000)
    status, _, said = suite.run("run", preexec_fn=limited(20_000))
    assert status == 1
    assert re.fullmatch(rf"{suite.results}/\S+: cannot write: File too large\n", said)
    assert suite.tables() == tables
    assert suite.temporary_files() == []
    now = suite.records()
    assert {name: now[name] for name in records} == records


@pytest.mark.parametrize("sent", SIGNALS)
def test_no_worker_goes_on_with_a_long_chunk(tmp_path, sent):
    """A chunk of these cells takes some ten seconds and more; what a worker is at is given up."""
    suite = Suite(tmp_path, trials=10)
    suite.config.write_text(
        "seed: 0\nsweeps:\n  large:\n    experiment: saturation\n    d_k: [4096, 4000]\n    n_keys: 16384\n"
        "    n_queries: 512\n    scaling: d_k^1/2\n    trials: 4\n"
    )
    process = suite.start("run")
    wait_for_the_lock(suite.results)
    time.sleep(3)
    assert suite.records() == {}
    (os.killpg if sent == signal.SIGINT else os.kill)(process.pid, sent)
    process.communicate(timeout=10)
    assert process.returncode == STATUS[sent]
    assert ends_within(5, process.pid)


# A user's own settings: other instructions than those of the suite, and at last a C library without AVX-512.
SETTINGS = (
    {"OPENBLAS_CORETYPE": "Sandybridge", "NPY_DISABLE_CPU_FEATURES": "X86_V3"},
    {
        "OPENBLAS_CORETYPE": "SkylakeX",
        "NPY_ENABLE_CPU_FEATURES": "X86_V3",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F",
    },
)


@pytest.mark.skipif(not is_supported(), reason="this processor has no instructions in common with others")
def test_the_environment_changes_no_byte_of_a_table_a_figure_or_the_page(tmp_path):
    made = []
    for number, settings in enumerate(SETTINGS):
        folder = tmp_path / str(number) / "out"
        environment = {name: value for name, value in os.environ.items() if name not in VARIABLES} | settings
        ran = subprocess.run(
            [sys.executable, "-m", "experiments", "all", "--config", "quick.yaml", "--results", folder],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        files = (path for path in folder.rglob("*.*") if ".cells" not in path.parts and path.name not in OF_THE_RUN)
        made.append({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})
    one, other = made
    assert {Path(name).suffix for name in one} >= {".csv", ".json", ".png", ".html"}
    assert {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)} == set()
