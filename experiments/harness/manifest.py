"""The record of the last run, manifest.json: not part of the results, because it differs from run to run.

It tells which source made the results on which machine with which libraries, and how much of the work was new.
"""

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.harness.files import write_atomically
from experiments.harness.fingerprint import versions
from experiments.harness.paths import MANIFEST
from experiments.harness.processor import arithmetic
from experiments.harness.run import Work, Workers


def write_manifest(results: Path, parts: Sequence[Work], workers: Workers, seconds: float) -> None:
    """Write which source ran where and for how long, and how many chunks it measured and reused.

    Args:
        results: the folder of manifest.json.
        parts: the pilots and the chunks of the run, as surveyed before it measured them.
        workers: measured the chunks.
        seconds: duration of the run.
    """
    manifest = {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 2),
        "workers": str(workers),
        "chunks": {
            "measured": sum(len(work.todo) for work in parts),
            "reused": sum(sum(work.chunks.values()) - sum(work.missing().values()) for work in parts),
            "damaged": sum(len(work.damaged) for work in parts),
        },
        "source": _source(),
        "machine": {
            "name": platform.node(),
            "system": platform.platform(),
            **arithmetic(),
            "processors": os.cpu_count(),
            "python": platform.python_version(),
            "packages": versions("numpy", "scipy", "pandas", "matplotlib", "seaborn"),
        },
    }
    write_atomically(results / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


def _source() -> dict[str, Any]:
    """The commit of this source, and whether it had uncommitted changes in tracked files; None for both without git."""
    here = Path(__file__).parent

    def git(*words: str) -> str | None:
        try:
            ran = subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return ran.stdout.strip()

    changes = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": git("rev-parse", "HEAD"), "clean": None if changes is None else not changes}
