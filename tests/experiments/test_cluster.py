"""Runs on a Dask cluster, on real processes: a scheduler and workers as a user starts them, on this machine."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from experiments.harness.processor import is_supported
from tests.suite_process import ROOT, Suite

pytestmark = pytest.mark.cluster

TRIALS = 3000
CONTINUE = r"finished work is kept\. To continue: make all CONFIG=.* SCHEDULER=.*\n"
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
from experiments.harness import cluster

measure = cluster.measure_record

def deadly(chunk, seed, stamp):
    if chunk.cell.d_k == 200:
        os.kill(os.getpid(), signal.SIGKILL)
    return measure(chunk, seed, stamp)

def dask_setup(worker):
    cluster.measure_record = deadly
"""


class Cluster:
    """A scheduler and workers; each worker is a group of processes, its nanny and the process that measures.

    Args:
        folder: of its files.
        security: options of all processes.
    """

    def __init__(self, folder: Path, *security: str) -> None:
        folder.mkdir()
        self.folder, self.security = folder, security
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start("scheduler", "--host=127.0.0.1", "--port=0", f"--scheduler-file={self.file}")
        wait_for(self.file.exists)
        time.sleep(0.2)  # until the file is whole
        self.address = json.loads(self.file.read_text())["address"]

    def start(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{words[0]}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [Path(sys.executable).with_name("dask"), *words, *self.security, "--no-dashboard"],
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


@pytest.mark.parametrize("workers", [1, 3])
def test_tables_and_trials_do_not_depend_on_the_workers(suite, cluster, local_tables, workers):
    """One of them joins late."""
    cluster.worker()
    process = on_a_new_cluster(suite, cluster.address)
    for _ in range(1, workers):
        cluster.worker()
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert "lost worker" not in out
    assert suite.tables() == local_tables


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


def test_another_server_answers_at_the_address(suite):
    """For example Dask's own dashboard."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_port}"
        status, _, err = suite.run("run", "--scheduler", address, timeout=30)
        server.shutdown()
    assert status == 1
    assert re.fullmatch(rf"no scheduler answers at {address}: .+\n{CONTINUE}", err)


@pytest.mark.parametrize(("content", "found"), [(None, "nothing"), ("{}", "a file without an address")])
def test_a_missing_or_damaged_scheduler_file_is_an_error(suite, tmp_path, content, found):
    file = tmp_path / "scheduler.json"
    if content:
        file.write_text(content)
    status, _, err = suite.run("run", "--scheduler-file", str(file))
    assert status == 1
    assert err.startswith(f"{file}: expected the file that `dask scheduler --scheduler-file` writes, got {found}\n")


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


def test_tls_admits_only_a_client_with_the_certificate_of_the_cluster(suite, tmp_path, local_tables):
    if not shutil.which("openssl"):
        pytest.skip("the certificates need the command openssl")

    def certificate(name: str) -> dict[str, Path]:
        made, key = tmp_path / f"{name}.pem", tmp_path / f"{name}-key.pem"
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"]
        subprocess.run([*words, "-out", made, "-keyout", key], check=True, capture_output=True)
        return {"ca-file": made, "cert": made, "key": key}

    ours, foreign = certificate("ours"), certificate("foreign")
    options = [f"--tls-{name}={path}" for name, path in ours.items()]
    with contextlib.closing(Cluster(tmp_path / "cluster", "--protocol=tls", *options)) as cluster:
        cluster.worker()
        assert cluster.address.startswith("tls://")

        def run(**environment: Path) -> tuple[int, str, str]:
            given = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path) for name, path in environment.items()}
            return suite.run("run", "--scheduler", cluster.address, env=os.environ | given)

        for given in ({}, {"CLIENT__CERT": foreign["cert"], "CLIENT__KEY": foreign["key"]}):
            status, _, err = run(CA_FILE=ours["ca-file"], **given)
            assert status == 1
            assert err.startswith(f"no scheduler answers at {cluster.address}: ")
        assert suite.records() == {}
        assert run(CA_FILE=ours["ca-file"], CLIENT__CERT=ours["cert"], CLIENT__KEY=ours["key"])[::2] == (0, "")
        assert suite.tables() == local_tables


def another_copy(folder: Path, line: str) -> dict[str, str]:
    """The environment of a worker with another copy of the suite, which has this line too."""
    for package in ("sdpa", "experiments"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    seeds = folder / "experiments" / "harness" / "seeds.py"
    seeds.write_text(f"{seeds.read_text()}\n{line}\n")
    return {"PYTHONPATH": str(folder)}


def another_numpy(folder: Path) -> dict[str, str]:
    (folder / "numpy-0.1.dist-info").mkdir(parents=True)
    (folder / "numpy-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    return {"PYTHONPATH": str(folder)}


def another_experiments(folder: Path) -> dict[str, str]:
    (folder / "experiments").mkdir(parents=True)
    (folder / "experiments" / "__init__.py").write_text("")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("words", "environment", "reason"),
    [
        ((), lambda folder: another_copy(folder, "X = 1"), r"source of the suite: expected \w{12}, got \w{12}"),
        ((), another_numpy, r"numpy: expected [\d.]+, got 0.1"),
        ((), another_experiments, "No module named 'experiments.harness'"),
        (("--memory-limit=200MB",), lambda _: {}, r"sweep \w+, cell d_k=\d+, .* needs about \d+ MiB"),
        pytest.param(
            (),
            lambda _: {"OPENBLAS_CORETYPE": "Sandybridge"},
            "got {'simd': 'X86_V3', 'blas': 'Sandybridge'}",
            marks=pytest.mark.skipif(not is_supported(), reason="no instructions in common with other processors"),
        ),
    ],
    ids=["source", "numpy", "suite", "memory", "instructions"],
)
def test_a_wrong_worker_is_refused_before_any_chunk_and_not_used_when_it_joins_late(
    suite, tmp_path, cluster, local_tables, words, environment, reason
):
    wrong = environment(tmp_path / "other")
    cluster.worker(*words, **wrong)
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
    cluster.worker(*words, **wrong)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, ""), out
    assert suite.tables() == local_tables


def test_a_comment_makes_no_other_source(suite, tmp_path, cluster, local_tables):
    cluster.worker(**another_copy(tmp_path / "other", "# A comment."))
    assert suite.run("run", "--scheduler", cluster.address)[::2] == (0, "")
    assert suite.tables() == local_tables


def test_without_workers_the_run_waits_and_then_says_so(suite, cluster):
    limit = {"env": os.environ | {"DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT": "3s"}}
    status, out, err = suite.run("run", "--scheduler", cluster.address, **limit)
    assert status == 1
    assert out.splitlines()[1] == f"no workers at {cluster.address}; waiting for up to 3 s"
    assert re.fullmatch(f"no workers at {cluster.address} for 3 s\n{CONTINUE}", err)


def test_plan_divides_by_the_threads_of_the_cluster(suite, cluster):
    suite.set_trials(10**6)
    status, _, err = suite.run("plan", "--scheduler", cluster.address)
    assert (status, err) == (1, f"expected workers at {cluster.address}, got none\n")
    for _ in range(3):
        cluster.worker()
    cluster.wait_for_workers(3)
    status, out, _ = suite.run("plan", "--scheduler", cluster.address)
    assert status == 0
    assert f"with the cluster at {cluster.address} (3 at a time)" in out
    minutes = {jobs: re.search(r"about (\d+) min", suite.run("plan", "--jobs", jobs)[1])[1] for jobs in "13"}
    assert f"about {minutes['3']} min" in out
    assert minutes["3"] != minutes["1"]
