"""The order in which chunks go to workers, and the deaths that end a run; no cluster takes part."""

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.distribution import EXPERIMENT, Cell
from experiments.harness.cluster.waiting import Group, WaitingChunks
from experiments.harness.grid import Chunk
from experiments.harness.problems import MeasurementError
from experiments.harness.store import Store
from experiments.harness.work import Task

STORE = Store(Path("nowhere"), 0)


def tasks(number: int, d_k: int = 64, trials: int = 100) -> list[Task]:
    return [Task(Chunk(EXPERIMENT, Cell(d_k=d_k), index, trials), STORE, ["wide"]) for index in range(number)]


def take_all(waiting: WaitingChunks, threads: int = 1, *, idle: bool = True) -> list[Group]:
    return list(iter(lambda: waiting.take(threads, idle=idle), None))


def test_it_needs_no_dask():
    code = "import sys; import experiments.harness.cluster.waiting; sys.exit('distributed' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)


def test_every_chunk_goes_out_once_and_in_order():
    given = tasks(200)
    groups = take_all(WaitingChunks(given), threads=8)
    assert [task for group in groups for task in group.tasks] == given
    assert not any(group.alone for group in groups)


def test_groups_grow_with_the_workers_up_to_a_limit():
    given = tasks(200, trials=round(0.02 / tasks(1, trials=1)[0].seconds))  # of 0.02 s each
    sizes = [len(WaitingChunks(given).take(threads, idle=True).tasks) for threads in (1, 7, 10**9)]
    assert sizes == [1, 4, 64]


def test_chunks_of_a_worker_that_left_go_out_first_and_together():
    waiting = WaitingChunks(tasks(200))
    left = [waiting.take(10**9, idle=True) for _ in range(2)]
    for group in left:
        waiting.put_back(group)
    again = [waiting.take(1, idle=False) for _ in range(2)]
    assert [group.tasks for group in again] == [group.tasks for group in left]
    assert not any(group.alone for group in again)


def test_a_chunk_that_was_alone_with_a_worker_that_left_remains_alone():
    waiting = WaitingChunks(tasks(1))
    suspect = die(waiting, waiting.take(1, idle=True), 0)
    waiting.put_back(suspect)
    assert waiting.take(1, idle=False) is None
    assert [(each.tasks, each.alone) for each in take_all(waiting)] == [(suspect.tasks, True)]


def test_chunks_of_a_worker_that_died_go_to_idle_workers_alone():
    waiting = WaitingChunks(tasks(2))
    group = waiting.take(10**9, idle=True)
    assert len(group.tasks) == 2
    waiting.put_back_suspects(group, sent=0, now=1)
    assert waiting.suspected_cells() == ["d_k=64"]
    assert waiting.take(1, idle=False) is None
    assert [(each.tasks, each.alone) for each in take_all(waiting)] == [((task,), True) for task in group.tasks]
    assert waiting.suspected_cells() == []


def die(waiting: WaitingChunks, group: Group, sent: float) -> Group:
    """A worker dies one second after it got a group; the next group."""
    waiting.put_back_suspects(group, sent, sent + 1)
    return waiting.take(1, idle=True)


def test_three_deaths_in_a_row_with_one_chunk_alone_name_its_cell():
    waiting = WaitingChunks(tasks(1))
    group = waiting.take(1, idle=True)
    for sent in (0, 10, 20):  # the first death does not count: the chunk was not alone
        group = die(waiting, group, sent)
    with pytest.raises(MeasurementError, match=r"sweep wide, cell d_k=64.*: 3 workers in a row died while they"):
        die(waiting, group, 30)


def alone(task: Task) -> Group:
    return Group((task,), alone=True)


def test_deaths_with_several_chunks_of_a_cell_count_together():
    one, two, three = tasks(3)
    waiting = WaitingChunks([])
    die(waiting, alone(one), 0)
    die(waiting, alone(two), 10)
    with pytest.raises(MeasurementError):
        die(waiting, alone(three), 20)


def test_deaths_at_the_same_time_count_once():
    """Machines that leave together take all workers with them."""
    waiting = WaitingChunks([])
    for task in tasks(10):
        die(waiting, alone(task), 0)


def test_the_same_chunk_counts_even_among_deaths_at_the_same_time():
    (one,), (other,) = tasks(1), tasks(1, d_k=128)
    waiting = WaitingChunks([])
    for _ in range(2):
        die(waiting, alone(one), 0)
        die(waiting, alone(other), 0)
    with pytest.raises(MeasurementError, match="d_k=64"):
        die(waiting, alone(one), 0)


def test_deaths_with_other_cells_do_not_count():
    waiting = WaitingChunks([])
    for sent, d_k in enumerate((64, 128, 256)):
        die(waiting, alone(tasks(1, d_k)[0]), 10 * sent)


def test_a_success_with_the_cell_acquits_it():
    one, two, three, four = tasks(4)
    waiting = WaitingChunks([])
    die(waiting, alone(one), 0)
    die(waiting, alone(two), 10)
    waiting.acquit(three)
    die(waiting, alone(three), 20)
    die(waiting, alone(four), 30)
