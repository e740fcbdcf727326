"""The command line on a config and a results folder of its own, in processes as a user starts
them.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIG = """\
seed: 0
sweeps:
  first:
    experiment: saturation
    d_k: [16, 200, 256]
    n_keys: 64
    scaling: [unscaled, d_k^1/2]
    trials: TRIALS
  second:
    experiment: saturation
    d_k: [64, 128]
    n_keys: 8
    scaling: d_k^1/2
    trials: TRIALS0
"""


def captured(*command, cwd=ROOT, **options):
    """A process with its output and messages as text, whatever its status."""
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, **options)


class Suite:
    """The command line on a config and a results folder of its own."""

    def __init__(self, folder, trials, text=CONFIG):
        folder.mkdir(exist_ok=True)
        self.results = folder / "out"
        self.text = text
        self.config = folder / "faults.yaml"
        self.set_trials(trials)

    def set_trials(self, trials):
        self.config.write_text(self.text.replace("TRIALS", str(trials)))

    def start(self, *words):
        files = ["--config", self.config, "--results", self.results]
        return subprocess.Popen(
            [sys.executable, "-m", "experiments", *words, *files],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def run(self, *words, timeout=300):
        process = self.start(*words)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
        return process.returncode, out, err

    def records(self):
        """The records that are there, and when each was written."""
        paths = (self.results / ".cells").rglob("[0-9a-f]*")
        return {path.name: path.stat().st_mtime_ns for path in paths if path.is_file()}

    def tables(self):
        return {
            path.relative_to(self.results).as_posix(): path.read_bytes()
            for path in self.results.rglob("*.csv")
        }


def ends_within(seconds, group):
    """True if no process of a group is left after that time at most."""
    for _ in range(int(seconds / 0.05)):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False
