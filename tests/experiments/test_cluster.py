"""Runs on a Dask cluster, on real processes: a scheduler and workers as a user starts them, on this machine."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest

from experiments.distribution import EXPERIMENT, Cell
from experiments.harness.grid import Chunk
from experiments.harness.processor import is_supported
from experiments.harness.store import Store
from experiments.harness.work import Task
from tests.suite_process import ROOT, Suite, ends_within

pytestmark = pytest.mark.cluster

TRIALS = 6000
CONTINUE = r"finished work is kept\. To continue: make all CONFIG=.* SCHEDULER=.*\n"
# The trials of each cell follow from a pilot.
PRECISE = """\
seed: 0
sweeps:
  precise:
    experiment: saturation
    d_k: [16, 64, 256]
    n_keys: 64
    scaling: [unscaled, d_k^1/2]
    precision: 0.006
"""
# Loaded into the scheduler: appends the name of every finished task to a file.
COUNTING = """
from pathlib import Path
from distributed.diagnostics.plugin import SchedulerPlugin

class Counting(SchedulerPlugin):
    def transition(self, key, start, finish, *_, **__):
        if str(key).startswith("sdpa-") and (start, finish) == ("processing", "memory"):
            with Path({path!r}).open("a") as file:
                file.write(str(key) + chr(10))

def dask_setup(scheduler):
    scheduler.add_plugin(Counting())
"""
# Loaded into a worker: a chunk of this cell kills its process, as the kernel does when memory runs out.
KILLING = """
import os, signal
from experiments.harness.cluster import remote

measure = remote.measure_record

def deadly(chunk, seed, stamp):
    if chunk.cell.d_k == 200:
        os.kill(os.getpid(), signal.SIGKILL)
    return measure(chunk, seed, stamp)

def dask_setup(worker):
    remote.measure_record = deadly
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
        self.counted = folder / "counted"
        (folder / "counting.py").write_text(COUNTING.format(path=str(self.counted)))
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start(
            "scheduler",
            "--host=127.0.0.1",
            "--port=0",
            f"--scheduler-file={self.file}",
            f"--preload={folder}/counting.py",
        )
        while not self.file.exists():
            assert self.scheduler.poll() is None, self.log("scheduler")
            time.sleep(0.05)
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

    def worker(self, *words: str, nanny: bool = True, **environment: str) -> subprocess.Popen[bytes]:
        nannies = "--nanny" if nanny else "--no-nanny"
        return self.start("worker", self.address, "--nthreads=1", nannies, *words, **environment)

    def log(self, kind: str) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob(f"{kind}*.log")))

    def tasks(self) -> int:
        """Tasks that the scheduler knows now."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))

    def measured(self) -> list[str]:
        """The finished tasks, each of one chunk or of several small ones."""
        return self.counted.read_text().split() if self.counted.exists() else []

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
def certificates(tmp_path) -> Callable[[str], dict[str, Path]]:
    """Makes certificates that sign themselves, each with its key, by the names of Dask's options."""
    if not shutil.which("openssl"):
        pytest.skip("the certificates need the command openssl")

    def make(name: str) -> dict[str, Path]:
        certificate, key = tmp_path / f"{name}.pem", tmp_path / f"{name}-key.pem"
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"]
        subprocess.run([*words, "-out", certificate, "-keyout", key], check=True, capture_output=True)
        return {"ca-file": certificate, "cert": certificate, "key": key}

    return make


@pytest.fixture(scope="module")
def local_tables(tmp_path_factory) -> dict[str, bytes]:
    """The tables of a run on local processes."""
    suite = Suite(tmp_path_factory.mktemp("local"), TRIALS)
    assert suite.run("run")[0] == 0
    return suite.tables()


