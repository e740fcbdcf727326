"""The command `sdpa`."""

import contextlib
import io
from subprocess import CompletedProcess

from sdpa.tools.command.main import main


def sdpa(*words):
    """The exit status, output and messages of the command `sdpa`, called in this process."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            status = main([str(word) for word in words])
        except SystemExit as end:  # of words that argparse refuses
            status = int(end.code or 0)
    return CompletedProcess(words, status, out.getvalue(), errors.getvalue())
