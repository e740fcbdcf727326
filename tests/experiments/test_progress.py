"""Progress of a run, on a terminal and in a log."""

import pytest

from experiments.harness import progress
from experiments.harness.progress import reporting

LINE = f"wrote :key:/[red]{'long' * 40}.csv: new"


@pytest.fixture
def told(monkeypatch, capsys):
    """What a run of 8 seconds tells that has finished 2 and said a line."""

    def tell(**environment: str) -> str:
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with reporting(8.0) as report:
            report.advance("scaling", 2.0)
            report.line(LINE)
        return capsys.readouterr().out

    return tell


def test_a_log_of_a_short_run_has_its_lines_alone_and_as_they_are(told):
    assert told() == f"{LINE}\n"


def test_a_log_of_a_long_run_shows_that_it_is_alive(told, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    alive, line = told().splitlines()
    assert alive.split()[0] == "scaling"
    assert " 25% " in alive
    assert line == LINE


def test_a_terminal_has_a_bar_and_the_lines(told):
    shown = told(FORCE_COLOR="1")
    assert LINE in shown
    assert "scaling" in shown
    assert " 25%" in shown
