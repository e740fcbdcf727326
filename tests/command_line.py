"""The command line, mostly called in this process: a new one takes a second and more to import what
it needs.
"""

import sys
from subprocess import CompletedProcess

from typer.testing import CliRunner

from experiments.__main__ import app
from tests.suite_process import captured

SMALL = """\
seed: 0
sweeps:
  mine:
    experiment: saturation
    d_k: [1000, 2000]
    n_keys: 30
    n_queries: 4
    scaling: d_k^1
    trials: 3
"""


def call(*words):
    """The exit status, output and messages of a command."""
    arguments = [str(word) for word in words]
    ran = CliRunner().invoke(
        app, arguments, prog_name="python -m experiments", catch_exceptions=False
    )
    return CompletedProcess(arguments, ran.exit_code, ran.stdout, ran.stderr)


def in_a_process(*words):
    return captured(sys.executable, "-m", "experiments", *words)


def printed(ran):
    """The output of a command that succeeds without a message."""
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


class Suite:
    """The command line on a config in a folder of its own, with its results beside it."""

    def __init__(self, folder, call):
        self.config, self.folder, self._call = folder / "small.yaml", folder / "out", call
        self.config.write_text(SMALL)

    def __call__(self, *words, text=None):
        if text is not None:
            self.config.write_text(text)
        return self._call(*words, "--config", str(self.config), "--results", str(self.folder))
