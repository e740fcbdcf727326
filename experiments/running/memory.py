"""The memory of this machine, which bounds that of its workers."""

import os
from contextlib import suppress
from pathlib import Path

GIB = 2**30
_OF_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def machine_memory() -> int:
    """Bytes of this machine, or those that its container may use, if fewer; in use or not."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # the word "max", without a limit
        memory = min(memory, int(_OF_CONTAINER.read_text()))
    return memory
