"""Config-driven sweeps of scaled dot-product attention: measured in tables, analysed, drawn.

`kinds` has the experiments and `config` reads which of them to run; experiments/README.md shows all
folders. From Python, `run` measures a config (`experiments.commands.entry`).
"""

import gc
import os
from typing import TYPE_CHECKING

from experiments.measuring.processor import fix_arithmetic

# Before any module here imports NumPy. With more threads, BLAS would split its sums by their number,
# and threads would wait at the cost of other workers. NumPy and SciPy each read this as they load.
fix_arithmetic()
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# Modules and tables stay until the end: looking for garbage among them took an eighth of a short run.
gc.set_threshold(500_000)

if TYPE_CHECKING:
    from experiments.commands.entry import run as run


def __getattr__(name: str) -> object:
    # Not at the top: workers and most commands do not need the packages that it loads.
    if name == "run":
        from experiments.commands.entry import run

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
