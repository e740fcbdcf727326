"""The memory of this machine, which bounds that of its workers."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from experiments.measuring.cells import Cell
from experiments.measuring.columns import axis_values

GIB = 2**30
_OF_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def machine_memory() -> int:
    """Bytes of this machine, or those that its container may use, if fewer; in use or not."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # the word "max", without a limit
        memory = min(memory, int(_OF_CONTAINER.read_text()))
    return memory


def growing(cell: Cell) -> list[str]:
    """The sizes of a cell whose half saves a tenth of its memory at least."""
    sizes = {name: value for name, value in axis_values(cell).items() if isinstance(value, int)}
    halves = {name: replace(cell, **{name: max(value // 2, 1)}) for name, value in sizes.items()}
    return [name for name, half in halves.items() if half.memory < 0.9 * cell.memory]
