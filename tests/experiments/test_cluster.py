"""Runs on a Dask cluster, on real processes: a scheduler and workers as a user starts them, on this
machine.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from signal import SIGINT, SIGKILL

import pytest

from tests.suite_process import ROOT, Suite

pytestmark = pytest.mark.cluster

TRIALS = 3000


class Cluster:
    """A scheduler and workers; each worker is a group of processes, its nanny and the process that
    measures.
    """

    def __init__(self, folder):
        folder.mkdir()
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.processes = []
        self.scheduler = self.start(
            "scheduler", "--host=127.0.0.1", "--port=0", f"--scheduler-file={self.file}"
        )
        wait_for(self.file.exists)
        time.sleep(0.2)  # until the file is whole
        self.address = json.loads(self.file.read_text())["address"]

    def start(self, *words, **environment):
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

    def worker(self, *words, **environment):
        return self.start("worker", self.address, "--nthreads=1", *words, **environment)

    def wait_for_workers(self, number):
        wait_for(lambda: self.workers_log().count("Registered to") == number)

    def workers_log(self):
        return "".join(path.read_text() for path in self.folder.glob("worker*.log"))

    def tasks(self):
        """Tasks that the scheduler knows now."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))

    def close(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    with contextlib.closing(Cluster(tmp_path / "cluster")) as made:
        yield made


@pytest.fixture
def suite(tmp_path):
    return Suite(tmp_path, TRIALS)


@pytest.fixture(scope="module")
def local_tables(tmp_path_factory):
    """The tables of a run on local processes."""
    suite = Suite(tmp_path_factory.mktemp("local"), TRIALS)
    assert suite.run("run")[0] == 0
    return suite.tables()


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def begun(suite, cluster):
    """A run on a cluster that has finished a chunk."""
    process = suite.start("run", "--scheduler", cluster.address)
    wait_for(lambda: suite.records() or process.poll() is not None)
    return process


def test_killed_workers_and_those_that_leave_change_no_byte(suite, cluster, local_tables):
    killed, left, _ = (cluster.worker() for _ in range(3))
    cluster.wait_for_workers(3)
    process = begun(suite, cluster)
    os.killpg(killed.pid, SIGKILL)
    left.terminate()  # as a queueing system does
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert "lost worker tcp://" in out
    assert suite.tables() == local_tables


def test_an_interrupted_client_leaves_no_task_behind(suite, cluster):
    cluster.worker()
    suite.set_trials(10**6)
    process = begun(suite, cluster)
    process.send_signal(SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "interrupted; finished work is kept; repeat the command to continue\n"
    wait_for(lambda: cluster.tasks() == 0, seconds=15)


def another_copy(folder):
    """The environment of a worker with a line more in the source of the suite."""
    for package in ("sdpa", "experiments"):
        shutil.copytree(ROOT / package, folder / package)
    with (folder / "experiments/measuring/chunk.py").open("a") as module:
        module.write("X = 1\n")
    return {"PYTHONPATH": str(folder)}


def test_a_worker_of_another_version_is_refused_whenever_it_joins(
    suite, tmp_path, cluster, local_tables
):
    wrong = another_copy(tmp_path / "other")
    refusal = r"worker \d+ on \S+ cannot take part: expected source \w{12}, .*, got source \w{12}, "
    first = cluster.worker(**wrong)
    cluster.wait_for_workers(1)
    status, _, err = suite.run("run", "--scheduler", cluster.address)
    assert status == 1
    assert re.match(refusal, err)
    assert suite.records() == {}
    os.killpg(first.pid, SIGKILL)
    cluster.worker()
    cluster.wait_for_workers(2)
    process = begun(suite, cluster)
    cluster.worker(**wrong)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert re.match(refusal, err)
    kept = suite.records()
    assert suite.run("run")[0] == 0  # on local processes
    assert kept.items() <= suite.records().items()
    assert suite.tables() == local_tables
