"""A tiny config of every experiment, measured and drawn once for all tests that only read it."""

import fcntl
import shutil
import signal
from dataclasses import replace

import pytest

from experiments.commands.job import Job
from experiments.commands.measure import measure
from experiments.config.loader import load_config
from experiments.figures.draw import draw_sweeps
from experiments.page import explorer
from experiments.running import workers as local
from experiments.running.workers import LocalWorkers
from experiments.tables.all_results import AllResults
from experiments.tables.reporter import Reporter
from tests.command_line import Suite, call
from tests.examples import load_sweeps, tiny_sweeps

_DRAWN = {"scaling": ("variance",), "single": ("variance",), "map": ("map",)}


@pytest.fixture(scope="session")
def made_once(request, tmp_path_factory):
    """A folder of a name that the first process of this test run to ask for it fills, and that the
    others wait for.

    If filling it fails, the next process that asks begins with an empty folder, and fails by
    itself.
    """
    folder = tmp_path_factory.getbasetemp()
    # of all workers of pytest-xdist
    shared = folder.parent if hasattr(request.config, "workerinput") else folder

    def made(name, fill):
        done, begun = shared / f"once-{name}", shared / f"once-{name}.begun"
        with (shared / f"once-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # it goes with the process, however that ends
            if not done.exists():
                shutil.rmtree(begun, ignore_errors=True)
                begun.mkdir()
                fill(begun)
                begun.rename(done)
        return done

    return made


@pytest.fixture(scope="session")
def tiny(made_once):
    """The tiny config and the folder of its tables."""

    def fill(folder):
        config = load_sweeps(folder, tiny_sweeps())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalWorkers, "measure", _measured_here)
            patch.setattr(local, "_FEW", 99)
            measure(Job(config, folder, Reporter(verbose=True)))

    folder = made_once("tiny", fill)
    # Not written again: another worker may be reading it.
    return load_config(folder / "tiny.yaml"), folder


@pytest.fixture(scope="session")
def drawn(tiny, made_once):
    """The tiny config with few figures, and the folder of its drawn results."""
    config, source = tiny
    sweeps = [replace(sweep, figures=_DRAWN.get(sweep.name, ())) for sweep in config.sweeps]
    config = replace(config, sweeps=tuple(sweeps))

    def fill(folder):
        shutil.copytree(source, folder, dirs_exist_ok=True)
        draw_sweeps(
            AllResults(config, folder), config.sweeps, jobs=2, report=Reporter(verbose=True)
        )

    return config, made_once("drawn", fill)


def _measured_here(_workers, tasks):
    for task in tasks:
        yield task, task.chunk.packed()


@pytest.fixture
def ctrl_c():
    """SIGINT as in a terminal; jobs in the background and nohup ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def in_this_process(monkeypatch):
    """Chunks measured one after the other in this process, since a worker takes longer to start
    than they take.
    """
    monkeypatch.setattr(LocalWorkers, "measure", _measured_here)


@pytest.fixture
def quick_slider(monkeypatch):
    """The page without the seconds that the expectations of its explorer take."""
    monkeypatch.setattr(explorer, "row_means", lambda _widths, _lengths: {"sigma": 1.0, "of": {}})
    monkeypatch.setattr(explorer, "EXACT_CROSSINGS", dict.fromkeys(explorer.EXACT_CROSSINGS, float))


@pytest.fixture
def suite(tmp_path, in_this_process):  # noqa: ARG001
    """Commands that are called in this process, and so measure."""
    return Suite(tmp_path, call)
