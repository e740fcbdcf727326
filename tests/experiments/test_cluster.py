"""Runs on a Dask cluster, on real processes: a scheduler and workers as a user starts them, on this machine."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.measuring.processor import is_supported
from tests.suite_process import ROOT, Suite

pytestmark = pytest.mark.cluster

TRIALS = 3000
CONTINUE = r"finished work is kept; repeat the command to continue\n"
# The trials of each cell follow from a pilot.
PRECISE = """\
  precise:
    experiment: saturation
    d_k: [16, 64]
    n_keys: 64
    scaling: [unscaled, d_k^1/2]
    precision: 0.01
"""
# Loaded into a worker: a chunk of this cell kills its process, as the kernel does when memory runs out.
KILLING = """
import os, signal
from experiments.run import cluster

measure = cluster.measure_record

def deadly(chunk, seed, stamp):
    if chunk.cell.d_k == 200:
        os.kill(os.getpid(), signal.SIGKILL)
    return measure(chunk, seed, stamp)

def dask_setup(worker):
    cluster.measure_record = deadly
"""


class Cluster:
    """A scheduler and workers; each worker is a group of processes, its nanny and the process that measures."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start("scheduler", "--host=127.0.0.1", "--port=0", f"--scheduler-file={self.file}")
        wait_for(self.file.exists)
        time.sleep(0.2)  # until the file is whole
        self.address = json.loads(self.file.read_text())["address"]

    def start(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{words[0]}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [Path(sys.executable).with_name("dask"), *words, "--no-dashboard"],
                cwd=self.folder,
                env=os.environ | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def worker(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        return self.start("worker", self.address, "--nthreads=1", *words, **environment)

    def wait_for_workers(self, number: int) -> None:
        wait_for(lambda: self.log("worker").count("Registered to") == number)

    def log(self, kind: str) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob(f"{kind}*.log")))

    def tasks(self) -> int:
        """Tasks that the scheduler knows now."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))

    def close(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    with contextlib.closing(Cluster(tmp_path / "cluster")) as made:
        yield made


@pytest.fixture
def suite(tmp_path) -> Suite:
    return precise(Suite(tmp_path, TRIALS))


def precise(suite: Suite) -> Suite:
    suite.config.write_text(suite.config.read_text() + PRECISE)
    return suite


@pytest.fixture(scope="module")
def local_tables(tmp_path_factory) -> dict[str, bytes]:
    """The tables of a run on local processes."""
    suite = precise(Suite(tmp_path_factory.mktemp("local"), TRIALS))
    assert suite.run("run")[0] == 0
    return suite.tables()


def wait_for(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def on_a_new_cluster(suite: Suite, address: str) -> subprocess.Popen[str]:
    """A run that has measured its two pilots on a cluster, and has begun with the chunks."""
    process = suite.start("run", "--scheduler", address)
    wait_for(lambda: len(suite.records()) > 2 or process.poll() is not None)
    return process


def resumes(suite: Suite, local_tables: dict[str, bytes]) -> bool:
    """True if a run on local processes keeps every record and gives the same tables."""
    kept = suite.records()
    assert suite.run("run")[0] == 0
    return {name: suite.records()[name] for name in kept} == kept and suite.tables() == local_tables


def test_killed_workers_and_those_that_leave_cost_their_chunks_alone(suite, cluster, local_tables):
    killed, restarted, left, _ = (cluster.worker() for _ in range(4))
    cluster.wait_for_workers(4)
    process = on_a_new_cluster(suite, cluster.address)
    os.killpg(killed.pid, signal.SIGKILL)
    children = subprocess.run(["pgrep", "-P", str(restarted.pid), "-f", "spawn_main"], capture_output=True, text=True)
    os.kill(int(children.stdout.split()[-1]), signal.SIGKILL)  # its nanny starts another
    left.terminate()  # as a queueing system does
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert "lost worker tcp://" in out
    assert suite.tables() == local_tables


def test_a_cell_that_kills_every_worker_is_named_and_all_else_is_kept(suite, cluster, local_tables):
    (cluster.folder / "killing.py").write_text(KILLING)
    for _ in range(2):
        cluster.worker(f"--preload={cluster.folder}/killing.py")
    status, _, err = suite.run("run", "--scheduler-file", str(cluster.file))
    assert status == 1
    assert re.match(r"sweep first, cell d_k=200, .*: a worker process died \(killed, or out of memory\)", err)
    assert resumes(suite, local_tables)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_scheduler_ends_the_run_and_a_later_one_resumes(suite, cluster, local_tables, sent):
    cluster.worker()
    process = on_a_new_cluster(suite, cluster.address)
    os.killpg(cluster.scheduler.pid, sent)
    started = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 30
    assert process.returncode == 1
    assert re.match(rf"(lost the|no) scheduler (at|answers at) {cluster.address}", err)
    assert resumes(suite, local_tables)


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_an_interrupted_client_leaves_no_task_behind(suite, cluster, sent, status):
    for _ in range(2):
        cluster.worker()
    suite.set_trials(10**6)
    process = on_a_new_cluster(suite, cluster.address)
    process.send_signal(sent)
    _, err = process.communicate(timeout=20)
    assert process.returncode == status
    assert sent == signal.SIGKILL or re.fullmatch(f"interrupted; {CONTINUE}", err)
    wait_for(lambda: cluster.tasks() == 0, seconds=15)


def another_copy(folder: Path, line: str) -> dict[str, str]:
    """The environment of a worker with another copy of the suite, which has this line too."""
    for package in ("sdpa", "experiments"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    measuring = folder / "experiments" / "measuring" / "chunk.py"
    measuring.write_text(f"{measuring.read_text()}\n{line}\n")
    return {"PYTHONPATH": str(folder)}


def another_numpy(folder: Path) -> dict[str, str]:
    (folder / "numpy-0.1.dist-info").mkdir(parents=True)
    (folder / "numpy-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (lambda folder: another_copy(folder, "X = 1"), r"source of the suite: expected \w{12}, got \w{12}"),
        (another_numpy, r"numpy: expected [\d.]+, got 0.1"),
        pytest.param(
            lambda _: {"OPENBLAS_CORETYPE": "Sandybridge"},
            "got {'simd': 'X86_V3', 'blas': 'Sandybridge'}",
            marks=pytest.mark.skipif(not is_supported(), reason="no instructions in common with other processors"),
        ),
    ],
    ids=["source", "numpy", "instructions"],
)
def test_a_wrong_worker_is_refused_before_any_chunk_and_not_used_when_it_joins_late(
    suite, tmp_path, cluster, local_tables, environment, reason
):
    wrong = environment(tmp_path / "other")
    cluster.worker(**wrong)
    cluster.wait_for_workers(1)
    status, _, err = suite.run("run", "--scheduler", cluster.address)
    assert status == 1
    assert re.search(f"{reason}.*\n{CONTINUE}", err)
    assert suite.records() == {}
    for process in cluster.processes[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    cluster.worker()
    cluster.wait_for_workers(2)
    process = on_a_new_cluster(suite, cluster.address)
    cluster.worker(**wrong)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, ""), out
    assert suite.tables() == local_tables
