"""The command line called in this process, as a new one takes a second and more to import what it needs."""

import signal
from subprocess import CompletedProcess

from typer.testing import CliRunner

from experiments.__main__ import app


def call(*words: object) -> CompletedProcess[str]:
    """The exit status, output and messages of a command; a fault of the suite, not of its input, is raised."""
    handlers = {sent: signal.getsignal(sent) for sent in (signal.SIGINT, signal.SIGTERM)}
    arguments = [str(word) for word in words]
    try:
        ran = CliRunner().invoke(app, arguments, prog_name="python -m experiments", catch_exceptions=False)
    finally:
        for sent, handler in handlers.items():
            signal.signal(sent, handler)
    return CompletedProcess(arguments, ran.exit_code, ran.stdout, ran.stderr)
