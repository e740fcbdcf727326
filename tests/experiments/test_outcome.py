"""The exit status of commands that a signal stops."""

import pytest
import typer

from experiments import commands as module


def plain(stop) -> None:
    stop()


def hidden(stop) -> None:
    """As the import of a compiled module reports an exception in it."""
    try:
        stop()
    except BaseException as error:
        raise ImportError("initialization failed") from error


@pytest.mark.parametrize(("stop", "status"), [(module._interrupt, 130), (module._terminate, 143)])
@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_signal_has_its_status_also_if_an_import_hides_it(stop, status, is_hidden, monkeypatch, capsys):
    monkeypatch.setattr(module, "_catch_signals", lambda: None)
    with pytest.raises(typer.Exit) as caught, module.outcome():
        (hidden if is_hidden else plain)(stop)
    assert caught.value.exit_code == status
    assert capsys.readouterr().err.startswith("interrupted; finished work is kept.")


def test_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(module, "_catch_signals", lambda: None)
    with pytest.raises(ZeroDivisionError), module.outcome():
        raise ZeroDivisionError
