"""Progress of a run, on a terminal and in a log."""

import re

import pytest
from rich.console import Console

from experiments.steps import reporter
from experiments.steps.reporter import reporting

LINE = f"wrote :key:/[red]{'long' * 40}.csv: new"


@pytest.fixture
def told(monkeypatch, capsys):
    """What a run of 8 seconds tells that has finished 2 and said a line."""

    def tell(**environment: str) -> str:
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        console = Console()
        with reporting(console, 8.0) as advance:
            advance("scaling", 1.0)
            advance("scaling", 1.0)
            console.out(LINE, highlight=False)
        return capsys.readouterr().out

    return tell


def test_a_log_of_a_short_run_has_its_lines_alone_and_as_they_are(told):
    assert told() == f"{LINE}\n"


def test_a_log_of_a_long_run_shows_that_it_is_alive_and_labels_its_times(told, monkeypatch):
    monkeypatch.setattr(reporter, "SECONDS_BETWEEN_LINES", 0)
    first, second, line = told().splitlines()
    assert first.startswith("scaling: 12% of the run, elapsed 0:00:00")
    assert re.fullmatch(r"scaling: 25% of the run, elapsed 0:00:0\d, about 0:00:0\d remaining", second)
    assert line == LINE


def test_a_log_names_the_step_after_the_last_chunk_without_a_remaining_time(monkeypatch, capsys):
    monkeypatch.setattr(reporter, "SECONDS_BETWEEN_LINES", 0)
    with reporting(Console(), 2.0) as advance:
        advance("scaling", 2.0)
        advance("writing tables", 0.0)
    assert re.fullmatch(r"writing tables: 100% of the run, elapsed 0:00:0\d", capsys.readouterr().out.splitlines()[-1])


def test_a_terminal_has_a_bar_that_labels_its_times_and_the_lines(told):
    shown = told(FORCE_COLOR="1", COLUMNS="80")
    assert LINE in shown
    assert "scaling" in shown
    assert re.search(r" 25%\S* elapsed 0:00:0\d, about 0:00:0\d remaining", shown)
