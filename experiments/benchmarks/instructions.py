"""The cost of the same instructions on every processor: the suite's time with them and with those of the libraries.

Libraries choose their instructions when they are loaded, so each way runs in processes of its own, which take turns.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from experiments.harness.processor import VARIABLES

FIXED, CHOSEN = "fixed instructions", "instructions chosen by the libraries"
_PROCESSES = 5  # of each way
_CHILD = "import numpy, scipy.linalg; from experiments.benchmarks.speed import time_sizes; print(time_sizes({sizes}))"

Size = tuple[int, int, int]


def instruction_rows(sizes: Sequence[Size]) -> Iterator[dict[str, Any]]:
    """Seconds per trial in both ways, the median over processes, as rows of speed.csv.

    Args:
        sizes: cells as d_k, n_keys and n_queries.
    """
    bare = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environments = {FIXED: bare | VARIABLES, CHOSEN: bare}
    took: dict[str, list[list[float]]] = {way: [] for way in environments}
    for _ in range(_PROCESSES):
        for way, environment in environments.items():
            command = [sys.executable, "-c", _CHILD.format(sizes=list(sizes))]
            ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            took[way].append(json.loads(ran.stdout))
    for way, of_processes in took.items():
        for size, seconds in zip(sizes, zip(*of_processes, strict=True), strict=True):
            sized = dict(zip(("d_k", "n_keys", "n_queries"), size, strict=True))
            yield {**sized, "part": "instructions", "gradients": True, "what": way, "seconds": median(seconds)}
