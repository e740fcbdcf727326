"""What may happen to a run and must not harm it, on real processes."""

import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from experiments.measuring.processor import VARIABLES, is_supported
from tests.examples import load_sweeps, tiny_sweeps
from tests.suite_process import CONFIG, ROOT, Suite, ends_within

pytestmark = pytest.mark.faults

STATUS = {SIGKILL: -9, SIGTERM: 143, SIGINT: 130}
SHORT_ROWS = CONFIG.replace("n_keys: 64", "n_keys: 8\n    n_queries: 16")  # which take less time


@pytest.fixture
def complete(tmp_path, made_once):
    """A copy of a finished run."""

    def fill(folder):
        status, _, said = Suite(folder, 4000, SHORT_ROWS).run("run")
        assert status == 0, said

    folder = tmp_path / "complete"
    shutil.copytree(made_once("complete", fill), folder)
    return Suite(folder, 4000, SHORT_ROWS)


def send(process, sent):
    """Send a signal to a run that goes on: Ctrl-C to its group, as in a terminal, others to it alone.

    The id of a run that has ended may be that of another process.
    """
    if process.poll() is None:
        if sent == SIGINT:
            os.killpg(process.pid, sent)
        else:
            process.send_signal(sent)


def wait_for_its_handlers(process):
    """Until then a signal ends Python as it would any program; how long that is depends on the
    machine's load.
    """
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        caught = re.search(r"SigCgt:\s*(\w+)", status.read_text())
        if caught and int(caught[1], 16) >> (SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


def wait_for_the_lock(results):
    """Until then a run may still be reading its config."""
    lock = results / ".lock"
    while not (lock.exists() and lock.read_text()):
        time.sleep(0.05)


def test_6_kills_at_random_moments_lose_nothing_and_change_no_byte(tmp_path, complete):
    suite = Suite(tmp_path, 4000, SHORT_ROWS)
    rng = random.Random(100)
    kept = {}
    for number, sent in enumerate(2 * [*STATUS]):
        process = suite.start("run")
        wait_for_its_handlers(process)
        # Every other time a chunk is finished, however long a loaded machine takes to start.
        while number % 2 and process.poll() is None and suite.records().keys() <= kept.keys():
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3 if number % 2 else 2))
        ended_by_itself = process.poll() is not None
        send(process, sent)
        _, said = process.communicate(timeout=30)
        assert ended_by_itself or process.returncode in (STATUS[sent], 0), said
        if process.returncode in (130, 143):
            assert said == "interrupted; finished work is kept; repeat the command to continue\n"
        assert ends_within(5, process.pid)
        now = suite.records()
        assert kept.items() <= now.items(), "a finished chunk was lost, or measured again"
        kept = now
    assert kept, "no run lived long enough to finish a chunk"
    assert suite.run("run")[0] == 0
    assert kept.items() <= suite.records().items()
    assert not [*suite.results.rglob("*.sdpa-part")]
    assert suite.tables() == complete.tables()


def test_a_second_run_on_the_same_folder_ends_at_once_and_a_dead_one_blocks_nobody(tmp_path):
    suite = Suite(tmp_path, trials=10**5)
    first = suite.start("run")
    wait_for_the_lock(suite.results)
    status, _, said = suite.run("run", timeout=30)
    assert status == 1
    holder = f"process {first.pid} on {os.uname().nodename}"
    assert said == f"{suite.results} is in use by {holder}; wait for it, or choose another folder\n"
    assert suite.run("plan")[0] == 0  # which only reads
    first.kill()
    first.communicate()
    suite.set_trials(100)
    assert suite.run("run", "second")[0] == 0


# A user's own settings: other instructions than those of the suite, and a C library without
# AVX-512.
SETTINGS = (
    {"OPENBLAS_CORETYPE": "Sandybridge", "NPY_DISABLE_CPU_FEATURES": "X86_V3"},
    {"NPY_ENABLE_CPU_FEATURES": "X86_V3", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F"},
)


@pytest.mark.skipif(
    not is_supported(), reason="this processor has no instructions in common with others"
)
def test_the_environment_changes_no_byte_of_a_table_a_figure_or_the_page(tmp_path):
    laws = {"inputs": ["gaussian", "lognormal"], "scaling": "d_k^1/3", "trials": 60}
    varied = {"experiment": "saturation", "d_k": 64, "n_keys": 16, "n_queries": 16} | laws
    load_sweeps(tmp_path, tiny_sweeps() | {"varied": varied})
    one, other = (
        made_in(tmp_path / str(number), tmp_path / "tiny.yaml", settings)
        for number, settings in enumerate(SETTINGS)
    )
    assert {Path(name).suffix for name in one} >= {".csv", ".json", ".png", ".html"}
    assert {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)} == set()


def made_in(folder, config, settings):
    """The files that a whole run writes, by name, without that of the folder."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    command = [sys.executable, "-m", "experiments", "all", "--config", config, "--results", folder]
    subprocess.run(command, cwd=ROOT, env=environment | settings, check=True)
    files = (path for path in folder.rglob("*.*") if ".cells" not in path.parts)
    return {
        path.relative_to(folder).as_posix(): path.read_bytes().replace(bytes(folder), b"")
        for path in files
        if path.name not in (".lock", ".made.json")
    }
