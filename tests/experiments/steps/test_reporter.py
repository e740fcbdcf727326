"""What a reporter shows of the sentences that steps tell it: everything, or counts and what needs a look."""

from pathlib import Path

import pandas as pd
import pytest

from experiments.harness.compare import Change, compare
from experiments.harness.tables import csv_bytes
from experiments.steps.reporter import reporter

TABLE = csv_bytes(pd.DataFrame({"x": [1.0, 2.0]}))
CHANGES = {
    "new": compare(None, TABLE),
    "identical": compare(TABLE, TABLE),
    "equal": compare(TABLE.replace(b"2", b"2.0000000001"), TABLE),
    "other": compare(TABLE.replace(b"2", b"3"), TABLE),
    "no table": compare(b"\xff", TABLE),
    "shorter": compare(TABLE[:-2], TABLE),
    "old": Change("removed", "the sweep no longer has it"),
}


@pytest.fixture
def plain(monkeypatch):
    """An environment as in a pipe, where nothing asks for colours."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def told(*, verbose: bool) -> None:
    """What a command tells that writes tables with every kind of change, and draws one of two figures."""
    with reporter(verbose=verbose) as report:
        for name, change in CHANGES.items():
            report.table(Path(f"a/{name}.csv"), change)
        report.current(Path("a/current.csv"))
        for name in ("drawn", "kept"):
            report.figure(Path(f"a/{name}.png"), "It shows: something.", drawn=name == "drawn")
        report.verdict("agreed", "all")
    report.next("look")


@pytest.mark.usefixtures("plain")
def test_only_tables_that_differ_are_named_and_the_others_counted(capsys):
    told(verbose=False)
    assert capsys.readouterr().out.splitlines() == [
        "wrote a/other.csv: different: x in row 2: 3 before, 2 now",
        "wrote a/no table.csv: different: the previous file is not a table",
        "wrote a/shorter.csv: different: 1 rows before, 2 now",
        "removed a/old.csv: the sweep no longer has it",
        "tables: 1 new, 1 unchanged, 1 equal to rounding, 3 different, 1 removed, 1 up to date",
        "figures: 1 drawn, 1 up to date",
        "agreed: all",
        "flagged: nothing",
        "next: look",
    ]


@pytest.mark.usefixtures("plain")
def test_flags_are_printed_in_full_at_once_and_counted_at_the_end(capsys):
    with reporter(verbose=False) as report:
        report.flag("a chunk is damaged")
        assert capsys.readouterr().out == "a chunk is damaged\n"
    assert capsys.readouterr().out == "flagged: 1 line above\n"


@pytest.mark.usefixtures("plain")
def test_a_command_that_fails_tells_what_it_did_and_does_not_call_that_good(capsys):
    def fail() -> None:
        with reporter(verbose=False) as report:
            report.verdict("checked", "1 sweep")
            report.table(Path("a.csv"), Change("new"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert capsys.readouterr().out == "tables: 1 new\nchecked: 1 sweep\n"