def wait_for(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_tables_do_not_depend_on_the_number_of_workers(tmp_path, cluster, local_tables, workers):
    for _ in range(workers):
        cluster.worker()
    suite = Suite(tmp_path, TRIALS)
    assert suite.run("run", "--scheduler-file", str(cluster.file))[::2] == (0, "")
    assert suite.tables() == local_tables
    assert len(cluster.measured()) <= len(suite.records())  # small chunks go out together; none is measured twice


def test_pilots_on_the_cluster_request_the_same_trials(tmp_path, cluster):
    for _ in range(2):
        cluster.worker()
    made = []
    for name, words in {"here": ("--jobs", "2"), "there": ("--scheduler", cluster.address)}.items():
        (tmp_path / name).mkdir()
        suite = Suite(tmp_path / name, TRIALS)
        suite.config.write_text(PRECISE)
        status, out, err = suite.run("run", "--verbose", *words)
        assert (status, err) == (0, "")
        made.append((suite.tables(), set(suite.records()), re.findall("precise: .*", out)))
    assert made[0] == made[1]
    assert len(set(pd.read_csv(suite.results / "precise.csv")["trials"])) == 3  # each cell has its own
    assert cluster.measured()


def test_half_on_the_cluster_and_half_here(tmp_path, cluster, local_tables):
    cluster.worker()
    suite = Suite(tmp_path, TRIALS)
    process = suite.start("run", "--scheduler", cluster.address)
    wait_for(lambda: len(suite.records()) >= 5)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 143
    begun = suite.records()
    assert suite.run("run")[0] == 0
    assert {name: suite.records()[name] for name in begun} == begun
    assert suite.tables() == local_tables


def test_killed_workers_cost_their_current_chunk_alone(tmp_path, cluster, local_tables):
    """Three of four workers, one of them with its nanny, which would start another."""
    rng = random.Random(0)
    workers = [cluster.worker() for _ in range(4)]
    suite = Suite(tmp_path, TRIALS)
    process = suite.start("run", "--scheduler", cluster.address)
    for number, worker in enumerate(rng.sample(workers, 3)):
        wait_for(lambda: len(suite.records()) > 0)
        time.sleep(rng.uniform(0, 0.5))
        children = subprocess.run(["pgrep", "-P", str(worker.pid), "-f", "spawn_main"], capture_output=True, text=True)
        if number == 0:
            os.killpg(worker.pid, signal.SIGKILL)
        else:
            os.kill(int(children.stdout.split()[-1]), signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert suite.tables() == local_tables
    lost = re.findall(r"lost worker tcp://\S+; measuring (\d) chunk", out)
    assert 1 <= len(lost) <= 3  # a worker may be between two chunks
    assert len(cluster.measured()) - len(suite.records()) <= 3  # finished, but killed before the record was on its way


def test_a_worker_that_joins_late_takes_part_and_one_that_leaves_loses_nothing(tmp_path, cluster, local_tables):
    first = cluster.worker()
    suite = Suite(tmp_path, TRIALS)
    process = suite.start("run", "--scheduler", cluster.address)
    wait_for(lambda: suite.records())
    cluster.worker()
    wait_for(lambda: cluster.log("worker").count("Registered to") == 2)
    first.terminate()  # as a queueing system does
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "lost worker" in out
    assert suite.tables() == local_tables


def test_a_cell_that_kills_every_worker_is_named_and_all_else_is_kept(tmp_path, cluster):
    (cluster.folder / "killing.py").write_text(KILLING)
    for _ in range(2):
        cluster.worker(f"--preload={cluster.folder}/killing.py")
    suite = Suite(tmp_path, TRIALS)
    status, out, err = suite.run("run", "--scheduler", cluster.address)
    assert status == 1
    assert re.fullmatch(
        rf"sweep first, cell d_k=200, .*: 3 workers in a row died while they measured it \(killed.*\)\n{CONTINUE}", err
    )
    assert out.count("lost worker") <= 2 + 3 * 2  # each at first, then three times with one chunk alone
    kept = suite.records()
    assert kept
    assert suite.run("run")[0] == 0
    assert {name: suite.records()[name] for name in kept} == kept


def test_nothing_answers_at_the_address(tmp_path):
    suite = Suite(tmp_path, TRIALS)
    started = time.monotonic()
    status, _, err = suite.run("run", "--scheduler", "tcp://127.0.0.1:9")
    assert status == 1
    assert err.startswith("no scheduler answers at tcp://127.0.0.1:9: ")
    assert time.monotonic() - started < 30


def test_another_server_answers_at_the_address(tmp_path):
    """For example Dask's own dashboard."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.server_port}"
        status, _, err = Suite(tmp_path, TRIALS).run("run", "--scheduler", address, timeout=30)
        server.shutdown()
    assert status == 1
    assert err.startswith(f"no scheduler answers at {address}: expected an answer of Dask within ")


@pytest.mark.parametrize(("content", "found"), [(None, "nothing"), ("{}", "a file without an address")])
def test_a_missing_or_damaged_scheduler_file_is_an_error(tmp_path, content, found):
    file = tmp_path / "scheduler.json"
    if content:
        file.write_text(content)
    status, _, err = Suite(tmp_path, TRIALS).run("run", "--scheduler-file", str(file))
    assert status == 1
    assert err.startswith(f"{file}: expected the file that `dask scheduler --scheduler-file` writes, got {found}\n")


def test_the_client_waits_for_a_scheduler_file_that_is_not_whole_yet(tmp_path, cluster):
    file = tmp_path / "scheduler.json"
    file.write_text(cluster.file.read_text()[:10])
    process = Suite(tmp_path, TRIALS).start("plan", "--scheduler-file", str(file))
    time.sleep(3)
    assert process.poll() is None
    file.write_text(cluster.file.read_text())
    assert process.communicate(timeout=30)[1] == f"expected workers at {file}, got none\n"


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_scheduler_ends_the_run_and_a_later_one_resumes(tmp_path, cluster, local_tables, sent):
    cluster.worker()
    suite = Suite(tmp_path, TRIALS)
    process = suite.start("run", "--scheduler", cluster.address)
    wait_for(lambda: suite.records())
    os.killpg(cluster.scheduler.pid, sent)
    started = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 30
    assert process.returncode == 1
    assert re.fullmatch(rf"(lost the scheduler at|the scheduler at) {cluster.address}.*\n{CONTINUE}", err)
    kept = suite.records()
    assert suite.run("run")[0] == 0
    assert {name: suite.records()[name] for name in kept} == kept
    assert suite.tables() == local_tables


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_client_takes_its_tasks_back(tmp_path, cluster, sent, status):
    for _ in range(2):
        cluster.worker()
    suite = Suite(tmp_path, 10**6)
    process = suite.start("run", "--scheduler", cluster.address)
    wait_for(lambda: suite.records())
    process.send_signal(sent)
    _, err = process.communicate(timeout=20)
    assert process.returncode == status
    assert err.startswith("interrupted; finished work is kept.")
    assert err.endswith(f" SCHEDULER={cluster.address}\n")
    wait_for(lambda: cluster.tasks() == 0, seconds=5)


def test_a_killed_client_leaves_no_task_behind(tmp_path, cluster):
    cluster.worker()
    suite = Suite(tmp_path, 10**6)
    process = suite.start("run", "--scheduler", cluster.address)
    wait_for(lambda: suite.records())
    process.kill()
    process.communicate()
    assert ends_within(5, process.pid)
    wait_for(lambda: cluster.tasks() == 0, seconds=15)


def test_tls_admits_only_a_client_with_the_certificate_of_the_cluster(tmp_path, certificates, local_tables):
    ours, foreign = certificates("ours"), certificates("foreign")
    options = [f"--tls-{name}={path}" for name, path in ours.items()]
    with contextlib.closing(Cluster(tmp_path / "cluster", "--protocol=tls", *options)) as cluster:
        cluster.worker()
        assert cluster.address.startswith("tls://")
        suite = Suite(tmp_path, TRIALS)

        def run(**environment: Path) -> tuple[int, str, str]:
            given = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path) for name, path in environment.items()}
            return suite.run("run", "--scheduler", cluster.address, env=os.environ | given)

        for certificate in ({}, {"CLIENT__CERT": foreign["cert"], "CLIENT__KEY": foreign["key"]}):
            started = time.monotonic()
            status, _, err = run(CA_FILE=ours["ca-file"], **certificate)
            assert time.monotonic() - started < 30
            assert status == 1
            assert re.fullmatch(rf"no scheduler answers at {cluster.address}: .*\n{CONTINUE}", err)
        assert suite.records() == {}
        assert run(CA_FILE=ours["ca-file"], CLIENT__CERT=ours["cert"], CLIENT__KEY=ours["key"])[::2] == (0, "")
        assert suite.tables() == local_tables


def copy_of_the_suite(folder: Path) -> Path:
    for package in ("sdpa", "experiments"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def refusal(suite: Suite, cluster: Cluster, workers: int) -> str:
    """The reasons for which a run refuses one of so many workers, before it measures any chunk."""
    wait_for(lambda: cluster.log("worker").count("Registered to") == workers)
    status, _, err = suite.run("run", "--scheduler", cluster.address)
    assert status == 1
    assert suite.records() == {}
    assert cluster.measured() == []
    return re.fullmatch(rf"worker tcp://\S+ cannot take part: (.*)\n{CONTINUE}", err)[1]


def test_a_worker_with_another_source_is_refused_before_any_chunk(tmp_path, cluster):
    other = copy_of_the_suite(tmp_path / "other")
    seeds = other / "experiments" / "harness" / "seeds.py"
    seeds.write_text(f"{seeds.read_text()}\nX = 1\n")
    cluster.worker()
    cluster.worker(PYTHONPATH=str(other))
    reasons = refusal(Suite(tmp_path, TRIALS), cluster, workers=2)
    assert re.fullmatch(r"source of the suite: expected \w{12}, got \w{12}", reasons)


@pytest.mark.skipif(not is_supported(), reason="this processor has no instructions in common with others")
def test_a_worker_with_other_instructions_is_refused_before_any_chunk(tmp_path, cluster):
    cluster.worker(OPENBLAS_CORETYPE="Sandybridge")
    reasons = refusal(Suite(tmp_path, TRIALS), cluster, workers=1)
    assert "expected {'simd': 'X86_V3', 'blas': 'Haswell'}, got {'simd': 'X86_V3', 'blas': 'Sandybridge'}" in reasons


def test_a_comment_makes_no_other_source(tmp_path, cluster, local_tables):
    other = copy_of_the_suite(tmp_path / "other")
    seeds = other / "experiments" / "harness" / "seeds.py"
    seeds.write_text(f"# A comment.\n{seeds.read_text()}")
    cluster.worker(PYTHONPATH=str(other))
    suite = Suite(tmp_path, TRIALS)
    assert suite.run("run", "--scheduler", cluster.address)[0] == 0
    assert suite.tables() == local_tables


def test_a_worker_with_another_numpy_is_refused_and_one_that_joins_late_is_not_used(tmp_path, cluster, local_tables):
    other = tmp_path / "numpy-0.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    wrong = cluster.worker(PYTHONPATH=str(tmp_path))
    suite = Suite(tmp_path, TRIALS)
    assert re.fullmatch(r"numpy: expected [\d.]+, got 0.1", refusal(suite, cluster, workers=1))
    wrong.terminate()
    wrong.wait()
    cluster.worker()
    process = suite.start("run", "--scheduler", cluster.address)
    wait_for(lambda: suite.records())
    cluster.worker(PYTHONPATH=str(tmp_path))
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert re.search(r"worker tcp://\S+ cannot take part: numpy: expected [\d.]+, got 0.1\n", out)
    assert suite.tables() == local_tables


def test_a_worker_that_joins_during_the_pilots_and_is_refused_does_not_end_the_run(tmp_path, cluster):
    from experiments.harness.cluster.dask_cluster import DaskCluster

    other = tmp_path / "numpy-0.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    store = Store(tmp_path / "store", 0)
    pilots, chunks = ([Task(Chunk(EXPERIMENT, Cell(d_k=64), i, 100), store, ["one"])] for i in range(2))
    said: list[str] = []
    workers = DaskCluster(cluster.address, said.append)
    cluster.worker()
    assert len(list(workers.measure(pilots))) == 1
    cluster.worker(PYTHONPATH=str(tmp_path))
    wait_for(lambda: cluster.log("worker").count("Registered to") == 2)
    assert len(list(workers.measure(chunks))) == 1
    assert re.search("cannot take part: numpy: expected [0-9.]+, got 0.1$", said[-1])


def test_a_worker_without_the_suite_is_refused(tmp_path, cluster):
    """Its `experiments` is another package."""
    (tmp_path / "other" / "experiments").mkdir(parents=True)
    (tmp_path / "other" / "experiments" / "__init__.py").write_text("")
    cluster.worker(PYTHONPATH=str(tmp_path / "other"))
    reasons = refusal(Suite(tmp_path, TRIALS), cluster, workers=1)
    assert reasons == "ModuleNotFoundError: No module named 'experiments.harness'"


def test_a_chunk_that_needs_more_memory_than_a_worker_has_is_refused_by_name(tmp_path, cluster):
    cluster.worker("--memory-limit=200MB")
    reasons = refusal(Suite(tmp_path, TRIALS), cluster, workers=1)
    assert re.match(r"sweep \w+, cell d_k=\d+, .* needs about \d+ MiB with 1 thread,", reasons)


def test_a_second_client_on_the_same_results_is_refused(tmp_path, cluster):
    cluster.worker()
    suite = Suite(tmp_path, 10**6)
    first = suite.start("run", "--scheduler", cluster.address)
    wait_for(lambda: suite.records())
    status, _, err = suite.run("run", "--scheduler", cluster.address)
    assert status == 1
    assert "is in use by process" in err
    first.kill()
    first.communicate()


def test_without_workers_the_run_waits_and_then_says_so(tmp_path, cluster, local_tables):
    limit = {"env": os.environ | {"DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT": "3s"}}
    suite = Suite(tmp_path, TRIALS)
    status, out, err = suite.run("run", "--scheduler", cluster.address, **limit)
    assert status == 1
    measuring, waiting = out.splitlines()
    assert measuring.startswith("measuring ")
    assert waiting == f"no workers at {cluster.address} have answered; waiting for up to 3 s"
    assert re.fullmatch(f"no workers at {cluster.address} for 3 s\n{CONTINUE}", err)
    process = suite.start("run", "--scheduler", cluster.address)
    assert process.stdout.readline().startswith("measuring ")
    assert process.stdout.readline().startswith("no workers at ")  # at once, although no terminal reads it
    cluster.worker()
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert suite.tables() == local_tables


def test_plan_divides_by_the_threads_of_the_cluster(tmp_path, cluster):
    suite = Suite(tmp_path, 10**6)
    assert suite.run("plan", "--scheduler", cluster.address)[::2] == (
        1,
        f"expected workers at {cluster.address}, got none\n",
    )
    for _ in range(3):
        cluster.worker()
    wait_for(lambda: cluster.log("worker").count("Registered to") == 3)
    status, out, _ = suite.run("plan", "--scheduler", cluster.address)
    assert status == 0
    assert f"with the cluster at {cluster.address} (3 at a time)" in out
    minutes = {jobs: re.search(r"about (\d+) min", suite.run("plan", "--jobs", jobs)[1])[1] for jobs in "13"}
    assert f"about {minutes['3']} min" in out
    assert minutes["3"] != minutes["1"]


def test_options_that_exclude_each_other(tmp_path):
    status, _, err = Suite(tmp_path, 20).run("run", "--scheduler", "tcp://127.0.0.1:9", "--jobs", "2")
    assert status == 2
    assert err == "expected one of --jobs, --scheduler and --scheduler-file, got several\n"
