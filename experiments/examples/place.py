"""Paths of the worked examples: their table and figures in the results folder."""

from pathlib import Path

EXAMPLES = "examples"  # the table of the worked examples, and the folder of the table and the figures
WALK = "walk"  # the folder of a user's own matrices, and the name of their table and figure


def example_path(results: Path, name: str, suffix: str) -> Path:
    """A file of a worked example's figure; for the name `examples`, the table of all examples."""
    return results / EXAMPLES / f"{name}{suffix}"
